"""Other plans for the gangs that start in one round, so that one more of them has a place.

Gangs that are admitted in a round are placed one after the other, and nobody has started yet: a
gang that is refused although the amounts suffice may fit once those before it are placed otherwise.
A planner that can pack says whether there is such a packing; then plans are sought once more one
gang after the other, in some orders, because those honour preferences, which a packing does not.
All is bounded by counted work, so that big clusters and long queues do not pay for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import cast

from mooring.brain.packing import SearchBudget
from mooring.brain.queue.exchange import proposals
from mooring.brain.queue.round_state import GangChange, RoundState
from mooring.brain.queue.types import Foresees, Packer, QueuedGang, RunningGang, can
from mooring.brain.want import Want, kinds_of
from mooring.model.member import Gang
from mooring.model.plan import Placement, Plan, Slot

Turn = tuple[float, ...]
#: Gangs in an order: what the planner knows each by, size, pool, whether it may be preempted.
Line = tuple[tuple[Hashable, int, str, bool], ...]
#: How often whoever has no place may go first.
_MOST_COMPLAINTS = 4
#: Packings' worth of steps that a round, and a set of gangs that arrived together, may cost.
_ROUND = 5
_CLASS = 20
#: Steps that are about as long as placing one gang.
_PLACING = 500
#: Plans for what is known to fit.
_FREE = 1 << 62


class Regroup:
    """What one round may still spend on it, and what it has tried in vain.

    Whatever is tried, those that start in this round are put aside before. So all of it is tried
    on the state as it was when the round began, and what fails once fails again. It is charged
    again too: how far a search gets must not depend on what happens to be remembered.
    """

    def __init__(self, round_state: RoundState) -> None:
        self._round_state = round_state
        self._most = round_state.policy.most_packing
        self._left = _ROUND * self._most
        self._foresees = can(type(round_state.planner), Foresees)
        self._packs = can(type(round_state.planner), Packer)
        #: Gangs one after the other for whom the amounts or the pools do not suffice.
        self._too_much: set[Line] = set()
        #: Gangs one after the other, the last of whom has no place then.
        self._no_place: set[Line] = set()
        #: The steps after which it was clear that there is no packing.
        self._no_packing: dict[Line, int] = {}

    def one_more(
        self, starting: Sequence[RunningGang], queued: QueuedGang
    ) -> list[RunningGang] | None:
        """All that start, with plans that leave a place for this one too."""
        gangs = [*starting, _unplaced(queued, self._round_state.now_s)]
        budget = SearchBudget(min(self._most, self._left))
        given = budget.left
        with self._aside(starting):
            found = self._together(gangs, budget)
        self._left -= given - budget.left
        return found

    def more(
        self,
        starting: Sequence[RunningGang],
        equals: Sequence[RunningGang],
        waiting: Sequence[QueuedGang],
    ) -> list[RunningGang] | None:
        """All that start, with more of these equals, some of which may wait instead."""
        round_state = self._round_state
        if not equals or not waiting:
            return None
        free = (round_state.free[0], round_state.free[1], round_state.free[2])
        proposed = list(
            proposals([each.queued for each in equals], waiting, free, round_state.queue_index.part)
        )
        if not proposed:
            return None
        left = _CLASS * self._most
        with self._aside(starting):
            for most in (self._most // 4, _ROUND * self._most):
                for out, joining in proposed:
                    budget = SearchBudget(min(most, left))
                    given = budget.left
                    staying = [each for each in starting if each.queued not in out]
                    gangs = [*staying, *(_unplaced(one, round_state.now_s) for one in joining)]
                    found = self._together(gangs, budget)
                    if found is not None:
                        return found
                    left -= given - budget.left
                    if left <= 0:
                        return None
        return None

    def _aside(self, starting: Sequence[RunningGang]) -> AbstractContextManager[None]:
        return self._round_state.supposing([GangChange(each) for each in starting])

    def _together(
        self, gangs: Sequence[RunningGang], budget: SearchBudget
    ) -> list[RunningGang] | None:
        """These gangs with new plans that fit all at once.

        Their own plans are not looked at: only how many members they have.
        """
        round_state, planner = self._round_state, self._round_state.planner
        line = self._line(gangs)
        if line in self._too_much:
            return None
        wanted = [each.gang for each in gangs]
        if not round_state.permits(gangs) or (
            self._foresees and not cast(Foresees, planner).may_fit(*wanted)
        ):
            self._too_much.add(line)
            return None
        if not self._packs or not cast(Packer, planner).packable(wanted):
            return self._one_by_one(_orders(gangs), _MOST_COMPLAINTS, budget)
        plans = self._packed(cast(Packer, planner), line, wanted, budget)
        if plans is None:
            return None
        packed = [
            RunningGang(each.queued, plan, each.started_s)
            for each, plan in zip(gangs, plans, strict=True)
        ]
        return self._one_by_one([gangs, *_orders(gangs)[:1]], 1, SearchBudget(_FREE)) or packed

    def _packed(
        self, planner: Packer, line: Line, wanted: Sequence[Gang], budget: SearchBudget
    ) -> tuple[Plan, ...] | None:
        known = self._no_packing.get(line)
        if known is not None and known < budget.left:
            budget.left -= known
            return None
        given = budget.left
        plans = planner.pack(wanted, budget)
        if plans is None and budget.left > 0:
            self._no_packing[line] = given - budget.left
        return plans

    def _line(self, gangs: Sequence[RunningGang]) -> Line:
        """All that the answers about these gangs, in this order, depend on."""
        return tuple(
            (self._round_state.name(queued), each.size, queued.pool, queued.preemptible)
            for each in gangs
            for queued in (each.queued,)
        )

    def _one_by_one(
        self, orders: Sequence[Sequence[RunningGang]], most_complaints: int, budget: SearchBudget
    ) -> list[RunningGang] | None:
        """By the first of the orders in which all have a place; who has none goes first, so
        often."""
        for order in orders:
            for _ in range(most_complaints):
                if budget.left <= 0:
                    return None
                budget.left -= _PLACING * len(order)
                found = self._place(order)
                if not isinstance(found, RunningGang):
                    return found
                if found is order[0]:
                    break
                order = [found, *(each for each in order if each is not found)]
        return None

    def _place(self, order: Sequence[RunningGang]) -> list[RunningGang] | RunningGang:
        """The gangs with their plans, or the first that has no place."""
        round_state, line = self._round_state, self._line(order)
        for at, each in enumerate(order):
            if line[: at + 1] in self._no_place:
                return each
        found: list[RunningGang] = []
        with round_state.unchanged():
            try:
                for at, each in enumerate(order):
                    plan = round_state.fits(each.queued, each.size)
                    if not isinstance(plan, Plan):
                        self._no_place.add(line[: at + 1])
                        return each
                    placed = RunningGang(each.queued, plan, each.started_s)
                    round_state.start(placed)
                    found.append(placed)
            finally:
                for placed in found:
                    round_state.stop(placed.job)
        return found


def _unplaced(queued: QueuedGang, now_s: float) -> RunningGang:
    """As small as it may start, for those who only look at how many members it has."""
    gang, _ = queued.sized(queued.least)
    nowhere = tuple(Placement(member.id, Slot("", ())) for member in gang.members)
    return RunningGang(queued, Plan(queued.job, nowhere), now_s)


def _orders(gangs: Sequence[RunningGang]) -> list[list[RunningGang]]:
    """By devices, CPUs or memory of the largest member, or those with CPUs of their own first."""

    def line_up(*kinds: int) -> list[RunningGang]:
        def turn(each: RunningGang) -> tuple[Turn, str]:
            wants = kinds_of(each.gang).wants
            return min(tuple(-_amounts(want)[kind] for kind in kinds) for want in wants), each.job

        return sorted(gangs, key=turn)

    ways = (line_up(2, 3, 0, 1), line_up(0, 2, 3, 1), line_up(3, 2, 0, 1), line_up(1, 2, 0))
    return list({tuple(each.job for each in way): way for way in ways}.values())


def _amounts(want: Want) -> tuple[int, int, int, int]:
    return want.cpu_millis, want.memory_bytes, want.asked.gpu_millis, want.whole_cpus
