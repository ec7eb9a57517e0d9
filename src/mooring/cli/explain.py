"""`moor explain`: each node's answer about one member, and what would let the job fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import nodes as node_options
from mooring.cli import options

if TYPE_CHECKING:
    from mooring.model.member import MemberId
    from mooring.model.plan import NodeVerdict

#: Nodes that answer alike are counted together beyond this many rows.
_MOST_ROWS = 40


@click.command()
@options.job_file
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
    output: str,
) -> int:
    """Explain where a MEMBER would go: every node's refusal, or its score by rule.

    Without a MEMBER: the one that a refusal would name, or the first. If the job does not fit, or
    has to wait for others, each single change that would help is listed; all of them have been
    tried out. With --with, or on a cluster with pools, the queue decides as in `moor plan`.
    """
    from mooring.explaining import explain as ask
    from mooring.spec import load_job

    jobs = [(load_job(path), str(path)) for path in others]
    jobs.append((load_job(job_file, overrides), str(job_file)))
    cluster = node_options.cluster_of(nodes, nic_mbps, cluster_file)
    found = ask(jobs, cluster, member, node_options.profile_of(profile_name))
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
        click.echo(json.dumps(document, indent=1))
        return code
    _print(found.member, found.verdicts, found.node)
    if found.note:
        click.echo(f"\n{found.note}")
    if found.refused is not None:
        click.echo(f"\n{found.refused}" if found.queued else f"\nnot placed: {found.refused}")
        does = "start" if found.queued else "fit"
        head = f"it would {does} with any one of these:"
        click.echo(head if found.changes else "no single change helps")
        for change in found.changes:
            click.echo(f"  {change}")
    return code


def _print(member: MemberId, verdicts: tuple[NodeVerdict, ...], chosen: str | None) -> None:
    from rich.table import Table

    from mooring.cli.console import console

    rules = list(dict.fromkeys(rule for verdict in verdicts for rule, _ in verdict.scores))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"{member.name} on", no_wrap=True)
    table.add_column("refused because", overflow="fold")
    for rule in ("total", *rules):
        table.add_column(rule, justify="right", no_wrap=True)
    # The winner first, then by score; nodes that refuse come last, in their own order.
    order = sorted(verdicts, key=lambda v: (v.node != chosen, v.refused, -v.total))
    for verdict in order[:_MOST_ROWS]:
        scores = dict(verdict.scores)
        cells = [f"{scores[rule]:.2f}" if rule in scores else "" for rule in rules]
        total = "" if verdict.refused else f"{verdict.total:.2f}"
        name = f"{verdict.node} ←" if verdict.node == chosen else verdict.node
        table.add_row(name, "; ".join(verdict.reasons), total, *cells)
    console().print(table)
    if len(order) > _MOST_ROWS:
        click.echo(f"… and {len(order) - _MOST_ROWS} more nodes (see -o json)")
