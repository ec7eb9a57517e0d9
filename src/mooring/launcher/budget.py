"""The CPU budget of a member, and the thread counts that follow from it.

Numeric libraries start one thread for each CPU that the machine shows. In a container or a slot
that holds a part of the machine this means many threads on few CPUs, each waiting for the others.
"""

from __future__ import annotations

import os

from . import cgroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

# torch takes its intra-op count from OMP_NUM_THREADS, or MKL_NUM_THREADS in MKL builds.
_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
# A TensorFlow server blocks inter-op threads on its peers: with one such thread a
# parameter-server cluster hangs silently, whatever the CPU budget is; three leave a spare.
_LEAST_INTEROP = 3


class Budget:
    """What one member may use; `sources` says what each place that could limit it says."""

    def __init__(
        self,
        cpus: list[int],
        cpu_millis: int,
        threads: int,
        memory_bytes: int | None,
        sources: dict[str, Any],
    ) -> None:
        self.cpus = cpus
        self.cpu_millis = cpu_millis
        self.threads = threads
        self.memory_bytes = memory_bytes
        self.sources = sources

    def record(self) -> dict[str, Any]:
        return {
            "cpus": self.cpus,
            "cpu_millis": self.cpu_millis,
            "threads": self.threads,
            "memory_bytes": self.memory_bytes,
            "sources": self.sources,
        }


def read(
    groups: Mapping[str, cgroups.ControlGroup],
    contract_millis: int | None,
    contract_memory: int | None,
    threads: int | None,
    processes: int,
    affinity: list[int] | None = None,
    share_threads: int | None = None,
    sharers: int = 1,
) -> Budget:
    """The tightest of affinity, cgroup CPU set, cgroup quota and the contract's share.

    A fraction of a CPU rounds up: 2.5 CPUs keep three threads busy half of the time, while two
    would leave half a CPU idle. Several processes, or `sharers` of the same CPUs, divide whole
    ones: together they never have more threads than there are CPUs, but for one each.

    `share_threads`: the same, worked out by whoever placed the members and knows what each of those
    who share its CPUs asked for.
    """
    cpus = held_cpus() if affinity is None else affinity
    sources: dict[str, Any] = {"affinity": len(cpus)}
    bounds = [len(cpus) * 1000]
    if "cpuset" in groups:
        allowed = cgroups.cpuset(groups["cpuset"])
        if allowed is not None:
            sources["cpuset"] = len(allowed)
            bounds.append(max(1, len(allowed)) * 1000)
    if "cpu" in groups:
        quota = cgroups.quota_millis(groups["cpu"])
        if quota is not None:
            sources["quota_millis"] = quota
            bounds.append(quota)
    if contract_millis is not None:
        sources["contract_millis"] = contract_millis
        bounds.append(contract_millis)
    cpu_millis = min(bounds)

    memory = cgroups.memory_limit(groups["memory"]) if "memory" in groups else None
    if memory is not None:
        sources["memory_limit_bytes"] = memory
    limits = [limit for limit in (memory, contract_memory) if limit is not None]

    if threads is None:
        parts = max(1, processes) * sharers
        whole = cpu_millis // 1000 if parts > 1 else -(-cpu_millis // 1000)
        threads = max(1, whole // parts)
        sources["threads"] = "budget" if sharers == 1 else "share"
        if share_threads is not None and share_threads < threads:
            threads = share_threads
            sources["threads"] = "share"
    else:
        sources["threads"] = "contract"
    return Budget(cpus, cpu_millis, threads, min(limits) if limits else None, sources)


def thread_env(threads: int) -> dict[str, str]:
    """The variables that hold the numeric libraries to `threads` threads in each pool."""
    env = {name: str(threads) for name in _COUNTS}
    env["TF_NUM_INTEROP_THREADS"] = str(max(_LEAST_INTEROP, threads))
    return env


def held_cpus() -> list[int]:
    """The CPUs that this process may run on now."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
