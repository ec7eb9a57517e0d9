"""Who gives way: the fewest gangs, of those the cheapest, and only if the gang then fits.

Two reasons make a gang give way: a higher priority in its own pool, or a pool that wants its
guarantee back while the gang's pool holds more than its own. Everything is tried out on the round's
state and taken back; what is returned has been seen to work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from mooring.brain.queue import elastic
from mooring.brain.queue.order import standing
from mooring.brain.queue.round_state import GangChange, RoundState
from mooring.brain.queue.types import Amount, QueuedGang, RunningGang
from mooring.model.plan import Plan

#: Sets of victims that are sorted by cost before any is tried.
_MOST_SETS = 2000
_LARGEST_SET = 3

Accept = Callable[[Plan, Sequence[GangChange]], bool]


@dataclass(frozen=True)
class Way:
    """What has to change so that the gang fits, and its plan after that."""

    changes: tuple[GangChange, ...]
    plan: Plan


def find(
    round_state: RoundState, queued: QueuedGang, accept: Accept, fresh: Collection[str] = ()
) -> Way | None:
    """The gang is tried at its smallest size; `accept` has the last word on a plan.

    Those in `fresh` have only just started and are left alone.
    """
    _, ask = queued.sized(queued.least)
    if round_state.ledger.never(queued.pool, ask):
        return None
    victims = sorted(
        _victims(round_state, queued, ask, fresh), key=lambda each: _cost(round_state, queued, each)
    )
    if not victims or not _enough(round_state, ask, victims):
        return None
    if round_state.hopeless(queued, queued.least, victims):
        return None
    search = _Search(round_state, queued, ask, accept)
    with round_state.unchanged():
        return search.by_shrinking(victims) or search.by_sets(victims) or search.greedily(victims)


def pointless(round_state: RoundState, queued: QueuedGang) -> bool:
    """Is it plain that nobody would have to give way to it?"""
    ledger = round_state.ledger
    _, ask = queued.sized(queued.least)
    if queued.priority > round_state.queue_index.lowest_standing(queued.pool):
        return False
    if not ledger.divided or not ledger.within_guarantee(queued.pool, ask):
        return True
    return not any(ledger.borrows(name, ask) for name in ledger.in_use if name != queued.pool)


def owes(round_state: RoundState, queued: QueuedGang, victim: RunningGang, ask: Amount) -> bool:
    """Does the victim's pool hold more than its own of what this gang may claim back?"""
    return (
        victim.pool != queued.pool
        and round_state.ledger.within_guarantee(queued.pool, ask)
        and round_state.ledger.borrows(victim.pool, ask)
    )


def _same_queue(round_state: RoundState, queued: QueuedGang, victim: RunningGang) -> bool:
    return victim.pool == queued.pool or not round_state.ledger.divided


def _outranks(round_state: RoundState, queued: QueuedGang, victim: RunningGang) -> bool:
    return _same_queue(round_state, queued, victim) and queued.priority > standing(
        victim, round_state.policy
    )


def _gives(running: RunningGang, ask: Amount) -> bool:
    return any(charge and want for charge, want in zip(running.charge, ask, strict=True))


def _victims(
    round_state: RoundState, queued: QueuedGang, ask: Amount, fresh: Collection[str]
) -> Iterator[RunningGang]:
    reclaims = bool(round_state.ledger.divided) and round_state.ledger.within_guarantee(
        queued.pool, ask
    )
    for each in round_state.running.values():
        if not each.queued.preemptible or each.job in fresh or not _gives(each, ask):
            continue
        if _outranks(round_state, queued, each) or (
            reclaims and owes(round_state, queued, each, ask)
        ):
            yield each


def _cost(
    round_state: RoundState, queued: QueuedGang, victim: RunningGang
) -> tuple[bool, float, float, float, str]:
    """Who owes comes first, then the lowest priority, then the least work lost."""
    owing = victim.pool != queued.pool and bool(round_state.ledger.divided)
    lost = victim.size * (round_state.now_s - victim.started_s)
    return not owing, victim.queued.priority, lost, -victim.started_s, victim.job


def _enough(round_state: RoundState, ask: Amount, victims: Iterable[RunningGang]) -> bool:
    free = list(round_state.free)
    for each in victims:
        for k, charge in enumerate(each.charge):
            free[k] += charge
    return all(want <= room for want, room in zip(ask, free, strict=True))


