"""`moor explain`: each node's answer about one member, and what would let the job fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import nodes as node_options
from mooring.cli import options
from mooring.cli.kube_options import Target, on_cluster, target_of
from mooring.cli.say import emit_json, say
from mooring.model.errors import BadInput

if TYPE_CHECKING:
    from mooring.explaining import Explanation
    from mooring.model.member import MemberId
    from mooring.model.plan import NodeVerdict

#: Nodes that answer alike are counted together beyond this many rows.
_MOST_ROWS = 40


@click.command()
@click.argument("job_file", metavar="JOB.yaml", type=click.Path(path_type=Path))
@click.argument("member", required=False)
@click.option(
    "--with",
    "others",
    metavar="OTHER.yaml",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A job that arrives before this one. Repeatable, in their order.",
)
@options.overrides
@node_options.where
@on_cluster("-n")
@options.output("table", "json")
def explain(
    job_file: Path,
    member: str | None,
    others: tuple[Path, ...],
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    cluster_file: Path | None,
    profile_name: str,
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    output: str,
) -> int:
    """Explain where a MEMBER would go: every node's refusal, or its score by rule.

    Without a MEMBER: the one that a refusal would name, or the first. If the job does not fit, or
    has to wait for others, each single change that would help is listed; all of them have been
    tried out. With --with, or on a cluster with pools, the queue decides as in `moor plan`.

    For a job of this machine's queue (its id instead of JOB.yaml), the queue as it is now answers.

    With --context, --kubeconfig or --namespace: on a cluster as it is now, for a job that was
    submitted (its name instead of JOB.yaml) or for a file, as if it were submitted now.
    """
    from mooring.explaining import explain as ask
    from mooring.spec import load_job

    target = target_of(context, kubeconfig, namespace)
    if target is not None:
        if others or nodes is not None or cluster_file is not None:
            found = "--with, --nodes or --cluster as well"
            raise BadInput.at("moor explain", "--context", found, "the cluster alone")
        return _show(_on_cluster(target, job_file, member, overrides), output)
    is_file = job_file.exists() or job_file.suffix in (".yaml", ".yml", ".json")
    if not is_file:
        from mooring.cli import queue_jobs

        queued = queue_jobs.find(str(job_file))
        if queued is not None:
            return _show(queue_jobs.explanation(str(queued["id"]), member), output)
    jobs = [(load_job(path), str(path)) for path in others]
    jobs.append((load_job(job_file, overrides), str(job_file)))
    cluster = node_options.cluster_of(nodes, nic_mbps, cluster_file)
    return _show(ask(jobs, cluster, member, node_options.profile_of(profile_name)), output)


def _on_cluster(
    target: Target, job: Path, member: str | None, overrides: tuple[str, ...]
) -> Explanation:
    import asyncio
    import time

    from mooring.backends.kubernetes.api.client import Client
    from mooring.backends.kubernetes.client.cluster import read_cluster
    from mooring.backends.kubernetes.client.explain import explain_job
    from mooring.backends.kubernetes.client.jobs import find_job
    from mooring.backends.kubernetes.client.render import arriving
    from mooring.backends.kubernetes.client.submit import manifest_of
    from mooring.spec import load_job

    is_file = job.exists() or job.suffix in (".yaml", ".yml", ".json")

    async def ask() -> Explanation:
        async with Client(target.access) as client:
            if not is_file:
                view = await find_job(client, str(job), target.namespace)
                return explain_job(await read_cluster(client), view, member, time.time())
            loaded = load_job(job, overrides)
            view = arriving(manifest_of(loaded, target.namespace, has_files=False))
            return explain_job(await read_cluster(client), view, member, time.time())

    return asyncio.run(ask())


def _show(found: Explanation, output: str) -> int:
    code = 2 if found.refused is not None and not found.queued else 0
    if output == "json":
        document = {
            "job": found.job,
            "member": found.member.name,
            "node": found.node,
            "refused": found.refused,
            "note": found.note or None,
            "nodes": [
                {"node": v.node, "refused": list(v.reasons), "scores": dict(v.scores)}
                for v in found.verdicts
            ],
            "changes": list(found.changes),
        }
        emit_json(document)
        return code
    _print(found.member, found.verdicts, found.node)
    if found.note:
        say(f"\n{found.note}")
    if found.refused is not None:
        say(f"\n{found.refused}" if found.queued else f"\nnot placed: {found.refused}")
        does = "start" if found.queued else "fit"
        head = f"it would {does} with any one of these:"
        say(head if found.changes else "no single change helps")
        for change in found.changes:
            say(f"  {change}")
    return code


def _print(member: MemberId, verdicts: tuple[NodeVerdict, ...], chosen: str | None) -> None:
    from mooring.cli.console import console
    from mooring.report.columns import Columns

    rules = list(dict.fromkeys(rule for verdict in verdicts for rule, _ in verdict.scores))
    # The winner first, then by score; nodes that refuse come last, in their own order.
    order = sorted(verdicts, key=lambda v: (v.node != chosen, v.refused, -v.total))
    rows = []
    for verdict in order[:_MOST_ROWS]:
        scores = dict(verdict.scores)
        cells = [f"{scores[rule]:.2f}" if rule in scores else "" for rule in rules]
        total = "" if verdict.refused else f"{verdict.total:.2f}"
        name = f"{verdict.node} ←" if verdict.node == chosen else verdict.node
        rows.append((name, total, *cells, "; ".join(verdict.reasons)))
    refused = any(verdict.reasons for verdict in order[:_MOST_ROWS])
    table = Columns.of_rows(
        [f"{member.name} on", "total", *rules],
        rows,
        right=("total", *rules),
        detail="refused because" if refused else "",
    )
    console().print(table)
    if len(order) > _MOST_ROWS:
        say(f"… and {len(order) - _MOST_ROWS} more nodes (see -o json)")
