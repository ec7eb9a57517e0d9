"""Nodes as the brain sees them: CPUs with their core, cache and NUMA cell, devices, NIC.

The same type describes this machine, a virtual node, a node of a cluster file and, later, a
Kubernetes node. `NodeUse` is what others already hold there; together they are a `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from mooring.model.labels import Labels
from mooring.model.resources import Counts, Resources
from mooring.model.volumes import Storage, Volume


@dataclass(frozen=True)
class Cpu:
    """One logical CPU. CPUs with the same `core` are SMT siblings."""

    id: int
    core: int
    l3: int
    cell: int
    socket: int


@dataclass(frozen=True)
class Gpu:
    """One device: the NUMA cell and PCIe switch it hangs off, and who it has fast links to.

    Devices with the same `link_group` reach each other over links of their own (NVLink). A
    `memory_bytes` of 0 is unknown.
    """

    index: int
    cell: int
    kind: str = ""
    switch: int = 0
    link_group: int = 0
    healthy: bool = True
    memory_bytes: int = 0


class CpuManager(StrEnum):
    """Does the kubelet give whole CPUs to Guaranteed containers that ask for whole CPUs?"""

    NONE = "none"
    STATIC = "static"


class TopologyManager(StrEnum):
    """How strictly the kubelet keeps CPUs and devices of a pod on the same NUMA cells."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(StrEnum):
    """Is each container aligned for itself, or the pod as a whole?"""

    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True)
class KubeletPolicy:
    """What a node's kubelet is set to: it decides which pods it admits and on which CPUs.

    `reserved_cpus` stay in the shared pool and are never given to one container alone.
    `prefer_l3_alignment` keeps a container's CPUs on few L3 caches where that is possible.
    """

    cpu_manager: CpuManager = CpuManager.NONE
    topology_manager: TopologyManager = TopologyManager.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    full_physical_cores_only: bool = False
    reserved_cpus: frozenset[int] = frozenset()
    prefer_l3_alignment: bool = False


@dataclass(frozen=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True)
class Toleration:
    """Matches a taint as in Kubernetes: an empty key tolerates all, an empty effect any effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True)
class Node:
    """A machine: real, virtual or simulated.

    `cpu_millis` may be less than the CPUs listed: virtual nodes on few CPUs share them, and a
    node may keep some in reserve. `address` is where members on it can be reached, when known.
    `kubelet` is None where no kubelet has a say. `extended` are the other resources that it has,
    `images` those it has fetched with their bytes, `avoids` the jobs that it had rather not take.
    """

    name: str
    cpus: tuple[Cpu, ...]
    cpu_millis: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    nic_mbps: int | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    address: str = ""
    kubelet: KubeletPolicy | None = None
    extended: Counts = ()
    images: Counts = ()
    avoids: tuple[str, ...] = ()
    volume_limits: Counts = ()
    """How many volumes each driver can attach, of drivers that have a limit here."""

    @property
    def capacity(self) -> Resources:
        """What it could give away; a device that is broken is none."""
        gpus = sum(gpu.healthy for gpu in self.gpus)
        return Resources(self.cpu_millis, self.memory_bytes, gpus, extended=self.extended)

    @property
    def cells(self) -> tuple[int, ...]:
        return tuple(sorted({cpu.cell for cpu in self.cpus}))


@dataclass(frozen=True)
class NodeUse:
    """What is already held on a node. `cpus` are exclusively held, never shared ones.

    `sharers` counts the members that share the other CPUs, also those that asked for none.
    `gpus` are held whole; of `gpu_shares` (device, thousandths held) something may be left.
    """

    resources: Resources = Resources()
    cpus: frozenset[int] = frozenset()
    gpus: frozenset[int] = frozenset()
    ports: frozenset[int] = frozenset()
    sharers: int = 0
    residents: tuple[tuple[Labels, int], ...] = ()
    """How many members with which labels are there; those without labels are left out."""
    gpu_shares: tuple[tuple[int, int], ...] = ()
    volumes: tuple[tuple[Volume, int], ...] = ()
    """What is mounted there, each with how many members mount it."""


@dataclass(frozen=True)
class Snapshot:
    """Nodes in a fixed order and their use: all that the brain knows of the world."""

    nodes: tuple[Node, ...]
    use: Mapping[str, NodeUse] = field(default_factory=lambda: MappingProxyType({}))
    storage: Storage | None = None
    """None: nothing is known of it, and volumes are not looked at."""

    def use_of(self, node: str) -> NodeUse:
        return self.use.get(node, _UNUSED)


_UNUSED = NodeUse()


def format_cpus(ids: tuple[int, ...] | frozenset[int] | set[int]) -> str:
    """`{0, 1, 2, 5}` -> `0-2,5`, as the kernel writes CPU lists."""
    ranges: list[list[int]] = []
    for cpu in sorted(ids):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