class _Search:
    def __init__(
        self, round_state: RoundState, queued: QueuedGang, ask: Amount, accept: Accept
    ) -> None:
        self.round_state = round_state
        self.queued = queued
        self.ask = ask
        self.accept = accept
        self.trials = round_state.policy.most_trials

    def _fits(self) -> bool:
        """On the round's state as it is."""
        return self.round_state.has_room(self.queued, self.queued.least)

    def _legal(self, victim: RunningGang) -> bool:
        """May it be taken now, after those that were taken before it?"""
        return _outranks(self.round_state, self.queued, victim) or owes(
            self.round_state, self.queued, victim, self.ask
        )

    def _result(self, changes: Sequence[GangChange]) -> Way | None:
        """Judged on the round's state as it was, then as it would be."""
        with self.round_state.supposing(changes):
            plan = self.round_state.fits(self.queued, self.queued.least)
        if not isinstance(plan, Plan) or not self.accept(plan, changes):
            return None
        return Way(tuple(changes), plan)

    def by_shrinking(self, victims: Sequence[RunningGang]) -> Way | None:
        """Every elastic victim down to its minimum; then each as large again as can be."""
        sizes: dict[str, tuple[RunningGang, RunningGang]] = {}
        for each in victims:
            if each.size > each.queued.least and self._legal(each):
                after = elastic.shrunk(each, each.queued.least)
                if after is not None:
                    self.round_state.change(GangChange(each, after))
                    sizes[each.job] = (each, after)
        fits = bool(sizes) and self._fits()
        if fits:
            for job, (before, _) in reversed(list(sizes.items())):
                sizes[job] = (before, self._regrown(before))
        for _, after in sizes.values():
            self.round_state.stop(after.job)
        for before, _ in sizes.values():
            self.round_state.start(before)
        if not fits:
            return None
        return self._result(
            [GangChange(*pair) for pair in sizes.values() if pair[0] is not pair[1]]
        )

    def _regrown(self, before: RunningGang) -> RunningGang:
        """The largest size of this one with which the gang still fits; it is left so."""
        smallest = self.round_state.running[before.job]

        def at(size: int) -> RunningGang | None:
            return before if size == before.size else elastic.shrunk(before, size)

        def fits(size: int) -> bool:
            after = at(size)
            if after is None:
                return False
            with self.round_state.supposing(
                [GangChange(self.round_state.running[before.job], after)]
            ):
                return self._fits()

        size = elastic.largest(smallest.size + 1, before.size, fits)
        after = smallest if size is None else at(size) or smallest
        self.round_state.change(GangChange(smallest, after))
        return after

    def by_sets(self, victims: Sequence[RunningGang]) -> Way | None:
        """All small sets that may do by their sums, the cheapest of the smallest first."""
        for count in range(1, min(_LARGEST_SET, len(victims)) + 1):
            if comb(len(victims), count) > _MOST_SETS:
                return None
            sets = [
                chosen
                for chosen in combinations(victims, count)
                if _enough(self.round_state, self.ask, chosen)
            ]
            for chosen in sorted(sets, key=self._set_cost):
                if self.trials <= 0:
                    return None
                way = self._try(chosen)
                if way is not None:
                    return way
        return None

    def _set_cost(self, chosen: Sequence[RunningGang]) -> tuple[int, float, float]:
        costs = [_cost(self.round_state, self.queued, each) for each in chosen]
        owners = sum(cost[0] for cost in costs)
        return owners, max(cost[1] for cost in costs), sum(cost[2] for cost in costs)

    def _try(self, chosen: Sequence[RunningGang]) -> Way | None:
        # The smallest first: its pool must still owe something when the last one goes.
        ordered = sorted(chosen, key=lambda each: (each.charge[2], each.charge, each.job))
        taken = []
        for each in ordered:
            if self._legal(each):
                taken.append(self.round_state.stop(each.job))
        legal = len(taken) == len(chosen)
        self.trials -= legal
        fits = legal and self._fits()
        for each in taken:
            self.round_state.start(each)
        return self._result([GangChange(each) for each in chosen]) if fits else None

    def greedily(self, victims: Sequence[RunningGang]) -> Way | None:
        """One after another until it fits; then give back whoever turns out not to be needed."""
        by_size = sorted(victims, key=lambda each: tuple(-charge for charge in each.charge[::-1]))
        for order in (victims, by_size):
            taken: list[RunningGang] = []
            fits = False
            for each in order:
                if self._legal(each):
                    taken.append(self.round_state.stop(each.job))
                    fits = self._fits()
                    if fits:
                        break
            needed = self._needed(taken) if fits else []
            for each in needed if fits else taken:
                self.round_state.start(each)
            if fits:
                way = self._result([GangChange(each) for each in needed])
                if way is not None:
                    return way
        return None

    def _needed(self, taken: Sequence[RunningGang]) -> list[RunningGang]:
        """Those without whom it would not fit; the others run again."""
        needed = []
        dearest_first = sorted(
            taken, key=lambda each: _cost(self.round_state, self.queued, each), reverse=True
        )
        for each in dearest_first:
            self.round_state.start(each)
            if not self._fits():
                self.round_state.stop(each.job)
                needed.append(each)
        return needed[::-1]
