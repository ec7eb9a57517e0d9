"""What is simulated: jobs with the moment they arrive, their gangs and how long they work.

A gang is made only when its job arrives and is dropped when the job ends, so that a year of jobs
costs little memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mooring.brain.queue.types import DEFAULT_POOL
from mooring.model.affinity import ANYWHERE, NodeWish
from mooring.model.cluster import Toleration
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset
from mooring.model.resources import Resources
from mooring.model.traffic import Traffic

#: What roles are there for: a workload names no framework that could tell. Others train.
DUTIES: Mapping[str, Duty] = MappingProxyType(
    {
        "ps": Duty.SERVES,
        "chief": Duty.LEADS,
        "evaluator": Duty.EVALUATES,
        "launcher": Duty.STARTS,
    }
)
SERVER_ROLES = tuple(role for role, duty in DUTIES.items() if duty is Duty.SERVES)


@dataclass(frozen=True, slots=True)
class RoleShape:
    """The members of one role, all alike."""

    name: str
    replicas: int
    resources: Resources
    node_selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tolerations: tuple[Toleration, ...] = ()
    wish: NodeWish = ANYWHERE


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """One job of a workload.

    `work_s` is in seconds of one member of speed 1: a whole gang of n members ends after
    work_s / (n * speed), a gang that runs with fewer members takes as much longer.
    `expected_s` is what the user told the queue; None if nothing. A preempted job goes on from
    its last checkpoint; without `checkpoint_s` it begins again. `start_s` passes before it works,
    each time that it starts (an image to fetch, processes to start), and counts as running.
    """

    name: str
    arrival_s: float
    work_s: float
    roles: tuple[RoleShape, ...]
    pool: str = DEFAULT_POOL
    priority: int = 0
    speed: float = 1.0
    preset: Preset = Preset.PACK
    pinning: Pinning = Pinning.SHARED
    preemptible: bool = True
    min_available: int | None = None
    expected_s: float | None = None
    checkpoint_s: float | None = None
    start_s: float = 0.0
    traffic: Traffic | None = None

    @property
    def members(self) -> int:
        roles = self.roles
        return roles[0].replicas if len(roles) == 1 else sum(role.replicas for role in roles)

    @property
    def duration_s(self) -> float:
        """How long it works when all of its members run."""
        return self.work_s / (self.members * self.speed)

    @property
    def demand(self) -> Resources:
        """What the whole gang asks for."""
        return Resources(
            sum(role.replicas * role.resources.cpu_millis for role in self.roles),
            sum(role.replicas * role.resources.memory_bytes for role in self.roles),
            gpu_share_millis=sum(role.replicas * role.resources.gpu_millis for role in self.roles),
        )

    def gang(self) -> Gang:
        return Gang(
            job=self.name,
            members=tuple(
                Member(
                    MemberId(role.name, index),
                    self.name,
                    role.resources,
                    self.pinning,
                    node_selector=role.node_selector,
                    tolerations=role.tolerations,
                    wish=role.wish,
                )
                for role in self.roles
                for index in range(role.replicas)
            ),
            preset=self.preset,
            duties=tuple(
                (role.name, DUTIES[role.name]) for role in self.roles if role.name in DUTIES
            ),
            traffic=self.traffic,
        )


@dataclass(frozen=True, slots=True)
class WorkloadPool:
    """A pool as a workload file gives it; without a cap it may borrow all that is free."""

    name: str
    guaranteed: Resources = Resources()
    cap: Resources | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Workload:
    """Jobs in the order of their arrival, and the pools that they belong to."""

    jobs: tuple[WorkloadJob, ...]
    pools: tuple[WorkloadPool, ...] = ()
    source: str = "workload"

    def all_pools(self) -> tuple[WorkloadPool, ...]:
        """The pools given, and one of weight 1 without guarantee for each other name used."""
        known = {pool.name: pool for pool in self.pools}
        for job in self.jobs:
            known.setdefault(job.pool, WorkloadPool(job.pool))
        return tuple(known.values())

    def on(self, pools: Iterable[WorkloadPool]) -> Workload:
        """The same on a cluster with these pools; one that the workload describes itself wins."""
        known = {pool.name: pool for pool in (*pools, *self.pools)}
        return replace(self, pools=tuple(known.values()))


def in_order(jobs: list[WorkloadJob]) -> tuple[WorkloadJob, ...]:
    """By arrival; jobs of the same moment stay in the order in which they were written."""
    return tuple(sorted(jobs, key=lambda job: job.arrival_s))
