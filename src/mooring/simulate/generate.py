"""Workloads out of a seed, in the shapes that published cluster traces have.

What the traces say and what is taken from them:
- Helios (SenseTime, SC '21; github.com/S-Lab-System-Group/HeliosData): 1,580,464 of 3,362,981
  jobs in six months use GPUs, so 47 % do here. Submissions follow the working day.
- Philly (Microsoft, ATC '19; github.com/msr-fiddle/philly-traces): 117,325 jobs between
  2017-08-07 and 2017-12-22, gangs of 1, 2, 4, 8... GPUs on machines of up to 8, jobs that run
  from a minute to days, teams with a share each ("virtual clusters").
- Alibaba PAI (NSDI '22; github.com/alibaba/clusterdata, cluster-trace-gpu-v2020): most tasks
  are small and run for seconds to days; requests for CPUs, GPUs and memory are long-tailed;
  parameter servers that use no GPU beside workers that do.
The constants below are of that kind, not fitted to one of the traces: they are arguments.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from mooring.model.resources import Resources
from mooring.simulate.workload import RoleShape, Workload, WorkloadJob, WorkloadPool

_GIB = 1024**3
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Shape:
    """What a generated workload looks like.

    `load` is the part of the cluster's scarcest resource that the jobs ask for on average, so
    that the same shape suits any cluster. Durations are log-normal: half are below the median,
    and with a sigma of 2 the 95th percentile is 27 times the median.
    """

    load: float = 0.8
    duration_median_s: float = 600.0
    duration_sigma: float = 2.0
    duration_most_s: float = 7 * _DAY_S
    gpu_share: float = 0.47
    #: Odds of gangs of 1, 2, 4, ... members: each size half as frequent as the one before.
    gang_ratio: float = 0.5
    gang_most: int = 64
    #: The rate at noon over that at midnight.
    day_ratio: float = 3.0
    #: Users submit sweeps: this part of the submissions is a burst of 2 to 16 alike.
    burst_share: float = 0.1
    pools: int = 3
    server_share: float = 0.1


def generate(
    seed: int,
    jobs: int,
    total: Resources,
    largest: Resources,
    shape: Shape = Shape(),  # noqa: B008
) -> Workload:
    """`jobs` jobs for a cluster of `total`, whose largest node is `largest`."""
    chance = random.Random(seed)
    bodies = _bodies(chance, jobs, total, largest, shape)
    span_s = _span_s(bodies, total, shape)
    moments = _arrivals(chance, [len(group) for group in bodies], span_s, shape)
    made: list[WorkloadJob] = []
    for moment_s, group in zip(moments, bodies, strict=True):
        pool = f"pool-{chance.choices(range(shape.pools), _pool_odds(shape.pools))[0]}"
        priority = chance.choices((0, 10, 100), (80, 15, 5))[0]
        for work_s, roles in group:
            told = chance.random() < 0.5
            members = sum(role.replicas for role in roles)
            duration_s = work_s / members
            made.append(
                WorkloadJob(
                    name=f"job-{len(made)}",
                    arrival_s=moment_s,
                    work_s=work_s,
                    roles=roles,
                    pool=pool,
                    priority=priority,
                    # Users guess high, and half of them say nothing.
                    expected_s=duration_s * chance.uniform(1.0, 3.0) if told else None,
                    checkpoint_s=600.0,
                )
            )
    pools = tuple(
        WorkloadPool(f"pool-{index}", weight=float(shape.pools - index))
        for index in range(shape.pools)
    )
    return Workload(tuple(made), pools, f"generated (seed {seed})")


_Body = tuple[float, tuple[RoleShape, ...]]


def _bodies(
    chance: random.Random, jobs: int, total: Resources, largest: Resources, shape: Shape
) -> list[list[_Body]]:
    """Submissions in order, each a list of one job or a burst of jobs alike."""
    sizes = [2**power for power in range(int(math.log2(shape.gang_most)) + 1)]
    sizes = [size for size in sizes if size <= max(1, total.cpu_millis // 2000)]
    odds = [shape.gang_ratio**power for power in range(len(sizes))]
    bodies: list[list[_Body]] = []
    left = jobs
    while left > 0:
        burst = chance.randint(2, 16) if chance.random() < shape.burst_share else 1
        members = chance.choices(sizes, odds)[0]
        on_gpu = largest.gpus > 0 and chance.random() < shape.gpu_share
        roles = _roles(chance, members, on_gpu, total, largest, shape)
        group: list[_Body] = []
        for _ in range(min(burst, left)):
            drawn_s = shape.duration_median_s * math.exp(chance.gauss(0.0, shape.duration_sigma))
            duration_s = min(max(drawn_s, 1.0), shape.duration_most_s)
            group.append((duration_s * sum(role.replicas for role in roles), roles))
        bodies.append(group)
        left -= len(group)
    return bodies


def _roles(
    chance: random.Random,
    members: int,
    on_gpu: bool,
    total: Resources,
    largest: Resources,
    shape: Shape,
) -> tuple[RoleShape, ...]:
    cpus = chance.choices((1, 2, 4, 8), (4, 3, 2, 1))[0]
    cpu_millis = min(1000 * cpus, largest.cpu_millis)
    memory_bytes = min(chance.choice((2, 4, 8)) * cpus * _GIB, largest.memory_bytes)
    gpus = 0
    if on_gpu:
        gpus = min(chance.choices((1, 2, 4, 8), (70, 15, 10, 5))[0], largest.gpus)
        most = total.gpus // (4 * gpus)
    else:
        most = total.cpu_millis // (4 * cpu_millis)
    # No gang takes more than a quarter of the cluster, and all sizes stay powers of two.
    while members > max(1, most):
        members //= 2
    worker = RoleShape("worker", members, Resources(cpu_millis, memory_bytes, gpus))
    if members >= 4 and chance.random() < shape.server_share:
        servers = RoleShape("ps", members // 4, Resources(cpu_millis, memory_bytes))
        return (servers, worker)
    return (worker,)


def _span_s(bodies: list[list[_Body]], total: Resources, shape: Shape) -> float:
    """The time over which the jobs must arrive to load the scarcest resource as wanted."""
    asked = [0.0, 0.0, 0.0]
    for group in bodies:
        for work_s, roles in group:
            duration_s = work_s / sum(role.replicas for role in roles)
            for role in roles:
                ask = role.resources
                for at, amount in enumerate((ask.cpu_millis, ask.memory_bytes, ask.gpus)):
                    asked[at] += role.replicas * amount * duration_s
    has = (total.cpu_millis, total.memory_bytes, total.gpus)
    return max(one / (shape.load * room) for one, room in zip(asked, has, strict=True) if room)


def _arrivals(chance: random.Random, counts: list[int], span_s: float, shape: Shape) -> list[float]:
    """A Poisson process with a rate that follows the day, by thinning a faster one."""
    mean_gap_s = span_s / max(1, len(counts))
    deep = (shape.day_ratio - 1) / (shape.day_ratio + 1)
    now_s = 0.0
    moments: list[float] = []
    while len(moments) < len(counts):
        now_s += chance.expovariate((1 + deep) / mean_gap_s)
        rate = 1 - deep * math.cos(2 * math.pi * now_s / _DAY_S)
        if chance.random() * (1 + deep) <= rate:
            moments.append(now_s)
    return moments


def _pool_odds(pools: int) -> list[float]:
    """A few teams submit most of the jobs."""
    return [1.0 / (index + 1) for index in range(pools)]
