"""How a run ended, from its events, its samples and its logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from mooring.doctor.facts import EndFacts
from mooring.doctor.told import number
from mooring.record import RunRecord, read_lines
from mooring.record.journal import Line
from mooring.record.logs import read_log

_FINAL = frozenset({"Succeeded", "Failed"})
#: Fewer seconds than this between two samples say nothing about a rate.
_LEAST_SPAN_S = 1.0
#: Enough for a traceback with a tensor in its message.
_LAST_LINES = 200
_MOST_READ = 8


def read_end(run: RunRecord, lines: Mapping[str, Sequence[Line]]) -> EndFacts | None:
    """`lines`: the samples of each member. None if it still runs, was stopped or has no steps."""
    phases = [line for line in read_lines(run.events_file) if line.get("kind") == "phase"]
    steps = [
        (number(line, "t"), member)
        for member, told in lines.items()
        for line in told
        if line.get("kind") == "step"
    ]
    if not phases or not steps or str(phases[-1].get("phase")) not in _FINAL:
        return None
    ended_s, (stepped_s, member) = number(phases[-1], "t"), max(steps)
    spoke_s = _last_line_s(run, member)
    return EndFacts(
        after_s=max(0.0, ended_s - stepped_s - _unreported_s(lines[member])),
        run_s=ended_s - number(phases[0], "t"),
        member=member,
        silent_s=None if spoke_s is None else max(0.0, ended_s - max(spoke_s, stepped_s)),
        runnable=_runnable(lines[member], stepped_s),
    )


def _unreported_s(lines: Sequence[Line]) -> float:
    """Of a program that reports now and then: how long it may have gone on stepping unseen."""
    reports = [line for line in lines if line.get("kind") == "step"]
    total = number(reports[-1], "total")
    if len(reports) < 2 or (total and number(reports[-1], "step") >= total):
        return 0.0
    return (number(reports[-1], "t") - number(reports[0], "t")) / (len(reports) - 1)


def read_last_words(run: RunRecord) -> dict[str, str]:
    """Member that failed -> the last lines that it printed. Of the members that ended with a
    failed one, some have a traceback of their own: they are not asked."""
    states: dict[str, object] = {}
    for line in read_lines(run.events_file):
        if line.get("kind") == "member":
            states[str(line.get("member"))] = line.get("state")
    failed = [member for member, state in states.items() if state == "failed"]
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


def _runnable(lines: Sequence[Line], since_s: float) -> float | None:
    samples = [one for one in lines if one.get("kind") == "sample" and number(one, "t") >= since_s]
    if len(samples) < 2:
        return None
    span_s = number(samples[-1], "t") - number(samples[0], "t")
    if span_s < _LEAST_SPAN_S:
        return None
    first, last = samples[0], samples[-1]
    return sum(number(last, key) - number(first, key) for key in ("cpu_s", "wait_s")) / span_s
