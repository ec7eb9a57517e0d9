"""Memory that grows with the steps, towards what ends the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import MEBIBYTE, READY, SAMPLES
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.model.amounts import rough_duration, size

#: Parts of the time after the start whose growth is compared. Caches and pools fill and then stay.
_PARTS = 3
_LEAST_SAMPLES = 6
#: Of the mean growth of a part, in every one of them: what only fills up slows down.
_STEADY = 0.4
#: In all, and of what it had: smaller growth is fragmentation.
_LEAST_BYTES = 48 * MEBIBYTE
_LEAST_SHARE = 0.1
#: Growth that takes longer than this to matter is not looked for in runs of seconds.
_MOST_LEFT_S = 48 * 3600.0
_SOON_S = 3600.0
_PAGE = CheckPage(
    why="At its limit the kernel ends a process, and with it the gang: hours of work are lost for "
    "what grew by some kilobytes in each step.",
    measured="Resident memory of each member's samples while it trained, without the first fifth "
    "of that time. Reported when it grows by 48 MiB and a tenth at least, in each third of "
    "the time by a similar amount, and at this rate reaches the limit that is enforced, or all "
    "memory that the machine has left, within two days.",
    fix="Find what is kept: results with their graph (`loss` instead of `loss.item()`), lists of "
    "batches, caches without a limit, a `tf.function` that is traced anew for each shape.",
    not_when="A cache that is meant to fill up, and has a size.",
)


@dataclass(frozen=True)
class _Growth:
    member: MemberFacts
    bytes_per_s: float
    left_s: float
    limit_bytes: int
    enforced: bool


@run_check(
    "mem-grows", "Memory grows towards its limit", _PAGE, Causes(anywhere=frozenset({"hang"}))
)
def mem_grows(facts: RunFacts) -> Iterator[Found]:
    looked = [member for member in facts.members if len(member.memory) >= _LEAST_SAMPLES]
    if not looked:
        raise Unknown("too few samples of memory")
    growing = [growth for member in looked if (growth := _growth(member, facts)) is not None]
    growing = [growth for growth in growing if growth.left_s <= _MOST_LEFT_S]
    if not growing:
        return
    first = min(growing, key=lambda growth: growth.left_s)
    member = first.member
    limit = "its limit" if first.enforced else "all that the machine has left"
    evidence = [
        Figure("grows by", first.bytes_per_s / MEBIBYTE, "MiB/s", SAMPLES, (member.name,)),
        Figure("now", member.memory[-1][1] / MEBIBYTE, "MiB", SAMPLES, (member.name,)),
        Figure(limit, first.limit_bytes / MEBIBYTE, "MiB", READY, (member.name,)),
    ]
    if member.steps_per_s:
        step = first.bytes_per_s / member.steps_per_s
        evidence.append(Figure("grows by", step / MEBIBYTE, "MiB a step", SAMPLES, (member.name,)))
    yield Found(
        says=f"{member.name} grows by {size(first.bytes_per_s)} a second and reaches "
        f"{limit} in {rough_duration(first.left_s)}",
        evidence=tuple(evidence),
        remedy=Remedy(
            "find what the program keeps of each step",
            code="import tracemalloc\n"
            "tracemalloc.start()\n"
            "# after some hundred steps\n"
            "for line in tracemalloc.take_snapshot().statistics('lineno')[:5]: print(line)\n",
            where="the training program (Python's own objects; not those of a framework in C++)",
        ),
        confidence=Confidence.LIKELY,
        weight=1.0 if first.left_s <= _SOON_S else 0.5,
        members=tuple(growth.member.name for growth in growing),
    )


def _growth(member: MemberFacts, facts: RunFacts) -> _Growth | None:
    points = _settled(member.memory)
    if len(points) < _LEAST_SAMPLES - 1:
        return None
    grown = _level(points[-3:]) - _level(points[:3])
    least = max(_LEAST_BYTES, _LEAST_SHARE * points[0][1])
    if grown < least or not _is_steady(points):
        return None
    # Between the middles of the three samples at each end.
    span_s = points[-2][0] - points[1][0]
    enforced = bool(member.memory_limit_bytes and member.memory_enforced)
    now_bytes = points[-1][1]
    if enforced:
        limit = member.memory_limit_bytes or 0
    elif facts.machine is not None and facts.machine.available_bytes:
        limit = now_bytes + facts.machine.available_bytes
    else:
        return None
    rate = grown / span_s
    return _Growth(member, rate, max(0.0, limit - now_bytes) / rate, limit, enforced)


def _settled(points: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Without the first fifth: a program takes most of its memory at the start."""
    begin_s = points[0][0] + 0.2 * (points[-1][0] - points[0][0])
    return [point for point in points if point[0] >= begin_s]


def _level(points: Sequence[tuple[float, int]]) -> float:
    return median(amount for _, amount in points)


def _is_steady(points: Sequence[tuple[float, int]]) -> bool:
    """It grows in each part of the time, by a similar amount."""
    from_s, to_s = points[0][0], points[-1][0]
    span_s = to_s - from_s
    if span_s <= 0:
        return False
    edges = [_near(points, from_s + span_s * part / _PARTS) for part in range(_PARTS + 1)]
    growths = [after - before for before, after in pairwise(edges)]
    mean = sum(growths) / _PARTS
    return mean > 0 and min(growths) >= _STEADY * mean


def _near(points: Sequence[tuple[float, int]], at_s: float) -> float:
    """The amount at a time, smoothed over three samples."""
    place = min(range(len(points)), key=lambda place: abs(points[place][0] - at_s))
    return _level(points[max(0, place - 1) : place + 2])
