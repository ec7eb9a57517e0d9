"""Groups of nodes that move between pools as load shifts, and do not swing back and forth.

A group adds its capacity to the guarantee of the pool that has it. It moves when one pool has
been short for a while and another could do without it for as long, and then stays for a time:
two thresholds, a delay and a rest are the hysteresis. What has been seen so far is an argument
and a result, so that this stays a pure function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mooring.brain.queue.types import Amount, PoolSpec, amount_of
from mooring.model.resources import Resources


@dataclass(frozen=True)
class NodeGroup:
    """`moved_s` is when it came to `pool`; None if it has always been there."""

    name: str
    pool: str
    capacity: Resources
    moved_s: float | None = None


@dataclass(frozen=True)
class MovePolicy:
    """`short` and `spare` are demand divided by guarantee.

    A pool above `short` for `delay_s` takes; one that without the group stays below `spare` for
    as long gives; a group rests `rest_s` after a move.
    """

    short: float = 1.0
    spare: float = 0.7
    delay_s: float = 300.0
    rest_s: float = 1800.0

    def __post_init__(self) -> None:
        if not 0 <= self.spare < self.short:
            raise ValueError(f"spare {self.spare} is not below short {self.short}")


@dataclass(frozen=True)
class Since:
    """Since when each pool is short, and each group could be spared where it is."""

    short: Mapping[str, float]
    spare: Mapping[str, float]


NOT_YET = Since({}, {})


@dataclass(frozen=True)
class Move:
    group: str
    source: str
    target: str


def with_groups(pools: Sequence[PoolSpec], groups: Sequence[NodeGroup]) -> tuple[PoolSpec, ...]:
    """The pools with the capacity of their groups guaranteed; a cap never falls below that."""
    found = []
    for pool in pools:
        own = pool.guaranteed
        for group in groups:
            if group.pool == pool.name:
                own = own + group.capacity
        cap = pool.cap
        if cap is not None:
            pairs = zip(amount_of(cap), amount_of(own), strict=True)
            cap = Resources(*(max(pair) for pair in pairs))
        found.append(replace(pool, guaranteed=own, cap=cap))
    return tuple(found)


def move_groups(
    pools: Sequence[PoolSpec],
    groups: Sequence[NodeGroup],
    demand: Mapping[str, Resources],
    since: Since,
    now_s: float,
    policy: MovePolicy | None = None,
) -> tuple[tuple[Move, ...], tuple[NodeGroup, ...], Since]:
    """At most one group for each pool that is short; the groups and what is seen after that.

    `demand` is what each pool holds and waits for.
    """
    policy = policy or MovePolicy()
    now = list(groups)
    since = _seen(pools, now, demand, since, now_s, policy)
    moves = []
    pressed = [
        pool.name
        for pool in pools
        if now_s - since.short.get(pool.name, now_s) >= policy.delay_s and pool.name in since.short
    ]
    # The pool that has been short the longest takes first.
    for target in sorted(pressed, key=lambda name: (since.short[name], name)):
        for i, group in enumerate(now):
            if _movable(group, target, since, now_s, policy):
                moves.append(Move(group.name, group.pool, target))
                now[i] = replace(group, pool=target, moved_s=now_s)
                # The giver has less now: its other groups are judged again.
                since = _seen(pools, now, demand, since, now_s, policy)
                break
    return tuple(moves), tuple(now), since


def _movable(group: NodeGroup, target: str, since: Since, now_s: float, policy: MovePolicy) -> bool:
    rested = group.moved_s is None or now_s - group.moved_s >= policy.rest_s
    spared = group.name in since.spare and now_s - since.spare[group.name] >= policy.delay_s
    return group.pool != target and rested and spared


def _seen(
    pools: Sequence[PoolSpec],
    groups: Sequence[NodeGroup],
    demand: Mapping[str, Resources],
    since: Since,
    now_s: float,
    policy: MovePolicy,
) -> Since:
    own = {pool.name: amount_of(pool.guaranteed) for pool in with_groups(pools, groups)}
    wants = {name: amount_of(demand.get(name, Resources())) for name in own}
    short = {
        name: since.short.get(name, now_s)
        for name in own
        if _load(wants[name], own[name]) > policy.short
    }
    spare = {}
    for group in groups:
        if group.pool not in own:
            continue
        gone = amount_of(group.capacity)
        had = own[group.pool]
        rest = (had[0] - gone[0], had[1] - gone[1], had[2] - gone[2])
        if _load(wants[group.pool], rest) < policy.spare:
            spare[group.name] = since.spare.get(group.name, now_s)
    return Since(short, spare)


def _load(want: Amount, own: Amount) -> float:
    """By the scarcest kind among those that the pool has or wants."""
    loads = [
        want[k] / own[k] if own[k] else (float("inf") if want[k] else 0.0) for k in range(len(want))
    ]
    return max(loads)
