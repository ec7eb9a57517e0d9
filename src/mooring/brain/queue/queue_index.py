"""Who runs and who waits, with all sums and orders that a round needs, kept from round to round.

A round must not cost more because many run or wait whom nothing has happened to. So the sums by
pool, the order in which gangs are expected to end, the lowest standing and the order of the queue
are kept up to date by whoever carries decisions out, at the cost of the gang that changes. Copies
are cheap: a round tries things out on its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from mooring.brain.queue.order import Key, key, standing
from mooring.brain.queue.pools import PoolLedger
from mooring.brain.queue.types import Planner, QueuedGang, QueueState, RunningGang, amount_of
from mooring.model.plan import Plan

if TYPE_CHECKING:
    from mooring.brain.queue.backfill import Outlook
    from mooring.brain.queue.round_state import Block

Turn = tuple[float, float, str]
#: Turn and arrival, the part of the cluster, the name: of equal ones the small go first, because
#: more of them run.
Line = tuple[float, float, float, str]


class Memory:
    """What was found out on one cluster with this index, true until somebody starts or ends.

    Those who try something out number what comes of it: `known` has the planner's answers, by that
    number (0: as it is), size and shape, and `outlooks` when those who wait could start.
    """

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.versions = count(1)
        self.known: dict[tuple[int, int, int], Plan | Block] = {}
        self.outlooks: dict[str, Outlook] = {}


class QueueIndex:
    def __init__(self, state: QueueState) -> None:
        self.policy = state.policy
        self.ledger = PoolLedger(state.pools, state.capacity)
        self.free = list(amount_of(state.capacity))
        self.running: dict[str, RunningGang] = {}
        #: Those that run with fewer members than they want.
        self.small: dict[str, RunningGang] = {}
        self._turns: list[Turn] = []
        #: Heaps; those who have left stay until they come out. The number is only there to differ.
        self._standings: dict[str, list[tuple[float, int, RunningGang]]] = {}
        self._entered = 0
        self.lines: dict[str, list[tuple[Line, Key, QueuedGang]]] = {}
        self._memory: Memory | None = None
        for running in state.running:
            self.enter(running)
        for queued in state.waiting:
            self.wait(queued)

    def copy(self) -> QueueIndex:
        twin = QueueIndex.__new__(QueueIndex)
        twin.__dict__.update(self.__dict__)
        twin.ledger = self.ledger.copy()
        twin.free = self.free.copy()
        twin.running = self.running.copy()
        twin.small = self.small.copy()
        twin._turns = self._turns.copy()
        twin._standings = {name: heap.copy() for name, heap in self._standings.items()}
        return twin

    def memory(self, planner: Planner) -> Memory:
        """What is known already of this planner, which holds exactly those who run."""
        if self._memory is None or self._memory.planner is not planner:
            self._memory = Memory(planner)
        return self._memory

    # -- who runs

    def enter(self, running: RunningGang) -> None:
        self._memory = None
        self.running[running.job] = running
        self.ledger.add(running)
        charge = running.charge
        for k in range(3):
            self.free[k] -= charge[k]
        if running.size < running.queued.most:
            self.small[running.job] = running
        insort(self._turns, _turn(running))
        if running.queued.preemptible:
            heap = self._standings.setdefault(self._queue_of(running.pool), [])
            self._entered += 1
            heappush(heap, (standing(running, self.policy), self._entered, running))
            if len(heap) > 64 + 4 * len(self.running):
                heap[:] = [each for each in heap if self._runs(each[2])]
                heapify(heap)

    def leave(self, running: RunningGang) -> None:
        self._memory = None
        del self.running[running.job]
        self.ledger.remove(running)
        charge = running.charge
        for k in range(3):
            self.free[k] += charge[k]
        self.small.pop(running.job, None)
        del self._turns[bisect_left(self._turns, _turn(running))]

    def lowest_standing(self, pool: str) -> float:
        """Of those in the pool that may be preempted at all; of all pools if none is divided."""
        heap = self._standings.get(self._queue_of(pool))
        while heap and not self._runs(heap[0][2]):
            heappop(heap)
        return heap[0][0] if heap else inf

    def _runs(self, running: RunningGang) -> bool:
        return self.running.get(running.job) is running

    def ending(self, now_s: float) -> Iterator[tuple[float, RunningGang]]:
        """Who runs, in the order of the expected ends, each with its own; those of unknown end,
        and those that should have ended, last, the oldest first."""
        turns = self._turns
        due, unknown = bisect_left(turns, (now_s,)), bisect_left(turns, (inf,))
        for end_s, _, job in turns[due:unknown]:
            yield end_s, self.running[job]
        for _, _, job in sorted([*turns[:due], *turns[unknown:]], key=lambda turn: turn[1:]):
            yield inf, self.running[job]

    # -- who waits

    def _queue_of(self, pool: str) -> str:
        """Where nothing is divided all pools are one."""
        return pool if self.ledger.divided else ""

    def wait(self, queued: QueuedGang) -> None:
        line = self.lines.setdefault(self._queue_of(queued.pool), [])
        turn = key(queued, self.policy)
        insort(line, ((*turn[:2], self.part(queued), turn[2]), turn, queued))

    def unwait(self, queued: QueuedGang) -> None:
        name = self._queue_of(queued.pool)
        line = self.lines[name]
        turn = key(queued, self.policy)
        del line[bisect_left(line, ((*turn[:2], self.part(queued), turn[2]),))]
        if not line:
            del self.lines[name]

    def part(self, queued: QueuedGang) -> float:
        """The largest part of the cluster that it needs of anything."""
        pairs = zip(queued.sized(queued.least)[1], self.ledger.capacity, strict=True)
        return max((amount / whole for amount, whole in pairs if whole), default=0.0)


def _turn(running: RunningGang) -> Turn:
    expected_s = running.queued.expected_s
    end_s = inf if expected_s is None else running.started_s + expected_s
    return end_s, running.started_s, running.job
