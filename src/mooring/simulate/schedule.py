"""The real queue on the real placement, behind the simulator's small interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.queue import (
    Admit,
    Decision,
    Groups,
    Grow,
    PoolSpec,
    Preempt,
    QueuedGang,
    QueueState,
    RunningGang,
    Shrink,
    Wait,
    decide,
)
from mooring.brain.queue.pools import check_pools
from mooring.brain.queue.queue_index import QueueIndex
from mooring.brain.queue.types import resources_of
from mooring.brain.state import ClusterState
from mooring.model.cluster import Node, Snapshot
from mooring.model.errors import BadInput
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources
from mooring.simulate.scheduler import Change, Moved, PlanResized, Preempted, Started
from mooring.simulate.workload import WorkloadJob, WorkloadPool


class _Opposed(Exception):
    """Somebody who waits finds no place: the others matter."""


class _Straight:
    """A cluster on which what is decided is done at once, and undone if somebody is refused.

    It is its own copy: `decide` copies before it changes anything, which here it may.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._taken: list[str] = []

    def place(self, gang: Gang) -> Plan | Refusal:
        answer = self._cluster.place(gang)
        if isinstance(answer, Refusal) or answer.waiting:
            raise _Opposed
        return answer

    def assume(self, gang: Gang, plan: Plan) -> None:
        self._cluster.assume(gang, plan)
        self._taken.append(gang.job)

    def release(self, job: str) -> None:
        raise _Opposed

    def copy(self) -> Self:
        return self

    def undo(self) -> None:
        for job in reversed(self._taken):
            self._cluster.release(job)


