"""Looks at all ranks of a run to its account. Pure.

A rank's looks divide its time, with two corrections. Looks fall when the launcher gets a CPU, which
on a busy machine is more often while the trainer sleeps: how long the main thread ran or was ready
is taken from its own clock (schedstat), and so is how it divides into running and waiting for a
CPU. Waits for others become network where bytes moved at that moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, median
from types import MappingProxyType

from mooring.account.cards import CardSeen, card_of, whose
from mooring.account.dividing import Doing, Process, divide
from mooring.account.looks import Call, Clock, Look, RankLooks
from mooring.account.types import (
    Account,
    Activity,
    LineShare,
    MachineUse,
    NetworkUse,
    RankAccount,
    RoleAccount,
    Threads,
    WaitFor,
)
from mooring.stacks.categories import Category

#: Fewer looks say nothing about a share.
LEAST_LOOKS = 30
_MOST_LINES = 24
#: A rank that waits less than the others by this share of the time is whom they wait for.
_WAITS_LESS = 0.1
_SLOWER = 1.1
_LEADER = "chief"
#: The clock is believed against looks, but not without bound.
_MOST_WEIGHT = 8.0
_MBIT_PER_KBYTE = 0.008
#: `f.<locals>.<genexpr>` is a part of f.
_COMPREHENSION = re.compile(r"\.<locals>\.<(genexpr|listcomp|dictcomp|setcomp|lambda)>$")
NOBODY_LOOKED = "nobody looked: the launchers' samples have no looks"
TOO_FEW = "too few looks: it trained for too short a time"


@dataclass(frozen=True)
class MemberSeen:
    """What the account needs to know of a member."""

    name: str
    role: str
    node: str
    ranks: Sequence[RankLooks]
    serves: bool = False
    limit_mbps: float | None = None
    """Of its node's card."""
    step_s: float | None = None
    cpus: float | None = None
    """CPUs that all its processes used."""
    ready_ratio: float = 0.0
    """Of the time that its threads ran or were ready to, the part without a CPU."""
    has_device: bool = False


@dataclass(frozen=True)
class _Weighed:
    """A look with the time that it stands for."""

    look: Look
    doing: Doing
    weight: float
    ready: float
    """Part of it without a CPU."""
    card_of: str | None = None
    """Whose card was full."""


@dataclass(frozen=True)
class _Rank:
    member: MemberSeen
    seen: RankLooks
    weighed: Sequence[_Weighed]
    parts: Mapping[Activity, float]
    lines: tuple[LineShare, ...] = ()
    named: Mapping[tuple[str, ...], float] = field(default_factory=lambda: MappingProxyType({}))
    """Whom it waits for, as its connections tell -> share."""


def account_of(members: Iterable[MemberSeen], one_machine: bool = False) -> Account:
    """`one_machine`: its nodes are parts of the same one."""
    known = list(members)
    cards = {one.name: card_of(one.ranks, one.limit_mbps) for one in known if one.ranks}
    looked = [(member, seen) for member in known for seen in member.ranks]
    enough = [(member, seen) for member, seen in looked if len(seen.looks) >= LEAST_LOOKS]
    if not enough:
        return Account(note=TOO_FEW if looked else NOBODY_LOOKED)
    found = [_rank(member, seen, cards) for member, seen in enough]
    ranks = tuple(_finished(one, found, cards) for one in found)
    return Account(
        ranks=ranks,
        roles=tuple(_roles(ranks)),
        slowest=_slowest(ranks),
        note=_note(known, ranks),
        machines=tuple(_machines(known, one_machine)),
    )


