"""Looks at all ranks of a run to its account. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from mooring.account.cards import CardSeen, card_of
from mooring.account.types import (
    Account,
    Activity,
    MachineUse,
    NetworkUse,
    OtherThreads,
    RankAccount,
    RoleAccount,
)
from mooring.account.waits import waits_of
from mooring.account.weighing import MemberSeen, RankSeen, Weighed, weigh_rank
from mooring.stacks.categories import Category

#: Fewer looks say nothing about a share.
LEAST_LOOKS = 30
_SLOWER = 1.1
#: Of the looks: a card that is full so much more often than another one is the one that limits.
_FULLER = 0.2
_MBIT_PER_KBYTE = 0.008
NOBODY_LOOKED = "nobody looked: the launchers' samples have no looks"
TOO_FEW = "too few looks: it trained for too short a time"


def account_of(members: Iterable[MemberSeen], one_machine: bool = False) -> Account:
    """`one_machine`: its nodes are parts of the same one."""
    known = list(members)
    cards = {one.name: card_of(one.ranks, one.limit_mbps) for one in known if one.ranks}
    looked = [(member, seen) for member in known for seen in member.ranks]
    enough = [(member, seen) for member, seen in looked if len(seen.looks) >= LEAST_LOOKS]
    if not enough:
        return Account(note=TOO_FEW if looked else NOBODY_LOOKED)
    found = [weigh_rank(member, seen, cards) for member, seen in enough]
    ranks = tuple(_finished(one, found, cards) for one in found)
    return Account(
        ranks=ranks,
        roles=tuple(_roles(ranks)),
        slowest=_slowest(ranks),
        note=_note(known, ranks),
        machines=tuple(_machines(known, one_machine)),
    )


def _finished(
    rank: RankSeen, all_ranks: Sequence[RankSeen], cards: Mapping[str, CardSeen]
) -> RankAccount:
    member, seen = rank.member, rank.seen
    total = sum(weighed_look.weight for weighed_look in rank.weighed) or 1.0

    def share_of(chosen: Iterable[Weighed]) -> float:
        return sum(weighed_look.weight for weighed_look in chosen) / total

    phases: dict[Category, float] = {}
    systems: dict[str, float] = {}
    for weighed_look in rank.weighed:
        if weighed_look.doing.phase is not None:
            phase = weighed_look.doing.phase
            phases[phase] = phases.get(phase, 0.0) + weighed_look.weight / total
        if weighed_look.doing.file_system:
            kind = weighed_look.doing.file_system
            systems[kind] = systems.get(kind, 0.0) + weighed_look.weight / total
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
        waits=tuple(waits_of(rank, all_ranks)),
        network=_network(rank, cards),
        phases=phases,
        spins=share_of(weighed_look for weighed_look in rank.weighed if weighed_look.doing.spins),
        threads=OtherThreads(
            seen.python_threads,
            share_of(
                weighed_look for weighed_look in rank.weighed if weighed_look.doing.for_thread
            ),
        ),
        cpus=None if member.cpus is None else member.cpus / max(1, len(member.ranks)),
        loaders=seen.helpers,
        file_systems=systems,
        serves=member.serves,
        note=_unseen(rank),
    )


def _network(rank: RankSeen, cards: Mapping[str, CardSeen]) -> NetworkUse | None:
    inside = [
        weighed_look
        for weighed_look in rank.weighed
        if weighed_look.doing.activity is Activity.NETWORK
    ]
    own = cards.get(rank.member.name)
    if not inside or own is None:
        return None
    moved = {name: count for name, count in rank.seen.moved.items() if count > 0}
    of = _fullest(rank, own, [weighed_look.card_of for weighed_look in inside], moved, cards)
    card = cards[of] if of else own
    sent, received = card.sent_kbytes_per_s, card.received_kbytes_per_s
    if not of:
        sent = mean(weighed_look.look.sent_kbytes_per_s for weighed_look in inside)
        received = mean(weighed_look.look.received_kbytes_per_s for weighed_look in inside)
    bytes_moved = sum(moved.values())
    return NetworkUse(
        card=card.name,
        sent_mbps=sent * _MBIT_PER_KBYTE,
        received_mbps=received * _MBIT_PER_KBYTE,
        limit_mbps=card.limit_mbps,
        most_mbps=max(card.fuller_kbytes_per_s, default=0.0) * _MBIT_PER_KBYTE,
        full=card.full,
        to={name: count / bytes_moved for name, count in moved.items()},
        of=of,
    )


def _fullest(
    rank: RankSeen,
    own: CardSeen,
    full: Sequence[str | None],
    moved: Mapping[str, int],
    cards: Mapping[str, CardSeen],
) -> str:
    """Whose card limits it: of somebody it talks to if that is fuller than the own one; else ""."""
    theirs = {one for one in full if one is not None} | {one for one in moved if one in cards}
    theirs.discard(rank.member.name)
    if not theirs:
        return ""
    most = max(sorted(theirs), key=lambda one: cards[one].full)
    return most if cards[most].full > own.full + _FULLER else ""


def _unseen(rank: RankSeen) -> str:
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
    for role in dict.fromkeys(rank.role for rank in ranks):
        of_role = [rank for rank in ranks if rank.role == role]
        steps = [rank.step_s for rank in of_role if rank.step_s is not None]
        yield RoleAccount(
            role=role,
            ranks=len(of_role),
            step_s=mean(steps) if steps else None,
            parts={
                activity: mean(rank.share(activity) for rank in of_role)
                for activity in Activity
                if any(rank.share(activity) for rank in of_role)
            },
            serves=of_role[0].serves,
        )


def _slowest(ranks: Sequence[RankAccount]) -> RankAccount | None:
    """Of those that train: whose steps take longest, or who waits least for the others."""
    training = [rank for rank in ranks if not rank.serves] or list(ranks)
    if len(training) < 2:
        return training[0] if training else None
    steps = [rank.step_s or 0.0 for rank in training]
    if max(steps) > _SLOWER * min(steps) > 0:
        return max(training, key=lambda one: one.step_s or 0.0)
    return min(training, key=lambda one: one.share(Activity.OTHERS, Activity.NETWORK))


def _note(members: Sequence[MemberSeen], ranks: Sequence[RankAccount]) -> str:
    seen = {rank.member for rank in ranks}
    missing = [member.name for member in members if member.name not in seen]
    if not missing:
        return ""
    names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return f"too few looks at {names}"


def _machines(members: Sequence[MemberSeen], one_machine: bool) -> Iterable[MachineUse]:
    for node in dict.fromkeys(member.node for member in members):
        here = [member for member in members if member.node == node and member.ranks]
        told = [rank.machine for member in here for rank in member.ranks if rank.machine.span_s > 0]
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
