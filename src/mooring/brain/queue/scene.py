"""The cluster and the ledger while one round of decisions is made.

Preemption and backfill try things out here: every change can be taken back exactly, because a
plan names the very slots that it holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from mooring.brain.queue.order import standing
from mooring.brain.queue.pools import Ledger
from mooring.brain.queue.types import (
    Amount,
    Planner,
    QueuedGang,
    QueueState,
    RunningGang,
    amount_of,
)
from mooring.model.plan import Plan, Refusal


class Cause(StrEnum):
    NEVER = "never"
    CAP = "cap"
    FIRM = "firm"
    AMOUNT = "amount"
    PLACE = "place"
    HEAD = "head"
    EQUALS = "equals"


@dataclass(frozen=True)
class Block:
    """Why a gang cannot start now. `detail` is the planner's sentence or the head's name,
    `start_s` when that head is expected to start.
    """

    cause: Cause
    detail: str = ""
    start_s: float | None = None


@dataclass(frozen=True)
class Change:
    """A running gang that stops (`after` is None) or gets another size."""

    before: RunningGang
    after: RunningGang | None = None


class Scene:
    def __init__(self, state: QueueState, planner: Planner, now_s: float) -> None:
        self.now_s = now_s
        self.policy = state.policy
        self.ledger = Ledger(state.pools, state.capacity)
        self.running: dict[str, RunningGang] = {}
        self._planner = planner
        #: The caller's planner is never changed; it is copied at the first change.
        self._own = False
        capacity = amount_of(state.capacity)
        self.free = list(capacity)
        #: Which scene this is; the same number means that nothing has changed.
        self._version = self._latest = 0
        self._refused: dict[tuple[int, int, Hashable], Block] = {}
        self._lowest: dict[str, float] | None = None
        for each in state.running:
            self._enter(each)

    def copy(self) -> Scene:
        twin = Scene.__new__(Scene)
        twin.__dict__.update(self.__dict__)
        twin.ledger = self.ledger.copy()
        twin.running = dict(self.running)
        twin.free = list(self.free)
        twin._refused = {}
        if self._own:
            twin._planner = self._planner.copy()
        return twin

    @property
    def planner(self) -> Planner:
        """For asking only."""
        return self._planner

    def lowest_standing(self, pool: str) -> float:
        """Of those in the pool that may be preempted at all; of all pools if none is divided."""
        if self._lowest is None:
            self._lowest = {}
            for each in self.running.values():
                if each.queued.preemptible:
                    name = each.pool if self.ledger.divided else ""
                    value = standing(each, self.policy)
                    self._lowest[name] = min(value, self._lowest.get(name, inf))
        return self._lowest.get(pool if self.ledger.divided else "", inf)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Whatever is tried out within is taken back within: what was known stays true."""
        version, lowest = self._version, self._lowest
        try:
            yield
        finally:
            self._version, self._lowest = version, lowest

    def _changed(self) -> None:
        self._latest += 1
        self._version = self._latest
        self._lowest = None

    def _enter(self, running: RunningGang) -> None:
        self._changed()
        self.running[running.job] = running
        self.ledger.add(running)
        for k, amount in enumerate(running.charge):
            self.free[k] -= amount

    def _leave(self, running: RunningGang) -> None:
        self._changed()
        del self.running[running.job]
        self.ledger.remove(running)
        for k, amount in enumerate(running.charge):
            self.free[k] += amount

    def _changeable(self) -> Planner:
        if not self._own:
            self._planner = self._planner.copy()
            self._own = True
        return self._planner

    def start(self, running: RunningGang) -> None:
        self._changeable().assume(running.gang, running.plan)
        self._enter(running)

    def stop(self, job: str) -> RunningGang:
        running = self.running[job]
        self._changeable().release(job)
        self._leave(running)
        return running

    def change(self, change: Change) -> None:
        self.stop(change.before.job)
        if change.after is not None:
            self.start(change.after)

    @contextmanager
    def supposing(self, changes: Iterable[Change]) -> Iterator[None]:
        done: list[Change] = []
        with self.unchanged():
            try:
                for change in changes:
                    self.change(change)
                    done.append(change)
                yield
            finally:
                for change in done:
                    if change.after is not None:
                        self.stop(change.after.job)
                for change in done:
                    self.start(change.before)

    def part(self, queued: QueuedGang) -> float:
        """The largest part of the cluster that it needs of anything."""
        pairs = zip(queued.sized(queued.least)[1], self.ledger.capacity, strict=True)
        return max((amount / whole for amount, whole in pairs if whole), default=0.0)

    def enough(self, ask: Amount) -> bool:
        """Do the sums allow for it? Where exactly is the planner's business."""
        free = self.free
        return ask[0] <= free[0] and ask[1] <= free[1] and ask[2] <= free[2]

    def permits(self, gangs: Sequence[RunningGang]) -> bool:
        """Do amounts and pools allow for all of these besides those that run?"""
        entered: list[RunningGang] = []
        with self.unchanged():
            try:
                for each in gangs:
                    if self.quota(each.queued, each.charge) or not self.enough(each.charge):
                        return False
                    self._enter(each)
                    entered.append(each)
                return True
            finally:
                for each in entered:
                    self._leave(each)

    def quota(self, queued: QueuedGang, ask: Amount) -> Block | None:
        ledger = self.ledger
        if ledger.over_cap(queued.pool, ask):
            never = ledger.never(queued.pool, queued.sized(queued.least)[1])
            return Block(Cause.NEVER if never else Cause.CAP)
        if not queued.preemptible and ledger.binds_guarantees(queued.pool, ask):
            return Block(Cause.FIRM)
        return None

    def fits(self, queued: QueuedGang, size: int) -> Plan | Block:
        gang, ask = queued.sized(size)
        block = self.quota(queued, ask)
        if block is not None:
            return block
        if not self.enough(ask):
            least = queued.sized(queued.least)[1]
            return Block(Cause.NEVER if self.ledger.never(queued.pool, least) else Cause.AMOUNT)
        known = self._refused.get((self._version, size, queued.shape))
        if known is not None:
            return known
        answer = self._planner.place(gang)
        if isinstance(answer, Refusal):
            block = Block(Cause.PLACE, answer.sentence)
        elif answer.waiting:
            block = Block(Cause.PLACE, f"{len(answer.waiting)} of {size} members have no place")
        else:
            return answer
        self._refused[self._version, size, queued.shape] = block
        return block