def _rank(member: MemberSeen, seen: RankLooks, cards: Mapping[str, CardSeen]) -> _Rank:
    process = Process(
        serves=member.serves,
        has_device=member.has_device,
        has_python=seen.has_python,
        has_peers=any(count > 0 for count in seen.moved.values()),
        helpers=seen.helpers,
        has_mpi=seen.has_mpi,
    )
    weighed = _weigh(seen, divide(seen, process), member, cards)
    total = sum(one.weight for one in weighed) or 1.0
    parts: dict[Activity, float] = {}
    named: dict[tuple[str, ...], float] = {}
    for one in weighed:
        share = one.weight / total
        activity = one.doing.activity
        parts[activity] = parts.get(activity, 0.0) + share * (1 - one.ready)
        if one.ready:
            parts[Activity.CPU_WAIT] = parts.get(Activity.CPU_WAIT, 0.0) + share * one.ready
        if activity is Activity.OTHERS:
            whom = one.doing.waits_for
            named[whom] = named.get(whom, 0.0) + share * (1 - one.ready)
    return _Rank(member, seen, weighed, parts, tuple(_lines(weighed, total)), named)


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
) -> list[_Weighed]:
    clock = seen.clock
    lasts_s = [look.lasts_s for look in seen.looks]
    total_s = sum(lasts_s) or 1.0

    def share_of(chosen: Iterable[bool]) -> float:
        return sum(s for s, one in zip(lasts_s, chosen, strict=True) if one) / total_s

    on_cpu = share_of(one.on_cpu for one in doings)
    heavy = light = 1.0
    ready = 0.0
    wanted_s = clock.ran_s + clock.ready_s
    if clock.span_s > 0 and wanted_s > 0:
        ready = clock.ready_s / wanted_s
        told = min(1.0, wanted_s / clock.span_s)
        if 0 < on_cpu < 1:
            heavy = min(_MOST_WEIGHT, told / on_cpu)
            light = min(_MOST_WEIGHT, (1 - told) / (1 - on_cpu))
    in_threads = light * share_of(one.in_threads for one in doings)
    believed = _believed(clock, in_threads, member.ready_ratio)
    found: list[_Weighed] = []
    for look, doing in zip(seen.looks, doings, strict=True):
        weight = look.lasts_s * (heavy if doing.on_cpu else light)
        parts = [(doing, weight)]
        if doing.otherwise is not None:
            parts = [(doing, weight * believed), (doing.otherwise, weight * (1 - believed))]
        for one, part in parts:
            if part > 0:
                asked, card = _asked(member.name, look, one, cards)
                share = _ready(asked, ready, member.ready_ratio)
                found.append(_Weighed(look, asked, part, share, card))
    return found


def _believed(clock: Clock, looked: float, ready_ratio: float) -> float:
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


def _lines(weighed: Sequence[_Weighed], total: float) -> list[LineShare]:
    shares: dict[tuple[Call, str], dict[Activity, float]] = {}
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


def _finished(
    rank: _Rank, all_ranks: Sequence[_Rank], cards: Mapping[str, CardSeen]
) -> RankAccount:
    member, seen = rank.member, rank.seen
    total = sum(one.weight for one in rank.weighed) or 1.0

    def share_of(chosen: Iterable[_Weighed]) -> float:
        return sum(one.weight for one in chosen) / total

    phases: dict[Category, float] = {}
    systems: dict[str, float] = {}
    for one in rank.weighed:
        if one.doing.phase is not None:
            phase = one.doing.phase
            phases[phase] = phases.get(phase, 0.0) + one.weight / total
        if one.doing.file_system:
            kind = one.doing.file_system
            systems[kind] = systems.get(kind, 0.0) + one.weight / total
    return RankAccount(
        member=member.name,
        role=member.role,
        node=member.node,
        rank=seen.rank,
        looks=len(seen.looks),
        span_s=seen.looks[-1].at_s - seen.looks[0].at_s,
        step_s=member.step_s,
        parts=rank.parts,
        lines=rank.lines,
        waits=tuple(_waits(rank, all_ranks)),
        network=_network(rank, cards),
        phases=phases,
        spins=share_of(one for one in rank.weighed if one.doing.spins),
        threads=Threads(
            seen.python_threads,
            share_of(one for one in rank.weighed if one.doing.for_thread),
        ),
        cpus=None if member.cpus is None else member.cpus / max(1, len(member.ranks)),
        loaders=seen.helpers,
        file_systems=systems,
        serves=member.serves,
        note=_unseen(rank),
    )


def _waits(rank: _Rank, all_ranks: Sequence[_Rank]) -> list[WaitFor]:
    """Whom it waits for: as its connections tell, or the one that does not wait itself."""
    shares: dict[tuple[str, int | None], float] = {}
    for names, share in rank.named.items():
        whom = _whom(rank, names, all_ranks)
        key = ("", None) if whom is None else (whom.member.name, whom.seen.rank)
        shares[key] = shares.get(key, 0.0) + share
    found = []
    for (name, number), share in shares.items():
        other = next(
            (one for one in all_ranks if (one.member.name, one.seen.rank) == (name, number)), None
        )
        doing, line = _busy_with(other) if other is not None else (None, None)
        several = other is not None and len(other.member.ranks) > 1
        found.append(WaitFor(name, share, number if several else None, doing, line))
    return sorted(found, key=lambda one: -one.share)


def _whom(rank: _Rank, names: Sequence[str], all_ranks: Sequence[_Rank]) -> _Rank | None:
    others = [one for one in all_ranks if one is not rank]
    named = [one for one in others if one.member.name in names]
    # A chief of parameter servers hands out steps: it waits for those who do them.
    leads = rank.member.role == _LEADER
    servers = [] if leads else [one for one in named if one.member.serves]
    named = [one for one in named if not (leads and one.member.serves)]
    if len(names) == 1 and len(named) == 1:
        return named[0]
    candidates = servers or named or [one for one in others if not one.member.serves]
    if not candidates or rank.member.serves:
        return None
    least = min(candidates, key=_idle)
    rest = [_idle(one) for one in candidates if one is not least]
    if not rest:
        return least if _idle(rank) - _idle(least) > _WAITS_LESS or servers else None
    less = median(rest) - _idle(least) > _WAITS_LESS
    return least if less and (servers or _idle(rank) - _idle(least) > _WAITS_LESS) else None


