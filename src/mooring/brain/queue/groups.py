"""Groups of nodes that belong to pools, and move between them as load shifts.

A group adds its capacity to the guarantee of the pool that has it. It moves when one pool has been
short for a while and another could do without it for as long, and then stays for a time: two
thresholds, a delay and a rest are the hysteresis. Guarantees are moved, not members: who runs on a
node of the group stays, and what its pool then holds beyond its guarantee is borrowed like
everything else. Caps stay as they are; a group never goes to a pool whose cap it would exceed.

What has been seen so far is an argument and a result: this is a pure function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

from mooring.brain.queue.pools import demand
from mooring.brain.queue.types import Amount, PoolSpec, QueuedGang, RunningGang, amount_of
from mooring.model.resources import Resources


@dataclass(frozen=True)
class PooledNodes:
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
        # Above 1 a pool could give what it holds for good, and others' guarantees would be empty.
        if not 0 <= self.spare <= 1 or not self.spare < self.short:
            raise ValueError(f"spare {self.spare} is not from 0 to 1 and below short {self.short}")


@dataclass(frozen=True)
class Since:
    """Since when each pool is short, and each group could be spared where it is."""

    short: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    spare: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Move:
    """The group has gone from pool `source` to pool `target`."""

    group: str
    source: str
    target: str
    reason: str


@dataclass(frozen=True)
class Groups:
    """The groups with what has been seen of them; without a policy they stay where they are."""

    groups: tuple[PooledNodes, ...] = ()
    policy: MovePolicy | None = None
    since: Since = Since()

    def guarantees(self, pools: Sequence[PoolSpec]) -> tuple[PoolSpec, ...]:
        """The pools with the capacity of the groups that they have now."""
        own: dict[str, Resources] = {}
        for group in self.groups:
            own[group.pool] = own.get(group.pool, Resources()) + group.capacity
        return tuple(
            replace(pool, guaranteed=pool.guaranteed + own[pool.name]) if pool.name in own else pool
            for pool in pools
        )

    def look(
        self,
        pools: Sequence[PoolSpec],
        waiting: Iterable[QueuedGang],
        running: Iterable[RunningGang],
        now_s: float,
    ) -> tuple[Groups, tuple[Move, ...]]:
        """At most one group for each pool that is short; the groups and what is seen after that."""
        if self.policy is None or not self.groups:
            return self, ()
        gangs, held = list(waiting), list(running)
        wants = {pool.name: amount_of(demand(pool.name, gangs, held)) for pool in pools}
        return _Look(self, self.policy, pools, wants, now_s).moved()

    def wakes_s(self, now_s: float) -> float:
        """When to look again although nothing happens: the next delay or rest that is over."""
        if self.policy is None or not self.since.short:
            return inf
        times = [at_s + self.policy.delay_s for at_s in self.since.short.values()]
        times += [at_s + self.policy.delay_s for at_s in self.since.spare.values()]
        times += [
            group.moved_s + self.policy.rest_s for group in self.groups if group.moved_s is not None
        ]
        return min((at_s for at_s in times if at_s > now_s), default=inf)


class _Look:
    """One look at all pools, at one moment."""

    def __init__(
        self,
        before: Groups,
        policy: MovePolicy,
        pools: Sequence[PoolSpec],
        wants: Mapping[str, Amount],
        now_s: float,
    ) -> None:
        self.policy = policy
        self.pools = pools
        self.caps = {pool.name: amount_of(pool.cap) for pool in pools if pool.cap is not None}
        self.wants = wants
        self.now_s = now_s
        self.state = before
        #: Kinds of which no group has any tell nothing about who needs a group.
        self.kinds = tuple(
            k for k in range(3) if any(amount_of(group.capacity)[k] for group in before.groups)
        )
        self._see()

    def _see(self) -> None:
        """Who is short, who could be spared; for those who were so already, since when."""
        since, policy = self.state.since, self.policy
        self.own = {
            pool.name: amount_of(pool.guaranteed) for pool in self.state.guarantees(self.pools)
        }
        short = {
            name: since.short.get(name, self.now_s)
            for name in self.own
            if self._load(name, self.own[name]) > policy.short
        }
        spare = {
            group.name: since.spare.get(group.name, self.now_s)
            for group in self.state.groups
            if self._load(group.pool, self._without(group)) < policy.spare
        }
        self.state = replace(self.state, since=Since(short, spare))

    def _load(self, pool: str, own: Amount) -> float:
        """By the scarcest kind among those that the pool wants."""
        want = self.wants[pool]
        loads = [want[k] / own[k] if own[k] > 0 else inf for k in self.kinds if want[k]]
        return max(loads, default=0.0)

    def _without(self, group: PooledNodes) -> Amount:
        had, gone = self.own[group.pool], amount_of(group.capacity)
        return (had[0] - gone[0], had[1] - gone[1], had[2] - gone[2])

    def moved(self) -> tuple[Groups, tuple[Move, ...]]:
        moves = []
        pressed = dict(self.state.since.short)
        # The pool that has been short the longest takes first.
        for target in sorted(pressed, key=lambda name: (pressed[name], name)):
            if self.now_s - pressed[target] < self.policy.delay_s:
                continue
            group = next((one for one in self.state.groups if self._movable(one, target)), None)
            if group is None:
                continue
            moves.append(Move(group.name, group.pool, target, self._reason(group, target)))
            there = replace(group, pool=target, moved_s=self.now_s)
            groups = tuple(there if one is group else one for one in self.state.groups)
            self.state = replace(self.state, groups=groups)
            self._see()  # the giver has less now: its other groups are judged again
        return self.state, tuple(moves)

    def _movable(self, group: PooledNodes, target: str) -> bool:
        if group.pool == target or group.name not in self.state.since.spare:
            return False
        rested = group.moved_s is None or self.now_s - group.moved_s >= self.policy.rest_s
        spared_s = self.now_s - self.state.since.spare[group.name]
        return rested and spared_s >= self.policy.delay_s and self._welcome(group, target)

    def _welcome(self, group: PooledNodes, target: str) -> bool:
        """Has it what the pool is short of, and may the pool hold it?"""
        more, own, want = amount_of(group.capacity), self.own[target], self.wants[target]
        helps = any(more[k] and want[k] > self.policy.short * own[k] for k in self.kinds)
        cap = self.caps.get(target)
        return helps and (cap is None or all(own[k] + more[k] <= cap[k] for k in self.kinds))

    def _reason(self, group: PooledNodes, target: str) -> str:
        since_s = self.now_s - self.state.since.short[target]
        needs = self._load(target, self.own[target])
        how = "it has none" if needs == inf else f"it wants {needs:.0%} of its guarantee"
        rest = self._load(group.pool, self._without(group))
        return (
            f"nodes {group.name} move from pool {group.pool} to pool {target}: {target} has been "
            f"short for {since_s:.0f} s ({how}), {group.pool} wants {rest:.0%} of what it keeps."
        )
