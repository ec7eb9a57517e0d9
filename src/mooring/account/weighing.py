"""The looks at one process, each with the time that it stands for. Pure.

A rank's looks divide its time, with two corrections. Looks fall when the launcher gets a CPU, which
on a busy machine is more often while the trainer sleeps: how long the main thread ran or was ready
is taken from its own clock (schedstat), and so is how it divides into running and waiting for a
CPU. Waits for others become network where bytes moved at that moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mooring.account.cards import CardSeen, whose
from mooring.account.dividing import Doing, ProcessFacts, divide
from mooring.account.looks import Look, RankLooks, SampledFrame, ThreadTime
from mooring.account.types import Activity, LineShare

_MOST_LINES = 24
#: The clock is believed against looks, but not without bound.
_MOST_WEIGHT = 8.0
#: So much of the time may be missed by chance.
_LEAST_MISSED = 0.03
#: `f.<locals>.<genexpr>` is a part of f.
_COMPREHENSION = re.compile(r"\.<locals>\.<(genexpr|listcomp|dictcomp|setcomp|lambda)>$")


@dataclass(frozen=True)
class MemberSeen:
    """What the account needs to know of a member."""

    name: str
    role: str
    node: str
    ranks: Sequence[RankLooks]
    serves: bool = False
    leads: bool = False
    """It hands out steps: it waits for those who do them, not for who serves them."""
    limit_mbps: float | None = None
    """Of its node's card."""
    step_s: float | None = None
    cpus: float | None = None
    """CPUs that all its processes used."""
    ready_ratio: float = 0.0
    """Of the time that its threads ran or were ready to, the part without a CPU."""
    has_device: bool = False


@dataclass(frozen=True)
class Weighed:
    """A look with the time that it stands for."""

    look: Look
    doing: Doing
    weight: float
    ready: float
    """Part of it without a CPU."""
    card_of: str | None = None
    """Whose card was full."""


@dataclass(frozen=True)
class RankSeen:
    """A process with its looks weighed; shares add up to 1."""

    member: MemberSeen
    seen: RankLooks
    weighed: Sequence[Weighed]
    parts: Mapping[Activity, float]
    lines: tuple[LineShare, ...] = ()
    named: Mapping[tuple[str, ...], float] = field(default_factory=lambda: MappingProxyType({}))
    """Whom it waits for, as its connections tell -> share."""


def weigh_rank(member: MemberSeen, seen: RankLooks, cards: Mapping[str, CardSeen]) -> RankSeen:
    process = ProcessFacts(
        serves=member.serves,
        has_device=member.has_device,
        has_python=seen.has_python,
        has_peers=any(count > 0 for count in seen.moved.values()),
        helpers=seen.helpers,
        has_mpi=seen.has_mpi,
    )
    weighed = _weigh(seen, divide(seen, process), member, cards)
    total = sum(weighed_look.weight for weighed_look in weighed) or 1.0
    parts: dict[Activity, float] = {}
    named: dict[tuple[str, ...], float] = {}
    for weighed_look in weighed:
        share = weighed_look.weight / total
        activity = weighed_look.doing.activity
        parts[activity] = parts.get(activity, 0.0) + share * (1 - weighed_look.ready)
        if weighed_look.ready:
            parts[Activity.CPU_WAIT] = (
                parts.get(Activity.CPU_WAIT, 0.0) + share * weighed_look.ready
            )
        if activity is Activity.OTHERS:
            whom = weighed_look.doing.waits_for
            named[whom] = named.get(whom, 0.0) + share * (1 - weighed_look.ready)
    return RankSeen(member, seen, weighed, parts, tuple(_lines(weighed, total)), named)


def _asked(
    member: str, look: Look, doing: Doing, cards: Mapping[str, CardSeen]
) -> tuple[Doing, str | None]:
    """A wait for others is network if bytes move: over the own card, or over whose."""
    if doing.activity is not Activity.OTHERS or member not in cards:
        return doing, None
    if cards[member].moves(look):
        return replace(doing, activity=Activity.NETWORK), None
    other = whose(look.at_s, doing.waits_for, member, cards)
    return (doing if other is None else replace(doing, activity=Activity.NETWORK)), other


