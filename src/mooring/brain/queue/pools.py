"""What each pool holds, may hold and owes.

A pool within its guarantee owes nothing. Beyond it a pool borrows, and the owner may take that
back at any time; a gang that must not be preempted therefore borrows only what is guaranteed to
nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.brain.queue.types import (
    NOTHING,
    UNLIMITED,
    Amount,
    PoolSpec,
    QueuedGang,
    RunningGang,
    amount_of,
    resources_of,
)
from mooring.model.errors import Problem
from mooring.model.resources import Resources

_KINDS = (0, 1, 2)


class PoolLedger:
    """Use by pool. Pools that nobody has described own nothing and may borrow without limit."""

    def __init__(self, pools: Sequence[PoolSpec], capacity: Resources) -> None:
        self.capacity = amount_of(capacity)
        self.specs = {pool.name: pool for pool in pools}
        self._own = {pool.name: amount_of(pool.guaranteed) for pool in pools}
        self._cap = {pool.name: amount_of(pool.cap) for pool in pools if pool.cap is not None}
        amounts = [*self._own.values(), *self._cap.values()]
        #: The kinds of resources that are divided; the others are nobody's and everybody's.
        self.divided = tuple(
            kind for kind in _KINDS if any(0 < amount[kind] < UNLIMITED for amount in amounts)
        )
        self._use: dict[str, Amount] = {}
        self._firm: dict[str, Amount] = {}

    def copy(self) -> PoolLedger:
        twin = PoolLedger.__new__(PoolLedger)
        twin.__dict__.update(self.__dict__)
        twin._use = dict(self._use)
        twin._firm = dict(self._firm)
        return twin

    def add(self, running: RunningGang) -> None:
        self._count(running, 1)

    def remove(self, running: RunningGang) -> None:
        self._count(running, -1)

    def _count(self, running: RunningGang, sign: int) -> None:
        charge, pool = running.charge, running.pool
        for use in (self._use,) if running.queued.preemptible else (self._use, self._firm):
            a, b, c = use.get(pool, NOTHING)
            use[pool] = (a + sign * charge[0], b + sign * charge[1], c + sign * charge[2])

    @property
    def in_use(self) -> tuple[str, ...]:
        return tuple(self._use)

    def use(self, pool: str) -> Amount:
        return self._use.get(pool, NOTHING)

    def own(self, pool: str) -> Amount:
        return self._own.get(pool, NOTHING)

    def cap(self, pool: str) -> Amount | None:
        return self._cap.get(pool)

    def within_guarantee(self, pool: str, ask: Amount) -> bool:
        """Would the pool with this in addition still owe nothing of what is asked?"""
        use, own = self.use(pool), self.own(pool)
        return all(use[k] + ask[k] <= own[k] for k in self.divided if ask[k])

    def over_cap(self, pool: str, ask: Amount) -> bool:
        cap, use = self._cap.get(pool), self.use(pool)
        return cap is not None and any(use[k] + ask[k] > cap[k] for k in self.divided if ask[k])

    def never(self, pool: str, ask: Amount) -> bool:
        """Is it too much even for an empty pool on an empty cluster?"""
        if any(ask[k] > self.capacity[k] for k in _KINDS):
            return True
        cap = self._cap.get(pool)
        return cap is not None and any(ask[k] > cap[k] for k in self.divided)

    def binds_guarantees(self, pool: str, ask: Amount) -> bool:
        """Were this never to be preempted, would others be unable to get their guarantee?

        Each pool needs the larger of its guarantee and what it holds for good; together that must
        not exceed the cluster.
        """
        for k in self.divided:
            firm = self._firm.get(pool, NOTHING)[k] + ask[k]
            if not ask[k] or firm <= self.own(pool)[k]:
                continue
            names = (self._own.keys() | self._firm.keys()) - {pool}
            others = sum(max(self.own(n)[k], self._firm.get(n, NOTHING)[k]) for n in names)
            if others + firm > self.capacity[k]:
                return True
        return False

    def borrows(self, pool: str, ask: Amount) -> bool:
        """Does the pool hold more than its guarantee of anything that is asked for?"""
        use, own = self.use(pool), self.own(pool)
        return any(use[k] > own[k] for k in self.divided if ask[k])

    def borrowed_for(self, pool: str, ask: Amount) -> Resources | None:
        """How much of `ask` would be borrowed; None if nothing."""
        use, own = self.use(pool), self.own(pool)
        parts = [0, 0, 0]
        for k in self.divided:
            parts[k] = min(ask[k], max(0, use[k] + ask[k] - own[k]))
        return resources_of(parts) if any(parts) else None

    def share(self, pool: str) -> float:
        """The largest part of the cluster that the pool has borrowed, by its weight."""
        use, own = self.use(pool), self.own(pool)
        spec = self.specs.get(pool)
        parts = [
            max(0, use[k] - own[k]) / self.capacity[k] for k in self.divided if self.capacity[k]
        ]
        return max(parts, default=0.0) / (spec.weight if spec else 1.0)


def demand(pool: str, waiting: Iterable[QueuedGang], running: Iterable[RunningGang]) -> Resources:
    """What a pool holds and waits for, in full size."""
    gangs = [*waiting, *(each.queued for each in running)]
    charges = [each.sized(each.most)[1] for each in gangs if each.pool == pool]
    return resources_of([sum(charge[k] for charge in charges) for k in _KINDS])


def check_pools(
    pools: Sequence[PoolSpec], capacity: Resources, place: str = "the cluster"
) -> tuple[Problem, ...]:
    """Promises that cannot be kept: guarantees beyond the cluster, caps below the guarantee."""
    found = []
    names = [pool.name for pool in pools]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        found.append(Problem(f"pools.{name}", "the name twice", "one pool of each name"))
    total = Resources()
    for pool in pools:
        total = total + pool.guaranteed
        if pool.cap is not None and not pool.guaranteed.fits_in(pool.cap):
            accepted = f"at least the guarantee ({pool.guaranteed})"
            limits = [0 if amount >= UNLIMITED else amount for amount in amount_of(pool.cap)]
            found.append(Problem(f"pools.{pool.name}.cap", str(resources_of(limits)), accepted))
    if not total.fits_in(capacity):
        accepted = f"guarantees of {capacity} in all, which is what {place} has"
        found.append(Problem("pools", f"guarantees of {total} in all", accepted))
    return tuple(found)
