"""Several jobs onto nodes, through the queue. Looks and decides, starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mooring import frameworks
from mooring.brain import queue
from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.queue.order import CLASSES
from mooring.brain.state import ClusterState
from mooring.model.cluster import Snapshot
from mooring.model.errors import BadInput
from mooring.model.member import Gang, MemberId
from mooring.model.plan import NodeVerdict, Plan, Refusal
from mooring.model.resources import Resources
from mooring.spec import TrainingJob
from mooring.spec.base import one_of


@dataclass(frozen=True)
class Cluster:
    """Nodes with what is held on them, and how jobs share them."""

    snapshot: Snapshot
    pools: tuple[queue.PoolSpec, ...] = ()
    groups: queue.Groups = queue.Groups()
    classes: Mapping[str, int] = field(default_factory=lambda: CLASSES)

    @property
    def capacity(self) -> Resources:
        return sum((node.capacity for node in self.snapshot.nodes), Resources())


#: A job, and where it came from.
Submitted = tuple[TrainingJob, str]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The jobs, what became of them, and the cluster with all that run at the end."""

    queued: tuple[queue.QueuedGang, ...]
    outcome: queue.ArrivalOutcome
    state: ClusterState

    def plans(self) -> list[tuple[Gang, Plan]]:
        """Of those that run; members that an elastic gang has not been given wait."""
        found = []
        for running in self.outcome.running:
            gang = running.queued.gang
            there = {placement.member for placement in running.plan.placements}
            waiting = tuple(each.id for each in gang.members if each.id not in there)
            found.append((gang, replace(running.plan, waiting=waiting)))
        return found

    def blamed(self, job: str) -> MemberId:
        """Of a job that waits: the member that has no place, or the first."""
        gang, _ = self._waiting(job)
        answer = self.state.place(gang)
        return answer.member if isinstance(answer, Refusal) else gang.members[0].id

    def verdicts(self, job: str) -> tuple[NodeVerdict, ...]:
        """Of a job that waits: each node's answer about that member."""
        return self.state.explain(self._waiting(job)[0], self.blamed(job))

    def _waiting(self, job: str) -> tuple[Gang, object]:
        queued = next(each for each in self.queued if each.job == job)
        return queued.sized(queued.least)


def plan_queue(jobs: Sequence[Submitted], cluster: Cluster, profile: Profile = DEFAULT) -> Arrivals:
    """What the queue would decide if these jobs arrived one by one."""
    names = [job.metadata.name for job, _ in jobs]
    queued = []
    for second, (job, source) in enumerate(jobs):
        if names.count(job.metadata.name) > 1:
            raise BadInput.at(source, "metadata.name", repr(job.metadata.name), "a name of its own")
        queued.append(_queued(job, source, cluster, float(second)))
    problems = queue.check_pools(cluster.groups.guarantees(cluster.pools), cluster.capacity)
    if problems:
        raise BadInput("cluster", problems)
    state = ClusterState(cluster.snapshot, profile)
    outcome = queue.arrive(queued, state, cluster.capacity, cluster.pools, cluster.groups)
    return Arrivals(tuple(queued), outcome, state)


def _queued(job: TrainingJob, source: str, cluster: Cluster, arrived_s: float) -> queue.QueuedGang:
    spec = job.spec
    known = {pool.name for pool in cluster.pools}
    pool = spec.pool or queue.DEFAULT_POOL
    if known and pool not in known:
        found = repr(spec.pool) if spec.pool else "no pool"
        accepted = f"one of the cluster's pools: {', '.join(sorted(known))}"
        raise BadInput.at(source, "spec.pool", found, accepted)
    return queue.QueuedGang(
        frameworks.expand(job, source),
        priority=priority_of(spec.priority, cluster.classes, source),
        pool=pool if known else queue.DEFAULT_POOL,
        arrived_s=arrived_s,
        preemptible=spec.preemptible,
        min_available=spec.min_available,
        expected_s=spec.expected_duration_s,
    )


def priority_of(given: int | str, classes: Mapping[str, int], source: str) -> int:
    """The number that a priority or the name of a class stands for."""
    if isinstance(given, int):
        return given
    if given not in classes:
        accepted = f"a whole number, or {one_of(given, classes)}"
        raise BadInput.at(source, "spec.priority", repr(given), accepted)
    return classes[given]
