"""The cluster and the ledger while one round of decisions is made.

Preemption and backfill try things out here: every change can be taken back exactly, because a
plan names the very slots that it holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from mooring.brain.queue.books import Books
from mooring.brain.queue.types import (
    Amount,
    Foresees,
    Planner,
    QueuedGang,
    QueueState,
    RunningGang,
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


_NO_PLACE = Block(Cause.PLACE)


@dataclass(frozen=True)
class Change:
    """A running gang that stops (`after` is None) or gets another size."""

    before: RunningGang
    after: RunningGang | None = None


class Scene:
    def __init__(
        self,
        state: QueueState,
        planner: Planner,
        now_s: float,
        *,
        explain: bool = False,
        books: Books | None = None,
    ) -> None:
        """With `explain` a refusal comes with the planner's sentence. `books` say the same as
        `state`, if somebody has kept them."""
        self._foresees = isinstance(planner, Foresees) and not explain
        self.now_s = now_s
        self.policy = state.policy
        self.books = Books(state) if books is None else books.copy()
        self.ledger = self.books.ledger
        self.running = self.books.running
        self.free = self.books.free
        self._planner = planner
        #: The caller's planner is never changed; it is copied at the first change.
        self._own = False
        #: Which scene this is; the same number means that nothing has changed.
        self._version = self._latest = 0
        self._refused: dict[tuple[int, int, Hashable], Block] = {}

    def copy(self) -> Scene:
        twin = Scene.__new__(Scene)
        twin.__dict__.update(self.__dict__)
        twin.books = self.books.copy()
        twin.ledger, twin.running, twin.free = (
            twin.books.ledger,
            twin.books.running,
            twin.books.free,
        )
        twin._refused = {}
        if self._own:
            twin._planner = self._planner.copy()
        return twin

    @property
    def planner(self) -> Planner:
        """For asking only."""
        return self._planner

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Whatever is tried out within is taken back within: what was known stays true."""
        version = self._version
        try:
            yield
        finally:
            self._version = version

    def _changed(self) -> None:
        self._latest += 1
        self._version = self._latest

    def _enter(self, running: RunningGang) -> None:
        self._changed()
        self.books.enter(running)

    def _leave(self, running: RunningGang) -> None:
        self._changed()
        self.books.leave(running)

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
        if self._foresees and not self._planner.may_fit(gang):  # type: ignore[attr-defined]
            return _NO_PLACE
        answer = self._planner.place(gang)
        if isinstance(answer, Refusal):
            block = Block(Cause.PLACE, answer.sentence)
        elif answer.waiting:
            block = Block(Cause.PLACE, f"{len(answer.waiting)} of {size} members have no place")
        else:
            return answer
        self._refused[self._version, size, queued.shape] = block
        return block
