"""`moor plan`: where each member would go and why each losing node lost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import nodes as node_options
from mooring.cli import options
from mooring.cli.node_map import ON_TERMINAL, check_map_option, print_map, write_map
from mooring.cli.say import emit_json, say

if TYPE_CHECKING:
    from mooring.brain.queue import Chapter
    from mooring.model.cluster import Snapshot
    from mooring.model.member import Gang
    from mooring.model.plan import NodeVerdict, Plan, Refusal
    from mooring.record.journal import JsonValue
    from mooring.spec import TrainingJob

#: More nodes of one answer than this are counted instead of named.
_MOST_NAMED = 4


@click.command()
@click.argument(
    "job_files", metavar="JOB.yaml...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options.overrides
@node_options.where
@click.option(
    "--map",
    "map_file",
    metavar="[FILE.svg]",
    is_flag=False,
    flag_value=ON_TERMINAL,
    help="Draw the nodes with who holds what: into FILE.svg, or without one below the table.",
)
@options.output("table", "json")
def plan(
    job_files: tuple[Path, ...],
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    cluster_file: Path | None,
    profile_name: str,
    map_file: str | None,
    output: str,
) -> int:
    """Show where each member would go and why the other nodes lost. Starts nothing.

    Several jobs arrive in the order in which they are named: the plan then says who is admitted,
    who waits and for what, and who has to give way.
    """
    from mooring.model.plan import Refusal
    from mooring.placing import plan_job
    from mooring.planning import plan_queue
    from mooring.spec import load_job

    check_map_option(map_file, output)
    jobs = [load_job(path, overrides) for path in job_files]
    cluster = node_options.cluster_of(nodes, nic_mbps, cluster_file)
    snapshot = cluster.snapshot
    profile = node_options.profile_of(profile_name)
    if len(jobs) > 1 or cluster.pools:
        named = list(zip(jobs, map(str, job_files), strict=True))
        arrivals = plan_queue(named, cluster, profile)
        outcome = arrivals.outcome
        verdicts = {wait.job: arrivals.verdicts(wait.job) for wait in outcome.waiting}
        document: dict[str, JsonValue] = {
            "decisions": [_told(decision) for decision in outcome.story],
            "waiting": {wait.job: wait.sentence for wait in outcome.waiting},
            "refused": {
                job: {"member": arrivals.blamed(job).name, "nodes": _refusals(answers)}
                for job, answers in verdicts.items()
            },
        }
        story = [sentence(decision) for decision in outcome.story]
        # Who was sent away waits too, though it was admitted once.
        story += [wait.sentence for wait in outcome.waiting if wait.sentence not in story]
        _show(arrivals.plans(), story, document, snapshot, map_file, output)
        if output == "table":
            for job, answers in verdicts.items():
                _show_waiting(job, arrivals.blamed(job).name, answers)
            if verdicts:
                say("\nwhat would help: moor explain JOB.yaml --with OTHER.yaml ...")
        return 0
    gang, answer = plan_job(jobs[0], snapshot, str(job_files[0]), profile)
    if isinstance(answer, Refusal):
        if cluster_file is None:
            from mooring.backends.local.holders import with_holders

            answer = with_holders(answer)
        _show_refusal(answer, output)
        return 2
    if cluster_file is None:
        answer = _with_programs(answer, gang, jobs[0], job_files[0])
    _show([(gang, answer)], [], {}, snapshot, map_file, output)
    return 0


def _with_programs(plan: Plan, gang: Gang, job: TrainingJob, path: Path) -> Plan:
    """The plan with which Python its members would run here, and what that Python lacks."""
    from mooring.backends.local.programs import look_at

    folder = path.absolute().parent
    working_dir = folder / (job.spec.working_dir or ".")
    if not working_dir.is_dir():
        return plan
    programs = look_at(
        job,
        gang,
        job_dir=folder,
        working_dir=working_dir,
        inherited=os.environ,
        source=str(path),
    )
    missing = (f"not installed: {programs.said_of_missing}",) if programs.missing else ()
    return replace(plan, notes=(*programs.notes, *missing, *plan.notes))


def sentence(decision: Chapter) -> str:
    """One decision of the queue, in words."""
    from mooring.brain.queue import Admit, Grow, Move, Preempt, Shrink, Wait

    match decision:
        case Admit(job, plan, borrowed):
            size = len(plan.placements)
            loan = f", borrowing {borrowed}" if borrowed is not None else ""
            return f"{job} is admitted with {size} member{'s' if size != 1 else ''}{loan}"
        case Wait(sentence=said):
            return said
        case Preempt(reason=said) | Shrink(reason=said) | Move(reason=said):
            return said
        case Grow(job, plan):
            return f"{job} grows to {len(plan.placements)} members"


def _told(decision: Chapter) -> JsonValue:
    from mooring.brain.queue import Move

    told: dict[str, JsonValue] = {"decision": type(decision).__name__.lower()}
    if isinstance(decision, Move):
        told |= {"group": decision.group, "from": decision.source, "to": decision.target}
    else:
        told["job"] = decision.job
    return {**told, "sentence": sentence(decision)}


def _show(
    pairs: Sequence[tuple[Gang, Plan]],
    story: Sequence[str],
    document: dict[str, JsonValue],
    snapshot: Snapshot,
    map_file: str | None,
    output: str,
) -> None:
    from mooring.record.plan_file import plan_document

    plans = [plan for _, plan in pairs]
    stranded = stranded_gpus(snapshot, pairs)
    if map_file is not None and map_file != ON_TERMINAL:
        write_map(Path(map_file), snapshot, plans)
    if output == "json":
        documents = [plan_document(gang, plan) for gang, plan in pairs]
        if not document:
            documents[0]["stranded_gpus"] = stranded
        told: JsonValue = {**document, "stranded_gpus": stranded, "plans": [*documents]}
        emit_json(told if document else documents[0])
        return
    from mooring.cli.console import console as make_console
    from mooring.cli.plan_table import plan_table

    console = make_console()
    for line in story:
        console.print(line, soft_wrap=True)
    for gang, plan in pairs:
        if story:
            console.print()
        console.print(plan_table(gang, plan))
    if stranded:
        sizes = ", ".join(f"{size}: {part:.0%}" for size, part in stranded.items())
        said = f"free GPUs that a request for so many on one node cannot use: {sizes}"
        console.print()
        console.print(said, soft_wrap=True)
    if map_file == ON_TERMINAL:
        print_map(snapshot, plans)


def _refusals(verdicts: Sequence[NodeVerdict]) -> dict[str, JsonValue]:
    return {verdict.node: list(verdict.reasons) for verdict in verdicts if verdict.refused}


def _show_waiting(job: str, member: str, verdicts: Sequence[NodeVerdict]) -> None:
    """What the nodes say about a job that waits, those alike together."""
    by_reason: dict[str, list[str]] = {}
    for verdict in verdicts:
        said = "; ".join(verdict.reasons) or "has room, but the queue does not let it start"
        by_reason.setdefault(said, []).append(verdict.node)
    say(f"\n{job} waits; {member}:")
    for reason, nodes in by_reason.items():
        names = ", ".join(nodes) if len(nodes) <= _MOST_NAMED else f"{len(nodes)} nodes"
        say(f"  {names}: {reason}")


def stranded_gpus(snapshot: Snapshot, pairs: Sequence[tuple[Gang, Plan]]) -> dict[str, JsonValue]:
    """Size of a request -> the part of the free GPUs that it cannot use, once the plans hold."""
    from mooring.brain import ClusterState
    from mooring.brain.fragments import SIZES

    if not any(node.gpus for node in snapshot.nodes):
        return {}
    state = ClusterState(snapshot)
    for gang, plan in pairs:
        state.assume(gang, plan)
    found = zip(SIZES, state.fragments().stranded(), strict=True)
    return {str(size): round(part, 4) for size, part in found if part is not None}


def _show_refusal(refusal: Refusal, output: str) -> None:
    if output == "json":
        document = {
            "job": refusal.job,
            "refused": refusal.sentence,
            "member": refusal.member.name,
            "nodes": _refusals(refusal.verdicts),
        }
        emit_json(document)
        return
    say(f"not placed: {refusal.sentence}", err=True)
    for verdict in refusal.verdicts[:20]:
        say(f"  {verdict.node}: {'; '.join(verdict.reasons)}", err=True)
    say("moor explain says what would have to change", err=True)
