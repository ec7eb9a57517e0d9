"""`moor explain`: each node's answer about one member, and what would let the job fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import nodes as node_options
from mooring.cli import options

if TYPE_CHECKING:
    from mooring.model.member import Gang, MemberId
    from mooring.model.plan import NodeVerdict

#: Nodes that answer alike are counted together beyond this many rows.
_MOST_ROWS = 40


@click.command()
@options.job_file
@click.argument("member", required=False)
@options.overrides
@node_options.where
@options.output("table", "json")
def explain(
    job_file: Path,
    member: str | None,
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    cluster_file: Path | None,
    profile_name: str,
    output: str,
) -> int:
    """Explain where a MEMBER would go: every node's refusal, or its score by rule.

    Without a MEMBER: the one that a refusal would name, or the first. If the job does not fit,
    each single change that would let it is listed; all of them have been tried out.
    """
    from mooring.brain.changes import changes
    from mooring.brain.state import ClusterState
    from mooring.model.plan import Refusal
    from mooring.planning import plan_job
    from mooring.spec import load_job

    job = load_job(job_file, overrides)
    snapshot = node_options.cluster_of(nodes, nic_mbps, cluster_file).snapshot
    profile = node_options.profile_of(profile_name)
    gang, answer = plan_job(job, snapshot, str(job_file), profile)
    refused = isinstance(answer, Refusal)
    named = _member(gang, member)
    if named is None:
        named = answer.member if isinstance(answer, Refusal) else gang.members[0].id
    verdicts = ClusterState(snapshot, profile).explain(gang, named)
    chosen = None if isinstance(answer, Refusal) else answer.slot_of(named).node
    advice = changes(gang, snapshot, profile) if refused else ()
    if output == "json":
        document = {
            "job": gang.job,
            "member": named.name,
            "node": chosen,
            "refused": answer.sentence if isinstance(answer, Refusal) else None,
            "nodes": [
                {"node": v.node, "refused": list(v.reasons), "scores": dict(v.scores)}
                for v in verdicts
            ],
            "changes": list(advice),
        }
        click.echo(json.dumps(document, indent=1))
        return 2 if refused else 0
    _print(named, verdicts, chosen)
    if isinstance(answer, Refusal):
        click.echo(f"\nnot placed: {answer.sentence}")
        click.echo("it would fit with any one of these:" if advice else "no single change helps")
        for change in advice:
            click.echo(f"  {change}")
    return 2 if refused else 0


def _member(gang: Gang, name: str | None) -> MemberId | None:
    from mooring.model.errors import BadInput

    if name is None:
        return None
    for member in gang.members:
        if member.name == name:
            return member.id
    known = ", ".join(member.name for member in gang.members[:10])
    raise BadInput.at("moor explain", "MEMBER", repr(name), f"one of {known}")


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
