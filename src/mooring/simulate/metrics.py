"""The figures of a simulation, kept while it runs and summed up at its end.

The meter also holds the brain to its promises: a node that is given away twice, or a pool above
its cap, ends the simulation as a defect instead of flattering the figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.brain.fragments import fragments_of
from mooring.model.cluster import Node
from mooring.model.member import Pinning
from mooring.model.plan import Plan
from mooring.model.resources import Resources
from mooring.simulate.workload import Job, Pool

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
class Figures:
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
    """What one member holds; `card` is the one that it has a share of."""

    node: int
    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    card: int | None


class Meter:
    """What is held where, and the integrals over time of it. O(members) for each change."""

    def __init__(self, nodes: Sequence[Node], pools: Sequence[Pool]) -> None:
        self._index = {node.name: index for index, node in enumerate(nodes)}
        self._cpu = [node.cpu_millis for node in nodes]
        self._memory = [node.memory_bytes for node in nodes]
        self._gpu = [1000 * sum(gpu.healthy for gpu in node.gpus) for node in nodes]
        self.total = Resources(sum(self._cpu), sum(self._memory), gpu_share_millis=sum(self._gpu))
        self._fragments = fragments_of(nodes)
        #: Thousandths of each node that are whole free cards, and what is held of shared cards.
        self._whole = list(self._gpu)
        self._shared: dict[tuple[int, int], int] = {}
        self._used = [0, 0, 0]
        self._pools = {pool.name: pool for pool in pools}
        amounts = [pool.guaranteed for pool in pools]
        amounts += [pool.cap for pool in pools if pool.cap is not None]
        #: A kind of resource that no pool mentions is not limited by any cap.
        self._divided = [any(kinds) for kinds in zip(*map(_amounts, amounts), strict=True)]
        self._pool_used = {pool.name: [0, 0, 0] for pool in pools}
        #: The part of the cluster that each pool holds, by its dominant resource; and over time.
        self._pool_rates = dict.fromkeys(self._pools, 0.0)
        self._pool_held = dict.fromkeys(self._pools, 0.0)
        #: What the nodes' use comes to, until it changes.
        self._rates: tuple[float, float, float, float] | None = None
        self._takes: dict[str, tuple[str, list[_Take]]] = {}
        self.waiting = 0
        self._began_s = self._now_s = 0.0
        self._sums = [0.0] * 5
        self._bucket = [0.0] * 5
        self._bucket_s = _FIRST_BUCKET_S
        self._bucket_from_s = 0.0
        self._points: list[tuple[float, ...]] = []

    def begin(self, now_s: float) -> None:
        """Nothing before this moment counts."""
        self._began_s = self._now_s = self._bucket_from_s = now_s

    def advance(self, now_s: float) -> None:
        """Time passes with things as they are."""
        if now_s <= self._now_s:
            return
        span_s = now_s - self._now_s
        rates = self._rates
        if rates is None:
            rates = self._rates = self._shares()
        cpu, memory, gpu, fragments = rates
        waiting = self.waiting
        # Written out: this is called for every event, and loops over five are half of its time.
        sums = self._sums
        sums[0] += cpu * span_s
        sums[1] += memory * span_s
        sums[2] += gpu * span_s
        sums[3] += fragments * span_s
        sums[4] += waiting * span_s
        for name, rate in self._pool_rates.items():
            if rate:
                self._pool_held[name] += rate * span_s
        at_s = self._now_s
        while at_s < now_s:
            if now_s - at_s > _MOST_POINTS * self._bucket_s:
                # A long silence: let the buckets grow before it is cut into them.
                self._coarsen()
                continue
            close_s = self._bucket_from_s + self._bucket_s
            part_s = (now_s if now_s < close_s else close_s) - at_s
            bucket = self._bucket
            bucket[0] += cpu * part_s
            bucket[1] += memory * part_s
            bucket[2] += gpu * part_s
            bucket[3] += fragments * part_s
            bucket[4] += waiting * part_s
            if now_s < close_s:
                break
            at_s = close_s
            self._close_bucket()
        self._now_s = now_s

    def _shares(self) -> tuple[float, float, float, float]:
        cpu, memory, gpu = self._used
        total = self.total
        return (
            cpu / total.cpu_millis if total.cpu_millis else 0.0,
            memory / total.memory_bytes if total.memory_bytes else 0.0,
            gpu / total.gpu_millis if total.gpus else 0.0,
            self._fragments.mean,
        )

    def _dominant(self, used: Sequence[int]) -> float:
        total = self.total
        parts = (
            used[0] / total.cpu_millis if total.cpu_millis else 0.0,
            used[1] / total.memory_bytes if total.memory_bytes else 0.0,
            used[2] / total.gpu_millis if total.gpus else 0.0,
        )
        return max(parts)

    def _close_bucket(self) -> None:
        means = tuple(total / self._bucket_s for total in self._bucket)
        self._points.append((self._bucket_from_s, *means))
        self._bucket = [0.0] * 5
        self._bucket_from_s += self._bucket_s
        if len(self._points) > _MOST_POINTS:
            self._coarsen()

    def _coarsen(self) -> None:
        """Buckets twice as long: neighbours are merged, an odd one goes on being filled."""
        if len(self._points) % 2:
            last = self._points.pop()
            self._bucket_from_s = last[0]
            for at, mean in enumerate(last[1:]):
                self._bucket[at] += mean * self._bucket_s
        pairs = zip(self._points[::2], self._points[1::2], strict=True)
        self._points = [
            (one[0], *((a + b) / 2 for a, b in zip(one[1:], two[1:], strict=True)))
            for one, two in pairs
        ]
        self._bucket_s *= 2

    def held(self, job: Job, plan: Plan) -> None:
        """The job holds the plan's slots from now on."""
        asked = {role.name: role.resources for role in job.roles}
        takes = []
        for placement in plan.placements:
            ask = asked[placement.member.role]
            millis = ask.cpu_millis
            if job.pinning is Pinning.EXCLUSIVE:
                millis = 1000 * max(1, -(-millis // 1000))
            node = self._index[placement.slot.node]
            card = placement.slot.gpus[0] if ask.gpu_share_millis else None
            takes.append(_Take(node, millis, ask.memory_bytes, ask.gpu_millis, card))
        for take in takes:
            self._change(take, 1)
            node = take.node
            if min(self._cpu[node], self._memory[node], self._gpu[node]) < 0:
                raise BrokenPromise(f"{job.name} was given more than node {node} has")
        self._takes[job.name] = (job.pool, takes)
        self._charge(job.pool, takes, 1)
        self._check_cap(job)

    def released(self, name: str) -> None:
        pool, takes = self._takes.pop(name)
        for take in takes:
            self._change(take, -1)
        self._charge(pool, takes, -1)

    def _change(self, take: _Take, sign: int) -> None:
        node = take.node
        self._cpu[node] -= sign * take.cpu_millis
        self._memory[node] -= sign * take.memory_bytes
        self._gpu[node] -= sign * take.gpu_millis
        if not self.total.gpus:
            self._fragments.change(node, self._cpu[node], self._cpu[node])
        elif take.gpu_millis:
            self._whole[node] -= sign * self._opened(take, sign)
            self._fragments.change(node, self._whole[node], self._gpu[node])

    def _opened(self, take: _Take, sign: int) -> int:
        """Thousandths of whole cards that are opened, or closed again, by this."""
        if take.card is None:
            return take.gpu_millis
        before = self._shared.get((take.node, take.card), 0)
        after = before + sign * take.gpu_millis
        if not 0 <= after <= 1000:
            raise BrokenPromise(f"card {take.card} of node {take.node} was shared beyond itself")
        self._shared[take.node, take.card] = after
        return 1000 if not before or not after else 0

    def _charge(self, pool: str, takes: Sequence[_Take], sign: int) -> None:
        of_pool = self._pool_used[pool]
        for used in (of_pool, self._used):
            for take in takes:
                used[0] += sign * take.cpu_millis
                used[1] += sign * take.memory_bytes
                used[2] += sign * take.gpu_millis
        self._pool_rates[pool] = self._dominant(of_pool)
        self._rates = None

    def _check_cap(self, job: Job) -> None:
        cap = self._pools[job.pool].cap
        if cap is None:
            return
        held = self._pool_used[job.pool]
        for limited, used, most in zip(self._divided, held, _amounts(cap), strict=True):
            if limited and used > most:
                raise BrokenPromise(f"{job.name} takes pool {job.pool} above its cap")

    def mean(self, at: int) -> float:
        """The average so far of: cpu, memory, gpu, fragmentation, waiting."""
        span_s = self._now_s - self._began_s
        return self._sums[at] / span_s if span_s else 0.0

    def held_share(self, pool: str) -> float:
        span_s = self._now_s - self._began_s
        return self._pool_held[pool] / span_s if span_s else 0.0

    def series(self) -> tuple[Point, ...]:
        points = [Point(*point) for point in self._points]
        rest_s = self._now_s - self._bucket_from_s
        if rest_s > 0:
            points.append(Point(self._bucket_from_s, *(part / rest_s for part in self._bucket)))
        return tuple(points)


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def pool_figures(
    records: Sequence[JobRecord], pools: Sequence[Pool], meter: Meter
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