def _weigh(
    seen: RankLooks, doings: Sequence[Doing], member: MemberSeen, cards: Mapping[str, CardSeen]
) -> list[Weighed]:
    clock = seen.clock
    lasts_s = [look.lasts_s for look in seen.looks]
    total_s = sum(lasts_s) or 1.0

    def share_of(chosen: Iterable[bool]) -> float:
        return sum(s for s, one in zip(lasts_s, chosen, strict=True) if one) / total_s

    on_cpu = share_of(one.on_cpu for one in doings)
    heavy = light = 1.0
    ready = missed = 0.0
    wanted_s = clock.ran_s + clock.ready_s
    if clock.span_s > 0 and wanted_s > 0:
        ready = clock.ready_s / wanted_s
        told = min(1.0, wanted_s / clock.span_s)
        if 0 < on_cpu < 1:
            heavy = min(_MOST_WEIGHT, told / on_cpu)
            light = min(_MOST_WEIGHT, (1 - told) / (1 - on_cpu))
        else:
            heavy, light = told, 1 - told
            missed = 1 - told if on_cpu else told
    in_threads = light * share_of(one.in_threads for one in doings)
    believed = _believed(clock, in_threads, member.ready_ratio)
    found: list[Weighed] = []
    for look, doing in zip(seen.looks, doings, strict=True):
        weight = look.lasts_s * (heavy if doing.on_cpu else light)
        parts = [(doing, weight)]
        if doing.otherwise is not None:
            parts = [(doing, weight * believed), (doing.otherwise, weight * (1 - believed))]
        for one, part in parts:
            if part > 0:
                asked, card = _asked(member.name, look, one, cards)
                share = _ready(asked, ready, member.ready_ratio)
                found.append(Weighed(look, asked, part, share, card))
    if missed > _LEAST_MISSED:
        # The clock tells of time that no look fell into: it ran, nobody knows where; or it waited.
        ran = Doing(Activity.FRAMEWORK, on_cpu=True)
        doing, share = (Doing(Activity.UNSEEN), 0.0) if on_cpu else (ran, ready)
        found.append(Weighed(seen.looks[-1], doing, missed * total_s, share))
    return found


def _believed(clock: ThreadTime, looked: float, ready_ratio: float) -> float:
    """Which part of the looks that saw other threads run can be true, as the process's CPU time
    tells: they ran no longer than that."""
    if clock.span_s <= 0 or looked <= 0:
        return 1.0
    ran_s = max(0.0, clock.process_s - clock.ran_s)
    return min(1.0, ran_s / (1 - min(0.9, ready_ratio)) / clock.span_s / looked)


def _ready(doing: Doing, of_main: float, of_threads: float) -> float:
    """The part of a look without a CPU; who only polls for others loses nothing by it."""
    if doing.spins:
        return 0.0
    return of_main if doing.on_cpu else of_threads if doing.in_threads else 0.0


def _lines(weighed: Sequence[Weighed], total: float) -> list[LineShare]:
    shares: dict[tuple[SampledFrame, str], dict[Activity, float]] = {}
    for one in weighed:
        if one.doing.line is None:
            continue
        by = shares.setdefault((one.doing.line, one.doing.thread), {})
        share = one.weight / total
        activity = one.doing.activity
        by[activity] = by.get(activity, 0.0) + share * (1 - one.ready)
        if one.ready:
            by[Activity.CPU_WAIT] = by.get(Activity.CPU_WAIT, 0.0) + share * one.ready
    found = [
        LineShare(
            call.file,
            call.line,
            _COMPREHENSION.sub("", call.function),
            sum(by.values()),
            by,
            thread,
            tuple(name.rpartition(".")[2] for name in call.calls),
        )
        for (call, thread), by in shares.items()
    ]
    return sorted(found, key=lambda one: -one.share)[:_MOST_LINES]
