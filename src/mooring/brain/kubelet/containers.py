"""Containers as the kubelet sees them, and the rule for devices under its static CPU policy.

Only containers of a Guaranteed pod (every container: limits = requests) that ask for a whole
number of CPUs get CPUs of their own. All others run on the shared pool, whose CPU set the
kubelet rewrites whenever an exclusive container comes or goes; that rewrite makes the container
runtime reset the device rules, and a container on GPUs then fails with "Failed to initialize
NVML: Unknown Error".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mooring.model.cluster import CpuManager, KubeletPolicy
from mooring.model.resources import format_cpu


@dataclass(frozen=True)
class Container:
    """`whole_cpus` is the number of CPUs asked for if it is whole, otherwise 0."""

    cpu_millis: int
    whole_cpus: int
    gpus: int = 0
    guaranteed: bool = True

    @classmethod
    def of(cls, cpu_millis: int, gpus: int = 0, guaranteed: bool = True) -> Container:
        whole = cpu_millis // 1000 if cpu_millis % 1000 == 0 else 0
        return cls(cpu_millis, whole, gpus, guaranteed)


def exclusive_cpus(containers: Sequence[Container], policy: KubeletPolicy) -> tuple[int, ...]:
    """How many CPUs each container gets for itself alone."""
    alone = policy.cpu_manager is CpuManager.STATIC and all(c.guaranteed for c in containers)
    return tuple(container.whole_cpus if alone else 0 for container in containers)


@dataclass(frozen=True)
class GpuPodProblem:
    """Why a pod would lose its devices, and the nearest pod that would keep them."""

    sentence: str
    repair: tuple[Container, ...]
    repair_sentence: str


def _why_not_whole(container: Container) -> str:
    if not container.cpu_millis:
        return "it asks for no CPU"
    if container.cpu_millis % 1000:
        return f"{format_cpu(container.cpu_millis)} CPU is not a whole number"
    return "it does not hold its CPUs exclusively"


def gpu_pod_problem(
    containers: Sequence[Container], policy: KubeletPolicy, threads_per_core: int = 1
) -> GpuPodProblem | None:
    """None if the containers with devices keep them on a node with this policy.

    The repair rounds CPUs up: to whole CPUs, or to whole cores where the kubelet gives no less.
    """
    if policy.cpu_manager is not CpuManager.STATIC:
        return None
    if not any(container.gpus for container in containers):
        return None
    problems = []
    if not all(container.guaranteed for container in containers):
        problems.append("it is not Guaranteed (limits = requests in every container)")
    for container in containers:
        if container.gpus and not container.whole_cpus:
            problems.append(_why_not_whole(container))
    if not problems:
        return None
    step = threads_per_core if policy.full_physical_cores_only else 1
    repair = tuple(_repaired(container, step) for container in containers)
    wanted = [c.whole_cpus for c in repair if c.gpus]
    cpus = "CPU" if wanted == [1] else "CPUs"
    return GpuPodProblem(
        "on a node with the static CPU policy this pod would lose its GPUs ('Failed to initialize "
        f"NVML: Unknown Error'): {', '.join(dict.fromkeys(problems))}",
        repair,
        f"ask for {' and '.join(map(str, wanted))} whole {cpus}, with limits equal to requests",
    )


def _repaired(container: Container, step: int) -> Container:
    if not container.gpus:
        return replace(container, guaranteed=True)
    whole = max(1, -(-container.cpu_millis // 1000))
    whole = -(-whole // step) * step
    return Container(1000 * whole, whole, container.gpus, True)
