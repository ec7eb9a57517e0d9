"""A round of the queue on this machine: who is given a place, who gives one back, who waits.

The brain decides, as it does on a cluster. Jobs that were admitted hold their places by their
record, whether or not their runs have begun; other runs of the machine count as what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mooring import frameworks
from mooring.backends.local.holders import THIS_MACHINE
from mooring.backends.local.occupancy import LiveRun, NodeCut
from mooring.backends.local.queue.entry import EntryState, QueueEntry
from mooring.brain import queue
from mooring.brain.queue.order import CLASSES, key
from mooring.brain.state import ClusterState
from mooring.model.member import Gang
from mooring.model.resources import Resources
from mooring.spec import TrainingJob
from mooring.spec.pools import PoolEntry


@dataclass(frozen=True)
class Sharing:
    """How jobs share the machine: pools, and what names of priorities stand for."""

    pools: tuple[PoolEntry, ...] = ()
    classes: Mapping[str, int] = field(default_factory=lambda: CLASSES)

    def specs(self, total: Resources) -> tuple[queue.PoolSpec, ...]:
        """The pools in the brain's words, on a machine that has `total`."""
        divided = frozenset().union(*(pool.named() for pool in self.pools))
        return tuple(
            queue.PoolSpec(pool.name, *pool.amounts(divided, total), float(pool.weight))
            for pool in self.pools
        )

    def priority_of(self, entry: QueueEntry) -> int:
        """Of a class that has gone since the job was submitted: the usual one."""
        given = entry.priority
        return given if isinstance(given, int) else self.classes.get(given, 0)

    def pool_of(self, entry: QueueEntry) -> str:
        return (entry.pool or queue.DEFAULT_POOL) if self.pools else queue.DEFAULT_POOL


@dataclass(frozen=True)
class Candidate:
    """A job that waits for a place or holds one, with all its members."""

    entry: QueueEntry
    job: TrainingJob
    gang: Gang
    """Under the job's id in the queue: names of jobs are used again."""
    _queued: list[tuple[Sharing, queue.QueuedGang]] = field(
        default_factory=list, repr=False, compare=False
    )

    @classmethod
    def of(cls, entry: QueueEntry, job: TrainingJob) -> Candidate:
        """Raises BadInput for a job that makes no members."""
        return cls(entry, job, replace(frameworks.expand(job, entry.source), job=entry.id))

    def queued(self, sharing: Sharing) -> queue.QueuedGang:
        """As the brain sees it; the same object every time, which remembers what it was asked."""
        if not self._queued or self._queued[0][0] is not sharing:
            self._queued[:] = [(sharing, self._as_queued(sharing))]
        return self._queued[0][1]

    def _as_queued(self, sharing: Sharing) -> queue.QueuedGang:
        spec = self.job.spec
        return queue.QueuedGang(
            self.gang,
            priority=sharing.priority_of(self.entry),
            pool=sharing.pool_of(self.entry),
            arrived_s=self.entry.submitted_s,
            preemptible=spec.preemptible and not self.entry.foreground,
            min_available=spec.min_available,
            expected_s=spec.expected_duration_s,
        )

    @property
    def may_grow(self) -> bool:
        plan = self.entry.plan
        return plan is not None and len(plan.slots) < len(self.gang.members)


@dataclass(frozen=True, eq=False)
class Round:
    """The queue at one moment: everybody in their places, and who waits, in the order of turns."""

    cluster: ClusterState
    state: queue.QueueState
    lost: tuple[str, ...] = ()
    """Jobs whose promised place is not there: other runs hold it, or the nodes are others now."""

    def decide(self, now_s: float, *, explain: bool) -> tuple[queue.Decision, ...]:
        """In the order in which they are to be carried out."""
        return queue.decide(self.state, self.cluster, now_s, explain=explain)

    def lines(self) -> dict[str, list[str]]:
        """Pool -> the jobs that wait in it, the next one first; all in one line where pools
        divide nothing."""
        divided = any(pool.guaranteed != Resources() or pool.cap for pool in self.state.pools)
        lines: dict[str, list[queue.QueuedGang]] = {}
        for each in self.state.waiting:
            lines.setdefault(each.pool if divided else "", []).append(each)
        policy = self.state.policy
        return {
            pool: [each.job for each in sorted(line, key=lambda each: key(each, policy))]
            for pool, line in lines.items()
        }


def round_of(
    candidates: Sequence[Candidate],
    cut: NodeCut,
    runs: Sequence[LiveRun],
    sharing: Sharing,
    now_s: float,
    *,
    like: ClusterState | None = None,
) -> Round:
    """`runs` are all live runs of the machine, those of the queue among them. `like`: the cluster
    of an earlier round, whose nodes need not be worked out again."""
    holding = [one for one in candidates if one.entry.state.promised and one.entry.plan]
    waiting = [
        one
        for one in candidates
        if one.entry.state is EntryState.QUEUED and one.entry.not_before_s <= now_s
    ]
    own_runs = {one.entry.run_id for one in candidates if one.entry.state.supervised}
    outside = [run for run in runs if run.id not in own_runs]
    lost: list[str] = []
    while True:
        # A job whose place is not there any more counts as what its run really holds.
        counted = [run for run in runs if run.run.info.queue_job in lost]
        cluster = ClusterState(cut.snapshot([*outside, *counted]), like=like)
        running, gone = _assumed(cluster, holding, sharing)
        if not gone:
            break
        lost += gone
        holding = [one for one in holding if one.entry.id not in gone]
    capacity = cluster.capacity
    state = queue.QueueState(
        capacity=capacity,
        waiting=tuple(one.queued(sharing) for one in waiting),
        running=tuple(running),
        pools=sharing.specs(capacity),
        place=THIS_MACHINE,
    )
    return Round(cluster, state, tuple(lost))


def _assumed(
    cluster: ClusterState, holding: Sequence[Candidate], sharing: Sharing
) -> tuple[list[queue.RunningGang], list[str]]:
    """Everybody whose place is there, in it; and the others."""
    running, gone = [], []
    for one in holding:
        assert one.entry.plan is not None
        plan = one.entry.plan.plan(one.entry.id)
        started_s = one.entry.admitted_s or one.entry.submitted_s
        gang = queue.RunningGang(one.queued(sharing), plan, started_s)
        try:
            cluster.assume(gang.gang, plan)
        except (ValueError, KeyError):
            gone.append(one.entry.id)
        else:
            running.append(gang)
    return running, gone
