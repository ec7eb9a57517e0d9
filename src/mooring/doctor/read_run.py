"""A run's directory to facts: the job, the plan, the launchers' samples, the nodes' counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.account import Account
from mooring.doctor.facts import CpuPlace, RunFacts
from mooring.doctor.member_journal import MemberJournal, sort_records
from mooring.doctor.read_account import read_account
from mooring.doctor.read_end import read_end, read_last_words
from mooring.doctor.read_member import (
    NO_WINDOW,
    examples_per_s,
    member_facts,
    steps_per_s,
    window_of,
)
from mooring.doctor.read_program import read_traits
from mooring.doctor.read_stall import read_stall
from mooring.doctor.read_surroundings import read_cards_of_nodes, read_machine
from mooring.frameworks import expand
from mooring.model.errors import BadInput
from mooring.record import RunRecord
from mooring.record.plan_file import read_holdings
from mooring.spec import load_job
from mooring.variables.from_run import parts_of
from mooring.wire import Record, read_journal
from mooring.wire.events import NoStacks, Surroundings
from mooring.wire.members import Step

_LEAST_REPORTS = 5


def read_run(run: RunRecord, last_s: float | None = None) -> RunFacts:
    """All of a run, or only its last seconds. Raises BadInput if it has no job or plan yet."""
    job = load_job(run.job_file)
    gang = expand(job, run.info.source or "job")
    known = {member.id for member in gang.members}
    holdings = {
        holding.member: holding
        for holding in read_holdings(run.plan_file)
        if holding.member in known
    }
    journals = {
        holding.name: sort_records(read_journal(run.sample_file(holding.name), Record))
        for holding in holdings
    }
    if not holdings:
        raise BadInput.at("moor doctor", run.info.id, "no plan", "a run that was started")
    window = window_of(journals.values(), last_s)
    members = tuple(
        member_facts(name, holding, gang, journals[name.name], window)
        for name, holding in holdings.items()
    )
    rates = [member.examples_per_s for member in members if member.examples_per_s is not None]
    note = _stacks_note(run.events_file)
    nics = read_cards_of_nodes(run.events_file, window)
    rate = max(
        (member.steps_per_s for member in members if member.steps_per_s is not None), default=None
    )
    cpus: dict[str, frozenset[int]] = {}
    for holding in holdings.values():
        cpus[holding.slot.node] = cpus.get(holding.slot.node, frozenset()) | set(holding.slot.cpus)
    return RunFacts(
        run=run.info.id,
        job=job,
        duties=gang.duty_by_role,
        members=members,
        nics=nics,
        machine=read_machine(run.events_file, window),
        node_cpus=cpus,
        topology=_topology(run.events_file),
        examples_per_s=sum(rates) if rates else None,
        stacks_note=note,
        steps_per_s=rate,
        variables=tuple(
            parts_of(variable for each in journals.values() for variable in each.variables)
        ),
        source=str(run.root),
        program=read_traits(program for each in journals.values() for program in each.programs),
        last_words=read_last_words(run),
        end=read_end(run, journals),
        stall=read_stall(
            read_journal(run.events_file, Record), _without_evaluators(journals), str(run.root)
        ),
        account=Account(note=note)
        if note
        else read_account(members, gang.duty_by_role, rate, nics),
    )


def _without_evaluators(journals: Mapping[str, MemberJournal]) -> dict[str, list[Record]]:
    """Those may wait for long."""
    return {
        name: journal.records
        for name, journal in journals.items()
        if not name.startswith("evaluator-")
    }


def _stacks_note(events: Path) -> str:
    return next((record.reason for record in read_journal(events, NoStacks)), "")


def _topology(events: Path) -> dict[str, tuple[CpuPlace, ...]]:
    """Node -> its CPUs with cache and cell, as the run noted them at its start."""
    noted = next(read_journal(events, Surroundings), None)
    nodes = noted.topology if noted is not None else {}
    return {node: tuple(CpuPlace(*place) for place in places) for node, places in nodes.items()}


def step_rates(run: RunRecord, slices: int, count: Callable[[Step], int]) -> list[float]:
    """What reports count to in a second, of all members in equal parts of the time in which they
    trained."""
    members = [holding.member.name for holding in read_holdings(run.plan_file)]
    journals = [
        MemberJournal(steps=list(read_journal(run.sample_file(name), Step))) for name in members
    ]
    low, high = window_of(journals, None)
    if (low, high) == NO_WINDOW:
        return []
    done = [0.0] * slices
    for step in (step for journal in journals for step in journal.steps):
        if low < step.t <= high:
            place = min(slices - 1, int((step.t - low) / (high - low) * slices))
            done[place] += count(step)
    return [amount * slices / (high - low) for amount in done if amount]


@dataclass(frozen=True)
class Speed:
    """How fast a run trained."""

    value: float
    unit: str


#: Of the time that counts: caches fill, and pages of new memory are touched for the first time.
_WARM_UP = 0.25


def speed_of(run: RunRecord, seconds: float) -> Speed | None:
    """Within the first seconds after the first report, but for the first quarter of them.

    So that two runs are compared over the same part of their lives. Slow steps are taken as far as
    four reports need. None if fewer than two were made.
    """
    members = [holding.member.name for holding in read_holdings(run.plan_file)]
    steps = [list(read_journal(run.sample_file(name), Step)) for name in members]
    times = sorted(step.t for reports in steps for step in reports)
    if len(times) < 2:
        return None
    until_s = max(times[0] + seconds, times[min(len(times), _LEAST_REPORTS) - 1])
    last_s = max(at_s for at_s in times if at_s <= until_s)
    window = times[0] + _WARM_UP * (last_s - times[0]), last_s
    examples = [rate for step in steps if (rate := examples_per_s(step, window)) is not None]
    if examples:
        return Speed(sum(examples), "examples/s")
    rates = [rate for step in steps if (rate := steps_per_s(step, window)) is not None]
    return Speed(max(rates), "steps/s") if rates else None


def read_job_text(run: RunRecord) -> tuple[str, Path]:
    """The file that the run was started from, or the job as the run kept it."""
    source = Path(run.info.source)
    path = source if run.info.source and source.is_file() else run.job_file
    return path.read_text(encoding="utf-8", errors="replace"), path
