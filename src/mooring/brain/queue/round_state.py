"""The cluster and the ledger while one round of decisions is made.

Preemption and backfill try things out here: every change can be taken back exactly, because a
plan names the very slots that it holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

from mooring.brain.queue.queue_index import QueueIndex
from mooring.brain.queue.types import (
    Amount,
    Foresees,
    Impartial,
    Planner,
    QueuedGang,
    QueueState,
    RunningGang,
    can,
)
from mooring.model.member import Gang
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
class GangChange:
    """A running gang that stops (`after` is None) or gets another size."""

    before: RunningGang
    after: RunningGang | None = None


class RoundState:
    def __init__(
        self,
        state: QueueState,
        planner: Planner,
        now_s: float,
        *,
        explain: bool = False,
        queue_index: QueueIndex | None = None,
    ) -> None:
        """With `explain` a refusal comes with the planner's sentence. `queue_index` say the same as
        `state`, if somebody has kept them."""
        self._can_foresee = can(type(planner), Foresees)
        self._explain = explain
        self._impartial = can(type(planner), Impartial)
        self.now_s = now_s
        self.policy = state.policy
        self.place = state.place
        if queue_index is None:
            queue_index = QueueIndex(state)
        self.memory = queue_index.memory(planner)
        self.queue_index = queue_index.copy()
        self.ledger = self.queue_index.ledger
        self.running = self.queue_index.running
        self.free = self.queue_index.free
        self._planner = planner
        #: The caller's planner is never changed; it is copied at the first change.
        self._own = False
        #: Which state this is; the same number means that nothing has changed.
        self._version = 0
        self._names: dict[str, Hashable] = {}

    def copy(self) -> RoundState:
        twin = RoundState.__new__(RoundState)
        twin.__dict__.update(self.__dict__)
        twin.queue_index = self.queue_index.copy()
        twin.ledger, twin.running, twin.free = (
            twin.queue_index.ledger,
            twin.queue_index.running,
            twin.queue_index.free,
        )
        if self._own:
            twin._planner = self._planner.copy()
        return twin

    @property
    def _foreseeing(self) -> Foresees | None:
        """The planner, if it is one."""
        return cast(Foresees, self._planner) if self._can_foresee else None

    @property
    def untouched(self) -> bool:
        """Has nothing been tried out on it yet?"""
        return not self._version

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
        self._version = next(self.memory.versions)

    def _enter(self, running: RunningGang) -> None:
        self._changed()
        self.queue_index.enter(running)

    def _leave(self, running: RunningGang) -> None:
        self._changed()
        self.queue_index.leave(running)

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

    def change(self, change: GangChange) -> None:
        self.stop(change.before.job)
        if change.after is not None:
            self.start(change.after)

    @contextmanager
    def supposing(self, changes: Iterable[GangChange]) -> Iterator[None]:
        done: list[GangChange] = []
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

    def _short_of(self, queued: QueuedGang, ask: Amount) -> Block | None:
        """What quota and sums have against it."""
        block = self.quota(queued, ask)
        if block is not None:
            return block
        if not self.enough(ask):
            least = queued.sized(queued.least)[1]
            return Block(Cause.NEVER if self.ledger.never(queued.pool, least) else Cause.AMOUNT)
        return None

    def has_room(self, queued: QueuedGang, size: int) -> bool:
        """Does `fits` give a plan? For those who do not want to know where."""
        gang, ask = queued.sized(size)
        if self._short_of(queued, ask) is not None:
            return False
        planner = self._foreseeing
        sure = None if planner is None else planner.has_room(gang)
        return isinstance(self.fits(queued, size), Plan) if sure is None else sure

    def crowded_out(
        self, queued: QueuedGang, other: QueuedGang, size: int, now: RoundState
    ) -> bool:
        """Is it plain that the gang at its least has no room here once the other one has found
        some on `now`, which it would, wherever that is?"""
        mine, theirs = self._foreseeing, now._foreseeing
        if mine is None or theirs is None:
            return False
        gang, _ = other.sized(size)
        return bool(theirs.has_room(gang)) and mine.crowded_out(
            queued.sized(queued.least)[0], gang, theirs
        )

    def hopeless(self, queued: QueuedGang, size: int, without: Iterable[RunningGang]) -> bool:
        """Is it plain that it has no place even when all of these are gone?"""
        if self._foreseeing is None:
            return False
        planner = self._planner.copy()
        for each in without:
            planner.release(each.job)
        return not cast(Foresees, planner).may_fit(queued.sized(size)[0])

    def fits(self, queued: QueuedGang, size: int) -> Plan | Block:
        gang, ask = queued.sized(size)
        block = self._short_of(queued, ask)
        if block is not None:
            return block
        known = self.memory.known.get((self._version, size, queued.shape))
        if known is None:
            known = self._ask(gang, size)
            # Refusals hold for all of the shape, plans only if names do not matter.
            if isinstance(known, Block) or self.name(queued) == queued.shape:
                self.memory.known[self._version, size, queued.shape] = known
        elif isinstance(known, Plan) and known.job != gang.job:
            if self.name(queued) != queued.shape:
                return self._ask(gang, size)
            return replace(known, job=gang.job)
        return known

    def _ask(self, gang: Gang, size: int) -> Plan | Block:
        planner = None if self._explain else self._foreseeing
        if planner is not None and not planner.may_fit(gang):
            return _NO_PLACE
        answer = self._planner.place(gang)
        if isinstance(answer, Refusal):
            return Block(Cause.PLACE, answer.sentence)
        if answer.waiting:
            return Block(Cause.PLACE, f"{len(answer.waiting)} of {size} members have no place")
        return answer

    def name(self, queued: QueuedGang) -> Hashable:
        """What the planner knows it by: gangs of one name are given the same slots."""
        known = self._names.get(queued.job)
        if known is None:
            nameless = self._impartial and self._planner.nameless(queued.gang)  # type: ignore[attr-defined]
            known = self._names[queued.job] = queued.shape if nameless else queued.job
        return known
