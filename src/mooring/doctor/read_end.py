"""How a run ended, from its events, its samples and its logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from mooring.doctor.facts import EndFacts
from mooring.doctor.member_journal import MemberJournal
from mooring.model.status import MemberState, Phase
from mooring.record import RunRecord
from mooring.record.logs import read_log
from mooring.wire import read_journal
from mooring.wire.events import MemberChanged, PhaseChanged
from mooring.wire.members import Step
from mooring.wire.samples import Sample

_FINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED})
#: Fewer seconds than this between two samples say nothing about a rate.
_LEAST_SPAN_S = 1.0
#: Enough for a traceback with a tensor in its message.
_LAST_LINES = 200
_MOST_READ = 8


def read_end(run: RunRecord, members: Mapping[str, MemberJournal]) -> EndFacts | None:
    """None if it still runs, was stopped or has no steps."""
    phases = list(read_journal(run.events_file, PhaseChanged))
    steps = [(step.t, name) for name, journal in members.items() for step in journal.steps]
    if not phases or not steps or phases[-1].phase not in _FINAL:
        return None
    ended_s, (stepped_s, member) = phases[-1].t, max(steps)
    spoke_s = _last_line_s(run, member)
    return EndFacts(
        after_s=max(0.0, ended_s - stepped_s - _unreported_s(members[member].steps)),
        run_s=ended_s - phases[0].t,
        member=member,
        silent_s=None if spoke_s is None else max(0.0, ended_s - max(spoke_s, stepped_s)),
        runnable=_runnable(members[member].samples, stepped_s),
    )


def _unreported_s(reports: Sequence[Step]) -> float:
    """Of a program that reports now and then: how long it may have gone on stepping unseen."""
    last = reports[-1]
    if len(reports) < 2 or (last.total and (last.step or 0) >= last.total):
        return 0.0
    return (last.t - reports[0].t) / (len(reports) - 1)


def read_last_words(run: RunRecord) -> dict[str, str]:
    """Member that failed -> the last lines that it printed. Of the members that ended with a
    failed one, some have a traceback of their own: they are not asked."""
    changes = read_journal(run.events_file, MemberChanged)
    states = {change.member: change.state for change in changes}
    failed = [member for member, state in states.items() if state is MemberState.FAILED]
    return {
        member: "\n".join(
            line.text for line in read_log(run.log_file(member), member, last=_LAST_LINES)
        )
        for member in failed[:_MOST_READ]
    }


def _last_line_s(run: RunRecord, member: str) -> float | None:
    for line in read_log(run.log_file(member), member, last=1):
        with suppress(ValueError):
            return datetime.fromisoformat(line.at).timestamp()
    return None


def _runnable(samples: Sequence[Sample], since_s: float) -> float | None:
    inside = [sample for sample in samples if sample.t >= since_s]
    if len(inside) < 2:
        return None
    first, last = inside[0], inside[-1]
    span_s = last.t - first.t
    if span_s < _LEAST_SPAN_S:
        return None
    return (last.cpu_s - first.cpu_s + (last.wait_s or 0.0) - (first.wait_s or 0.0)) / span_s