class QueueScheduler:
    """Holds the queue and the cluster; `decide` of the brain says what happens to them."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pools: Sequence[WorkloadPool],
        profile: Profile = DEFAULT,
        source: str = "workload",
        groups: Groups = Groups(),  # noqa: B008 (frozen)
    ) -> None:
        """`source` is where the pools come from, for what is wrong with them."""
        self.cluster = ClusterState(Snapshot(tuple(nodes)), profile)
        self._capacity = Resources(
            sum(node.cpu_millis for node in nodes),
            sum(node.memory_bytes for node in nodes),
            sum(node.capacity.gpus for node in nodes),
        )
        self._pools = tuple(
            PoolSpec(pool.name, pool.guaranteed, pool.cap, pool.weight) for pool in pools
        )
        self._groups = groups
        problems = check_pools(groups.guarantees(self._pools), self._capacity)
        if problems:
            raise BadInput(source, problems)
        self._empty = QueueState(self._capacity, pools=groups.guarantees(self._pools))
        self._queue_index = QueueIndex(self._empty)
        self._waiting: dict[str, QueuedGang] = {}
        #: What those who wait ask for in all.
        self._asked = [0, 0, 0]
        self._now_s = 0.0

    def arrive(self, job: WorkloadJob, now_s: float) -> None:
        self._wait(
            QueuedGang(
                gang=job.gang(),
                priority=job.priority,
                pool=job.pool,
                arrived_s=now_s,
                preemptible=job.preemptible,
                min_available=job.min_available,
                expected_s=job.expected_s,
            )
        )

    def end(self, job: str, now_s: float) -> None:
        self._let_go(job)

    def decide(self, now_s: float) -> Sequence[Change]:
        self._now_s = now_s
        started = self._unopposed(now_s)
        if started is not None:
            return started
        changes = self._regroup(now_s)
        for decision in self._decisions(now_s):
            match decision:
                case Admit(job=job, plan=plan):
                    self.cluster.assume(self._waiting[job].sized(len(plan.placements))[0], plan)
                    changes.append(self._admit(job, plan, now_s))
                case Preempt(job=job, reason=reason):
                    self._wait(self._let_go(job).queued)
                    changes.append(Preempted(job, reason))
                case Shrink(job=job, members=members):
                    plan = self._queue_index.running[job].plan
                    changes.append(self._resize(job, _without(plan, frozenset(members))))
                case Grow(job=job, plan=plan):
                    changes.append(self._resize(job, plan))
                case Wait():
                    pass
        return changes

    def _regroup(self, now_s: float) -> list[Change]:
        """Groups of nodes change hands before anybody is asked for what they own."""
        running = self._queue_index.running.values()
        self._groups, moves = self._groups.look(self._pools, self._waiting.values(), running, now_s)
        if moves:
            self._empty = replace(self._empty, pools=self._groups.guarantees(self._pools))
            waiting = tuple(self._waiting.values())
            self._queue_index = QueueIndex(
                replace(self._empty, waiting=waiting, running=tuple(running))
            )
        return [Moved(move.group, move.source, move.target, move.reason) for move in moves]

    def _decisions(self, now_s: float) -> Sequence[Decision]:
        return decide(
            self._empty, self.cluster, now_s, explain=False, queue_index=self._queue_index
        )

    def _unopposed(self, now_s: float) -> list[Change] | None:
        """What changes if all who wait can start whole beside all who run; None if not all can.

        Then nobody who runs matters but by what it holds, where pools divide nothing: they need
        not be looked at one by one, and an uncontended cluster costs the same however many run.
        The answer is the same, because the order is, and so is the cluster that is asked.
        """
        queue_index, free = self._queue_index, self._queue_index.free
        if queue_index.ledger.divided or queue_index.small:
            return None
        if any(self._asked[kind] > free[kind] for kind in range(3)):
            return None
        waiting = tuple(self._waiting.values())
        if not all(self.cluster.may_fit(queued.sized(queued.most)[0]) for queued in waiting):
            return None
        straight = _Straight(self.cluster)
        state = QueueState(resources_of(free), waiting)
        try:
            decisions = decide(state, straight, now_s, explain=False)
        except _Opposed:
            straight.undo()
            return None
        admitted = [decision for decision in decisions if isinstance(decision, Admit)]
        assert len(admitted) == len(waiting), "nobody is refused without the cluster being asked"
        return [self._admit(one.job, one.plan, now_s) for one in admitted]

    def _wait(self, queued: QueuedGang) -> None:
        self._waiting[queued.job] = queued
        self._queue_index.wait(queued)
        for kind, amount in enumerate(queued.sized(queued.most)[1]):
            self._asked[kind] += amount

    def _admit(self, job: str, plan: Plan, now_s: float) -> Started:
        """The cluster holds it already."""
        queued = self._waiting.pop(job)
        self._queue_index.unwait(queued)
        for kind, amount in enumerate(queued.sized(queued.most)[1]):
            self._asked[kind] -= amount
        self._queue_index.enter(RunningGang(queued, plan, now_s))
        return Started(job, plan)

    def _let_go(self, job: str) -> RunningGang:
        running = self._queue_index.running[job]
        self.cluster.release(job)
        self._queue_index.leave(running)
        return running

    def _resize(self, job: str, plan: Plan) -> PlanResized:
        running = replace(self._let_go(job), plan=plan)
        self.cluster.assume(running.gang, plan)
        self._queue_index.enter(running)
        return PlanResized(job, plan)

    def wakes_s(self, now_s: float) -> float | None:
        return None if self._groups.policy is None else self._groups.wakes_s(now_s)

    def waiting(self) -> Mapping[str, str]:
        said = decide(self._empty, self.cluster, self._now_s, queue_index=self._queue_index)
        sentences = {one.job: one.sentence for one in said if isinstance(one, Wait)}
        return {job: sentences.get(job, "") for job in self._waiting}


def _without(plan: Plan, members: frozenset[object]) -> Plan:
    kept = tuple(placement for placement in plan.placements if placement.member not in members)
    gone = tuple(placement.member for placement in plan.placements if placement.member in members)
    return replace(plan, placements=kept, waiting=(*plan.waiting, *gone))
