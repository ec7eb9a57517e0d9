"""A scheduler of its own for testing the loop: first come first served, first node that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.model.cluster import Cpu, Gpu, Node
from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.resources import Resources
from mooring.simulate.scheduler import Change, Preempted, Started
from mooring.simulate.workload import RoleShape, WorkloadJob

GIB = 1024**3


def node(name: str, cpus: int = 4, gpus: int = 0, memory_gib: int = 64) -> Node:
    made = tuple(Cpu(index, index, 0, 0, 0) for index in range(cpus))
    return Node(name, made, 1000 * cpus, memory_gib * GIB, tuple(Gpu(i, 0) for i in range(gpus)))


def job(
    name: str,
    arrival_s: float = 0.0,
    duration_s: float = 10.0,
    members: int = 1,
    cpus: float = 1.0,
    **more: object,
) -> WorkloadJob:
    role = RoleShape("worker", members, Resources(int(1000 * cpus)))
    return WorkloadJob(name, arrival_s, duration_s * members, (role,), **more)  # type: ignore[arg-type]


@dataclass
class FirstCome:
    """Counts CPUs only. A job of higher priority pushes out the one that started last."""

    nodes: Sequence[Node]
    preempting: bool = False
    asked_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free = {one.name: one.cpu_millis for one in self.nodes}
        self._queue: list[WorkloadJob] = []
        self._held: dict[str, tuple[WorkloadJob, Plan]] = {}

    def arrive(self, job: WorkloadJob, now_s: float) -> None:
        self._queue.append(job)

    def end(self, job: str, now_s: float) -> None:
        self._give_back(job)

    def decide(self, now_s: float) -> Sequence[Change]:
        self.asked_s.append(now_s)
        changes: list[Change] = []
        self._queue.sort(key=lambda one: (-one.priority, one.arrival_s))
        while self._queue:
            plan = self._place(self._queue[0])
            victim = self._victim(self._queue[0])
            if plan is None and victim is not None:
                self._queue.append(self._give_back(victim))
                changes.append(Preempted(victim, "for a higher priority"))
                continue
            if plan is None:
                break
            first = self._queue.pop(0)
            self._held[first.name] = (first, plan)
            changes.append(Started(first.name, plan))
        return changes

    def _victim(self, head: WorkloadJob) -> str | None:
        lower = [name for name, (one, _) in self._held.items() if one.priority < head.priority]
        return lower[-1] if lower and self.preempting else None

    def _place(self, job: WorkloadJob) -> Plan | None:
        free = dict(self._free)
        placements = []
        for role in job.roles:
            for index in range(role.replicas):
                ask = role.resources.cpu_millis
                home = next((name for name, room in free.items() if room >= ask), None)
                if home is None:
                    return None
                free[home] -= ask
                placements.append(Placement(MemberId(role.name, index), Slot(home, ())))
        self._free = free
        return Plan(job.name, tuple(placements))

    def _give_back(self, name: str) -> WorkloadJob:
        job, plan = self._held.pop(name)
        asked = {role.name: role.resources.cpu_millis for role in job.roles}
        for placement in plan.placements:
            self._free[placement.slot.node] += asked[placement.member.role]
        return job

    def wakes_s(self, now_s: float) -> float | None:
        return None

    def waiting(self) -> Mapping[str, str]:
        return {one.name: "no node has room" for one in self._queue}
