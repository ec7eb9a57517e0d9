"""The figures of a simulation, kept while it runs and summed up at its end.

The meter also holds the brain to its promises: a node that is given away twice, or a pool above
its cap, ends the simulation as a defect instead of flattering the figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.brain.fragments import fragments_of
from mooring.brain.queue.types import UNLIMITED
from mooring.model.cluster import Node
from mooring.model.member import Pinning
from mooring.model.plan import Placement, Plan
from mooring.model.resources import Resources
from mooring.simulate.workload import RoleShape, WorkloadJob, WorkloadPool

#: Points of a curve: enough for a plot of any width; beyond, neighbours are merged.
_MOST_POINTS = 1024
_FIRST_BUCKET_S = 1.0


class BrokenPromise(AssertionError):
    """A plan took what was not there. Never the user's fault."""


@dataclass(slots=True)
class JobRecord:
    """One job's story. `lost_s` is the work that preemptions threw away, in member-seconds."""

    name: str
    pool: str
    arrived_s: float
    duration_s: float
    started_s: float | None = None
    ended_s: float | None = None
    preemptions: int = 0
    lost_s: float = 0.0


@dataclass(frozen=True)
class Spread:
    """How a set of times is distributed, in seconds."""

    mean_s: float
    median_s: float
    p95_s: float
    most_s: float

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Spread:
        if not times_s:
            return cls(0.0, 0.0, 0.0, 0.0)
        ordered = sorted(times_s)
        # The smallest time that at least 95 % do not exceed.
        p95_s = ordered[-(-95 * len(ordered) // 100) - 1]
        return cls(statistics.fmean(ordered), statistics.median(ordered), p95_s, ordered[-1])


@dataclass(frozen=True)
class PoolFigures:
    """`running_share`: the part of their time that its jobs ran; 1 if none ever waited.

    `held_share`: its part of the whole cluster by its dominant resource, on average.
    """

    name: str
    weight: float
    jobs: int
    queueing: Spread
    running_share: float
    held_share: float
    preemptions: int


@dataclass(frozen=True)
class Point:
    """Averages over the bucket that begins at `at_s`; shares of the whole cluster."""

    at_s: float
    cpu: float
    memory: float
    gpu: float
    fragmentation: float
    waiting: float


@dataclass(frozen=True)
class GroupMove:
    """A group of nodes went to another pool."""

    at_s: float
    group: str
    source: str
    target: str
    reason: str


@dataclass(frozen=True)
class SimulationFigures:
    """All that is reported of one simulation. Shares are from 0 to 1."""

    profile: str
    jobs: int
    ended: int
    makespan_s: float
    completion: Spread
    queueing: Spread
    cpu_utilisation: float
    memory_utilisation: float
    gpu_utilisation: float | None
    fragmentation: float
    fairness: float
    preemptions: int
    lost_member_s: float
    pools: tuple[PoolFigures, ...]
    series: tuple[Point, ...]
    moves: tuple[GroupMove, ...] = ()
    never_started: Mapping[str, str] = field(default_factory=dict)
    events: int = 0
    decisions: int = 0
    wall_s: float = 0.0


def _amounts(resources: Resources) -> tuple[int, int, int]:
    return (resources.cpu_millis, resources.memory_bytes, resources.gpu_millis)


class _Take(NamedTuple):
    """What the members of one role hold: each so much on its node.

    `cards`: the one that each has a share of; None if they have none.
    """

    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    nodes: list[int]
    cards: list[int] | None


@dataclass(slots=True)
class _PoolUse:
    """What a pool holds, the part of the cluster that this is by its dominant resource, and the
    integral of that up to `since_s`."""

    amounts: tuple[int, int, int] = (0, 0, 0)
    share: float = 0.0
    since_s: float = 0.0
    held: float = 0.0


class Meter:
    """What is held where, and the integrals over time of it. O(members) for each change."""

    def __init__(self, nodes: Sequence[Node], pools: Sequence[WorkloadPool]) -> None:
        self._index = {node.name: index for index, node in enumerate(nodes)}
        self._cpu = [node.cpu_millis for node in nodes]
        self._memory = [node.memory_bytes for node in nodes]
        self._gpu = [1000 * sum(gpu.healthy for gpu in node.gpus) for node in nodes]
        self.total = Resources(sum(self._cpu), sum(self._memory), gpu_share_millis=sum(self._gpu))
        self._has_gpus = any(self._gpu)
        self._fragments = fragments_of(nodes)
        #: Thousandths of each node that are whole free cards, and what is held of shared cards.
        self._whole = list(self._gpu)
        self._shared: dict[tuple[int, int], int] = {}
        self._used = (0, 0, 0)
        #: Of the cluster; nothing is a part of nothing.
        self._most = tuple(amount or 1 for amount in _amounts(self.total))
        self._pools = {pool.name: pool for pool in pools}
        amounts = [pool.guaranteed for pool in pools]
        amounts += [pool.cap for pool in pools if pool.cap is not None]
        #: A kind of resource that no pool mentions is not limited by any cap.
        self._divided = [
            any(0 < amount < UNLIMITED for amount in kinds)
            for kinds in zip(*map(_amounts, amounts), strict=True)
        ]
        self._pool_use = {pool.name: _PoolUse() for pool in pools}
        #: Shares of CPUs, memory and devices in use, and of what is stranded.
        self._rates = (0.0, 0.0, 0.0, self._fragments.mean)
        self._takes: dict[str, tuple[str, list[_Take], tuple[int, int, int]]] = {}
        self.waiting = 0
        self._began_s = self._now_s = 0.0
        #: The integrals over time in the bucket that is being filled, and in all before it.
        self._bucket = [0.0] * 5
        self._bucket_s = _FIRST_BUCKET_S
        self._bucket_from_s = 0.0
        self._points: list[tuple[float, list[float]]] = []

    def begin(self, now_s: float, until_s: float) -> None:
        """Nothing before this moment counts; it will go on until then at least."""
        self._began_s = self._now_s = self._bucket_from_s = now_s
        while until_s - now_s > _MOST_POINTS * self._bucket_s:
            self._bucket_s *= 2
        for use in self._pool_use.values():
            use.since_s = now_s

    def advance(self, now_s: float) -> None:
        """Time passes with things as they are."""
        close_s = self._bucket_from_s + self._bucket_s
        while now_s >= close_s:
            if now_s - self._now_s > _MOST_POINTS * self._bucket_s:
                # A long silence: let the buckets grow before it is cut into them.
                self._coarsen()
            else:
                self._fill(close_s)
                self._close_bucket()
            close_s = self._bucket_from_s + self._bucket_s
        if now_s > self._now_s:
            self._fill(now_s)

    def _fill(self, now_s: float) -> None:
        """Written out: this is called for every event, and a loop over five takes twice as long."""
        span_s = now_s - self._now_s
        cpu, memory, gpu, fragments = self._rates
        bucket = self._bucket
        bucket[0] += cpu * span_s
        bucket[1] += memory * span_s
        bucket[2] += gpu * span_s
        bucket[3] += fragments * span_s
        bucket[4] += self.waiting * span_s
        self._now_s = now_s

    def _close_bucket(self) -> None:
        self._points.append((self._bucket_from_s, self._bucket))
        self._bucket = [0.0] * 5
        self._bucket_from_s += self._bucket_s
        if len(self._points) > _MOST_POINTS:
            self._coarsen()

    def _coarsen(self) -> None:
        """Buckets twice as long: neighbours are merged, an odd one goes on being filled."""
        if len(self._points) % 2:
            self._bucket_from_s, last = self._points.pop()
            self._bucket = _added(last, self._bucket)
        pairs = zip(self._points[::2], self._points[1::2], strict=True)
        self._points = [(from_s, _added(one, two)) for (from_s, one), (_, two) in pairs]
        self._bucket_s *= 2

    def held(self, job: WorkloadJob, plan: Plan) -> None:
        """The job holds the plan's slots from now on."""
        cpu = memory = gpu = 0
        takes = []
        for role in job.roles:
            take = self._take(job, role, plan)
            members = len(take.nodes)
            cpu += members * take.cpu_millis
            memory += members * take.memory_bytes
            gpu += members * take.gpu_millis
            takes.append(take)
            self._change(take, 1)
            for node in take.nodes:
                if self._cpu[node] < 0 or self._memory[node] < 0 or self._gpu[node] < 0:
                    raise BrokenPromise(f"{job.name} was given more than node {node} has")
        self._takes[job.name] = (job.pool, takes, (cpu, memory, gpu))
        self._charge(job.pool, cpu, memory, gpu)
        self._check_cap(job)

    def _take(self, job: WorkloadJob, role: RoleShape, plan: Plan) -> _Take:
        placed: Sequence[Placement] = plan.placements
        if len(job.roles) > 1:
            placed = [placement for placement in placed if placement.member.role == role.name]
        ask = role.resources
        millis = ask.cpu_millis
        if job.pinning is Pinning.EXCLUSIVE:
            millis = 1000 * max(1, -(-millis // 1000))
        nodes = [self._index[placement.slot.node] for placement in placed]
        cards = [placement.slot.gpus[0] for placement in placed] if ask.gpu_share_millis else None
        return _Take(millis, ask.memory_bytes, ask.gpu_millis, nodes, cards)

    def released(self, name: str) -> None:
        pool, takes, (cpu, memory, gpu) = self._takes.pop(name)
        for take in takes:
            self._change(take, -1)
        self._charge(pool, -cpu, -memory, -gpu)

    def _change(self, take: _Take, sign: int) -> None:
        cpu, memory = sign * take.cpu_millis, sign * take.memory_bytes
        for node in take.nodes:
            self._cpu[node] -= cpu
            self._memory[node] -= memory
            if not self._has_gpus:
                self._fragments.change(node, self._cpu[node], self._cpu[node])
        if take.gpu_millis:
            self._change_gpus(take, sign)

    def _change_gpus(self, take: _Take, sign: int) -> None:
        for at, node in enumerate(take.nodes):
            opened = take.gpu_millis
            if take.cards is not None:
                opened = self._opened(node, take.cards[at], sign * take.gpu_millis)
            self._gpu[node] -= sign * take.gpu_millis
            self._whole[node] -= sign * opened
            self._fragments.change(node, self._whole[node], self._gpu[node])

    def _opened(self, node: int, card: int, millis: int) -> int:
        """Thousandths of whole cards that are opened, or closed again, by this share."""
        before = self._shared.get((node, card), 0)
        after = before + millis
        if not 0 <= after <= 1000:
            raise BrokenPromise(f"card {card} of node {node} was shared beyond itself")
        self._shared[node, card] = after
        return 1000 if not before or not after else 0

    def _charge(self, pool: str, cpu: int, memory: int, gpu: int) -> None:
        most_cpu, most_memory, most_gpu = self._most
        use = self._pool_use[pool]
        use.held += use.share * (self._now_s - use.since_s)
        use.since_s = self._now_s
        a, b, c = use.amounts
        use.amounts = a, b, c = a + cpu, b + memory, c + gpu
        use.share = max(a / most_cpu, b / most_memory, c / most_gpu)
        a, b, c = self._used
        self._used = a, b, c = a + cpu, b + memory, c + gpu
        self._rates = (a / most_cpu, b / most_memory, c / most_gpu, self._fragments.mean)

    def _check_cap(self, job: WorkloadJob) -> None:
        cap = self._pools[job.pool].cap
        if cap is None:
            return
        held = self._pool_use[job.pool].amounts
        for limited, used, most in zip(self._divided, held, _amounts(cap), strict=True):
            if limited and used > most:
                raise BrokenPromise(f"{job.name} takes pool {job.pool} above its cap")

    def mean(self, at: int) -> float:
        """The average so far of: cpu, memory, gpu, fragmentation, waiting."""
        span_s = self._now_s - self._began_s
        parts = [self._bucket[at], *(sums[at] for _, sums in self._points)]
        return math.fsum(parts) / span_s if span_s else 0.0

    def held_share(self, pool: str) -> float:
        span_s = self._now_s - self._began_s
        use = self._pool_use[pool]
        held = use.held + use.share * (self._now_s - use.since_s)
        return held / span_s if span_s else 0.0

    def series(self) -> tuple[Point, ...]:
        points = [
            Point(from_s, *(part / self._bucket_s for part in sums))
            for from_s, sums in self._points
        ]
        rest_s = self._now_s - self._bucket_from_s
        if rest_s > 0:
            points.append(Point(self._bucket_from_s, *(part / rest_s for part in self._bucket)))
        return tuple(points)


def _added(one: list[float], two: list[float]) -> list[float]:
    return [a + b for a, b in zip(one, two, strict=True)]


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def pool_figures(
    records: Sequence[JobRecord], pools: Sequence[WorkloadPool], meter: Meter
) -> tuple[PoolFigures, ...]:
    found = []
    for pool in pools:
        mine = [record for record in records if record.pool == pool.name]
        if not mine:
            continue
        ended = [record for record in mine if record.ended_s is not None]
        there_s = sum((record.ended_s or 0.0) - record.arrived_s for record in ended)
        ran_s = sum(record.duration_s for record in ended)
        found.append(
            PoolFigures(
                pool.name,
                pool.weight,
                len(mine),
                Spread.of(queueing_s(mine)),
                min(1.0, ran_s / there_s) if there_s else (1.0 if ended else 0.0),
                meter.held_share(pool.name),
                sum(record.preemptions for record in mine),
            )
        )
    return tuple(found)


def queueing_s(records: Sequence[JobRecord]) -> list[float]:
    """From arrival to the first start, of those that started."""
    return [
        record.started_s - record.arrived_s for record in records if record.started_s is not None
    ]


def completion_s(records: Sequence[JobRecord]) -> list[float]:
    """From arrival to the end, of those that ended."""
    return [record.ended_s - record.arrived_s for record in records if record.ended_s is not None]
