"""One round of decisions: who starts, who gives way, who waits and for what.

Each pool has its own queue. The next gang to be looked at is the first of the pool that still
has room in its guarantee, otherwise the first of the pool that has borrowed least by its weight.
A gang starts whole or not at all; one that cannot start keeps what it needs reserved against all
that come after it, except against the guarantee of another pool. Pure: nothing of the caller's is
changed, and the same arguments give the same decisions. Applied in order they never exceed
capacity or quota: who gives way comes before who starts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from mooring.brain.queue import elastic, preempt, sentences
from mooring.brain.queue.backfill import Reservation
from mooring.brain.queue.heads import Heads
from mooring.brain.queue.order import Key, key
from mooring.brain.queue.queue_index import QueueIndex
from mooring.brain.queue.regroup import Regroup
from mooring.brain.queue.round_state import Block, Cause, GangChange, RoundState
from mooring.brain.queue.types import (
    Admit,
    Decision,
    Grow,
    Planner,
    Preempt,
    QueuedGang,
    QueueState,
    RunningGang,
    Shrink,
    Wait,
)
from mooring.model.plan import Plan


def decide(
    state: QueueState,
    cluster: Planner,
    now_s: float,
    *,
    explain: bool = True,
    queue_index: QueueIndex | None = None,
) -> tuple[Decision, ...]:
    """Without `explain` nothing is said about those who wait. Whoever keeps a `queue_index` of who
    runs and who waits need not put them into `state`."""
    return _Round(state, cluster, now_s, explain, queue_index).run()


class _Round:
    def __init__(
        self,
        state: QueueState,
        cluster: Planner,
        now_s: float,
        explain: bool,
        queue_index: QueueIndex | None,
    ) -> None:
        self.policy = state.policy
        self.round_state = RoundState(
            state, cluster, now_s, explain=explain, queue_index=queue_index
        )
        self.now_s = now_s
        self.explain = explain
        self.decisions: list[Decision] = []
        self.waits: list[Wait] = []
        #: Of each queue, who has not been looked at yet.
        self.queues = {
            name: deque(line) for name, line in self.round_state.queue_index.lines.items()
        }
        self.heads = Heads(self.round_state)
        self.started: set[str] = set()
        self.searches: dict[str, int] = {}
        self.repacks_left = state.policy.most_searches
        self.regroup = Regroup(self.round_state)
        #: By queue, those of one turn that arrived together and have been looked at.
        self.equals: dict[str, list[QueuedGang]] = {}

    def _queue_of(self, queued: QueuedGang) -> str:
        """Where nothing is divided all pools are one."""
        return queued.pool if self.round_state.ledger.divided else ""

    def run(self) -> tuple[Decision, ...]:
        while (name := self._next()) is not None:
            queue = self.queues[name]
            if self.heads.blocked(name) >= self.policy.most_tried:
                self._leave_in_line(name)
                continue
            _, turn, queued = queue.popleft()
            if not queue:
                del self.queues[name]
            if queued.least == queued.most:
                self.equals.setdefault(name, []).append(queued)
            block = self._try(queued)
            if block is not None:
                self._block(name, queued, block)
            if not queue or queue[0][0][:2] != turn[:2]:
                self._close(name)
        self._grow()
        return (*self.decisions, *self.waits)

    def _next(self) -> str | None:
        if len(self.queues) == 1:
            return next(iter(self.queues))
        best: tuple[int, float, Key] | None = None
        chosen = None
        ledger = self.round_state.ledger
        for name, queue in self.queues.items():
            _, turn, queued = queue[0]
            own = ledger.within_guarantee(queued.pool, queued.sized(queued.least)[1])
            rank = (0, 0.0, turn) if own else (1, ledger.share(queued.pool), turn)
            if best is None or rank < best:
                best, chosen = rank, name
        return chosen

    def _try(self, queued: QueuedGang) -> Block | None:
        """Start it, if need be at the cost of others; otherwise say what is in the way."""
        if queued.least < queued.most:
            answer = self._elastic_plan(queued)
        else:
            answer = self._plan(queued, queued.most)
        if isinstance(answer, Plan):
            heads = self._reservations(queued, len(answer.placements))
            self._admit(queued, answer, heads)
            return None
        if answer.cause in (Cause.NEVER, Cause.FIRM, Cause.HEAD):
            return answer
        if answer.cause is Cause.PLACE and self._repack(queued):
            return None
        name = self._queue_of(queued)
        if self.searches.get(name, 0) >= self.policy.most_searches or preempt.pointless(
            self.round_state, queued
        ):
            return answer
        way = preempt.find(
            self.round_state,
            queued,
            lambda plan, changes: self._in_the_way(queued, plan, changes) is None,
            self.started,
        )
        if way is None:
            self.searches[name] = self.searches.get(name, 0) + 1
            return answer
        self._make_way(queued, way.changes)
        self._admit(queued, way.plan, ())
        return None

    def _starting(self) -> list[RunningGang] | None:
        """Those that start in this round; None if they may not be placed anew."""
        admits = [each for each in self.decisions if isinstance(each, Admit)]
        # Once somebody gives way the order of the decisions matters.
        if not admits or len(admits) < len(self.decisions):
            return None
        if len(admits) >= self.policy.most_repacked:
            return None
        return [self.round_state.running[each.job] for each in admits]

    def _repack(self, queued: QueuedGang) -> bool:
        """Start it by placing those anew that start in this round, if that delays no head."""
        before = self._starting()
        if before is None or self.repacks_left <= 0:
            return False
        after = self.regroup.one_more(before, queued)
        if after is None or not self._exchange(before, after, self.heads.all()):
            self.repacks_left -= 1
            return False
        return True

    def _close(self, name: str) -> None:
        """All of one turn that arrived together have been looked at: can more of them start?"""
        equals = {one.job: one for one in self.equals.pop(name, ())}
        while (before := self._starting()) is not None:
            waiting = [one for one in equals.values() if one.job not in self.started]
            mine = [each for each in before if each.job in equals]
            after = self.regroup.more(before, mine, waiting)
            # Those of one turn have no claim against each other: only others may not be delayed.
            heads = [head for head in self.heads.all() if head.head.job not in equals]
            if after is None or not self._exchange(before, after, heads):
                return
            joined = [one.job for one in waiting if one.job in self.started]
            for job in joined:
                self.heads.remove(name, job)
            self.waits = [wait for wait in self.waits if wait.job not in joined]
            for each in mine:
                if each.job not in self.started:
                    self._block(name, each.queued, Block(Cause.EQUALS, " and ".join(joined)))

    def _exchange(
        self,
        before: Sequence[RunningGang],
        after: Sequence[RunningGang],
        heads: Sequence[Reservation],
    ) -> bool:
        """Start `after` in the place of `before`, unless a head would start later."""
        starts = [head.start_s for head in heads]
        if None in starts:
            return False
        self._swap(before, after)
        for head, start_s in zip(heads, starts, strict=True):
            head.look(self.round_state)
            if head.hopeless or head.start_s is None or head.start_s > (start_s or 0.0):
                head.hopeless = False
                self._swap(after, before)
                return False
        self._swap(after, ())
        self.decisions.clear()
        self.started.difference_update(each.job for each in before)
        for each in after:
            self._admit(each.queued, each.plan, ())
        return True

    def _swap(self, before: Sequence[RunningGang], after: Sequence[RunningGang]) -> None:
        for each in before:
            self.round_state.stop(each.job)
        for each in after:
            self.round_state.start(each)
        self.heads.forget()

    def _plan(self, queued: QueuedGang, size: int) -> Plan | Block:
        _, ask = queued.sized(size)
        if (
            self.heads
            and self.round_state.enough(ask)
            and self.round_state.quota(queued, ask) is None
        ):
            heads = self._reservations(queued, size)
            for head in heads:
                if head.forbids(self.round_state, queued, ask):
                    return Block(Cause.HEAD, head.head.job, head.start_s)
            # Only of the first: which of several is delayed takes a plan to tell.
            if heads and heads[0].crowded_out(self.round_state, queued, size):
                return Block(Cause.HEAD, heads[0].head.job, heads[0].start_s)
        plan = self.round_state.fits(queued, size)
        if isinstance(plan, Block):
            return plan
        delayed = self._in_the_way(queued, plan, ())
        return plan if delayed is None else Block(Cause.HEAD, delayed.head.job, delayed.start_s)

    def _elastic_plan(self, queued: QueuedGang) -> Plan | Block:
        """As large as fits; but who claims a guarantee does not borrow beyond it before others."""
        least = self._plan(queued, queued.least)
        if isinstance(least, Block):
            return least
        found = {queued.least: least}
        ledger = self.round_state.ledger
        claims = ledger.within_guarantee(queued.pool, queued.sized(queued.least)[1])

        def fits(size: int) -> bool:
            if claims and not ledger.within_guarantee(queued.pool, queued.sized(size)[1]):
                return False
            plan = self._plan(queued, size)
            if isinstance(plan, Plan):
                found[size] = plan
            return isinstance(plan, Plan)

        if not fits(queued.most):
            elastic.largest(queued.least + 1, queued.most - 1, fits)
        return found[max(found)]

    def _reservations(self, queued: QueuedGang, size: int) -> list[Reservation]:
        """Those that this gang must not delay. A guarantee gives way to its own pool only."""
        exempt = self.round_state.ledger.within_guarantee(queued.pool, queued.sized(size)[1])
        return self.heads.all(self._queue_of(queued) if exempt else None)

    def _in_the_way(
        self, queued: QueuedGang, plan: Plan, changes: Sequence[GangChange]
    ) -> Reservation | None:
        """The head that would be delayed."""
        candidate = RunningGang(queued, plan, self.now_s)
        for head in self._reservations(queued, candidate.size):
            if not head.allows(self.round_state, candidate, changes):
                return head
        return None

    def _admit(self, queued: QueuedGang, plan: Plan, followed: Sequence[Reservation]) -> None:
        """The reservations in `followed` allow for it; the others have to be looked at anew."""
        running = RunningGang(queued, plan, self.now_s)
        borrowed = self.round_state.ledger.borrowed_for(queued.pool, running.charge)
        self.round_state.start(running)
        self.started.add(queued.job)
        self.heads.started(running, followed)
        self.decisions.append(Admit(queued.job, plan, borrowed))

    def _make_way(self, queued: QueuedGang, changes: Sequence[GangChange]) -> None:
        said: list[Decision] = []
        for change in changes:
            before, after = change.before, change.after
            if after is None:
                reason = sentences.gives_way(self.round_state, before, queued, "all members")
                said.append(Preempt(before.job, queued.job, reason))
                continue
            kept = {placement.member for placement in after.plan.placements}
            gone = tuple(p.member for p in before.plan.placements if p.member not in kept)
            what = f"{len(gone)} of {before.size} members"
            reason = sentences.gives_way(self.round_state, before, queued, what)
            said.append(Shrink(before.job, gone, queued.job, reason))
        for change in changes:
            self.round_state.change(change)
        self.heads.forget()
        self.decisions.extend(said)

    def _block(self, name: str, queued: QueuedGang, block: Block) -> None:
        if self.explain:
            before = self.heads.foremost(name)
            sentence = sentences.waits(self.round_state, queued, block, before)
            self.waits.append(Wait(queued.job, sentence))
        if block.cause is not Cause.NEVER:
            self.heads.add(name, queued)

    def _leave_in_line(self, name: str) -> None:
        before = self.heads.foremost(name)
        queue = self.queues.pop(name)
        if self.explain and before is not None:
            ahead = self.heads.blocked(name)
            for position, (_, _, queued) in enumerate(queue):
                sentence = sentences.stands_in_line(queued, before, ahead + position)
                self.waits.append(Wait(queued.job, sentence))

    def _grow(self) -> None:
        """Last of all: members beyond the minimum delay nobody."""
        small = self.round_state.queue_index.small.values()
        for each in sorted(small, key=lambda each: key(each.queued, self.policy)):
            self._grow_one(each)

    def _grow_one(self, running: RunningGang) -> None:
        found: dict[int, RunningGang] = {}

        def fits(size: int) -> bool:
            after = elastic.grown(self.round_state, running, size)
            if isinstance(after, Block):
                return False
            if not all(head.allows(self.round_state, after) for head in self.heads.all()):
                return False
            found[size] = after
            return True

        size = elastic.largest(running.size + 1, running.queued.most, fits)
        if size is None:
            return
        self.round_state.change(GangChange(running, found[size]))
        self.heads.forget()
        self.decisions.append(Grow(running.job, found[size].plan))