def _idle(rank: _Rank) -> float:
    return rank.parts.get(Activity.OTHERS, 0.0) + rank.parts.get(Activity.NETWORK, 0.0)


def _busy_with(rank: _Rank) -> tuple[Activity | None, LineShare | None]:
    """What it does most beside waiting for others; time without a CPU counts for what it delays."""
    work: dict[Activity, float] = {}
    for one in rank.weighed:
        work[one.doing.activity] = work.get(one.doing.activity, 0.0) + one.weight
    for waits in (Activity.OTHERS, Activity.UNSEEN):
        work.pop(waits, None)
    if not work:
        return None, None
    most = max(work, key=lambda activity: work[activity])
    lines = [one for one in rank.lines if one.by.get(most, 0.0) > 0]
    return most, max(lines, key=lambda one: one.by.get(most, 0.0), default=None)


def _network(rank: _Rank, cards: Mapping[str, CardSeen]) -> NetworkUse | None:
    inside = [one for one in rank.weighed if one.doing.activity is Activity.NETWORK]
    own = cards.get(rank.member.name)
    if not inside or own is None:
        return None
    theirs = [one.card_of for one in inside if one.card_of is not None]
    of = max(set(theirs), key=theirs.count) if len(theirs) > len(inside) / 2 else ""
    card = cards[of] if of else own
    moved = {name: count for name, count in rank.seen.moved.items() if count > 0}
    bytes_moved = sum(moved.values())
    return NetworkUse(
        card=card.name,
        sent_mbps=mean(one.look.sent_kbytes_per_s for one in inside) * _MBIT_PER_KBYTE,
        received_mbps=mean(one.look.received_kbytes_per_s for one in inside) * _MBIT_PER_KBYTE,
        limit_mbps=card.limit_mbps,
        most_mbps=max(card.fuller_kbytes_per_s, default=0.0) * _MBIT_PER_KBYTE,
        full=card.full,
        to={name: count / bytes_moved for name, count in moved.items()},
        of=of,
    )


def _unseen(rank: _Rank) -> str:
    share = rank.parts.get(Activity.UNSEEN, 0.0)
    if rank.seen.refused:
        return (
            "its memory and system calls may not be read (kernel.yama.ptrace_scope, or a "
            "container's rules): no lines, and waits are told apart less well"
        )
    if share > 0.05:
        return (
            f"{100 * share:.0f} % of its time it waits on a lock, with no thread at work and no "
            "connection that would say for whom; py-spy dump --native --pid "
            f"{rank.seen.pid} shows it"
        )
    return ""


def _roles(ranks: Sequence[RankAccount]) -> Iterable[RoleAccount]:
    for role in dict.fromkeys(one.role for one in ranks):
        of_role = [one for one in ranks if one.role == role]
        steps = [one.step_s for one in of_role if one.step_s is not None]
        yield RoleAccount(
            role=role,
            ranks=len(of_role),
            step_s=mean(steps) if steps else None,
            parts={
                activity: mean(one.share(activity) for one in of_role)
                for activity in Activity
                if any(one.share(activity) for one in of_role)
            },
            serves=of_role[0].serves,
        )


def _slowest(ranks: Sequence[RankAccount]) -> RankAccount | None:
    """Of those that train: whose steps take longest, or who waits least for the others."""
    training = [one for one in ranks if not one.serves] or list(ranks)
    if len(training) < 2:
        return training[0] if training else None
    steps = [one.step_s or 0.0 for one in training]
    if max(steps) > _SLOWER * min(steps) > 0:
        return max(training, key=lambda one: one.step_s or 0.0)
    return min(training, key=lambda one: one.share(Activity.OTHERS, Activity.NETWORK))


def _note(members: Sequence[MemberSeen], ranks: Sequence[RankAccount]) -> str:
    seen = {one.member for one in ranks}
    missing = [one.name for one in members if one.name not in seen]
    if not missing:
        return ""
    names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return f"too few looks at {names}"


def _machines(members: Sequence[MemberSeen], one_machine: bool) -> Iterable[MachineUse]:
    for node in dict.fromkeys(one.node for one in members):
        here = [one for one in members if one.node == node and one.ranks]
        told = [rank.machine for one in here for rank in one.ranks if rank.machine.span_s > 0]
        if not told:
            continue
        longest = max(told, key=lambda one: one.span_s)
        used = sum(one.cpus or 0.0 for one in (members if one_machine else here))
        busy = longest.busy_s / longest.span_s
        yield MachineUse(
            node=node,
            cpus=longest.cpus,
            busy_cpus=busy,
            others_cpus=max(0.0, busy - used),
            pressure={
                kind: min(1.0, seconds / longest.span_s)
                for kind, seconds in longest.pressure_s.items()
            },
        )
