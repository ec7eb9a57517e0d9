"""Would this node's kubelet admit this pod, and which CPUs and devices would it get?

The scheduler only counts; the kubelet has the last word, and a pod that it rejects is lost. So
the same decisions are made here beforehand: the topology manager chooses cells for each
container (or once for the pod), then devices and CPUs are taken there, container by container.

One difference is deliberate. With full physical cores only, and CPUs reserved that share a core
with others, the kubelet counts those others as free although it promises whole cores; here only
whole free cores count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mooring.brain.kubelet import devices, static_cpus
from mooring.brain.kubelet.containers import Container, exclusive_cpus
from mooring.brain.kubelet.layout import CpuLayout, layout_of, to_bits, to_ids
from mooring.brain.kubelet.topology import Affinity, Demand, decide
from mooring.model.cluster import Gpu, KubeletPolicy, Node, TopologyManager, TopologyScope


class Reason(StrEnum):
    """The reasons that a rejected pod's status shows."""

    TOPOLOGY = "TopologyAffinityError"
    SMT = "SMTAlignmentError"
    UNEXPECTED = "UnexpectedAdmissionError"


@dataclass(frozen=True)
class KubeletAdmission:
    """`cpus` and `gpus` by container; a container without CPUs of its own runs on `shared`.

    `cells` are those of the CPUs and devices that were given; `shared` is the pool that is left
    once the pod runs.
    """

    cpus: tuple[frozenset[int], ...]
    gpus: tuple[frozenset[int], ...]
    cells: tuple[int, ...]
    shared_bits: int = 0

    @property
    def shared(self) -> frozenset[int]:
        return frozenset(to_ids(self.shared_bits))


@dataclass(frozen=True)
class KubeletRejection:
    reason: Reason
    sentence: str


def admit(
    node: Node,
    free_cpus: frozenset[int],
    free_gpus: frozenset[int],
    containers: Sequence[Container],
    policy: KubeletPolicy,
) -> KubeletAdmission | KubeletRejection:
    """The kubelet's answer for a pod of these containers, given what nobody holds exclusively."""
    pod = _Pod(node, free_cpus, free_gpus, containers, policy)
    everywhere: Affinity | None = None
    if policy.scope is TopologyScope.POD:
        everywhere = pod.decide(sum(pod.whole), sum(c.gpus for c in containers))
        if not everywhere.admitted:
            return pod.misaligned(sum(pod.whole), sum(c.gpus for c in containers))
    for container, whole in zip(containers, pod.whole, strict=True):
        affinity = everywhere or pod.decide(whole, container.gpus)
        if not affinity.admitted:
            return pod.misaligned(whole, container.gpus)
        rejection = pod.take_gpus(container.gpus, affinity) or pod.take_cpus(whole, affinity)
        if rejection is not None:
            return rejection
    return pod.admission()


class _Pod:
    """What is left of the node while one pod is let in."""

    def __init__(
        self,
        node: Node,
        free_cpus: frozenset[int],
        free_gpus: frozenset[int],
        containers: Sequence[Container],
        policy: KubeletPolicy,
    ) -> None:
        self.layout = layout_of(node)
        self.policy = policy
        self.whole = exclusive_cpus(containers, policy)
        self.node = node
        reserved = to_bits(policy.reserved_cpus)
        self.pool = (to_bits(free_cpus) | reserved) & self.layout.every_cpu
        self.free = self.pool & ~reserved
        if policy.full_physical_cores_only and self.layout.cpus_per_core > 1:
            self.free = self.layout.whole_cores(self.free)
        self.gpus = [gpu for gpu in node.gpus if gpu.index in free_gpus and gpu.healthy]
        self.taken_cpus: list[int] = []
        self.taken_gpus: list[tuple[Gpu, ...]] = []

    def decide(self, cpus: int, gpus: int) -> Affinity:
        """Devices speak first, as they do in the kubelet; it matters to nobody's answer."""
        if self.policy.topology_manager is TopologyManager.NONE:
            return Affinity(None, True)
        layout = self.layout
        demands = []
        if gpus:
            demands.append(Demand(gpus, self.free_gpus_in_cells(), layout.gpus_in_cell))
        if cpus:
            demands.append(Demand(cpus, self.free_cpus_in_cells(), layout.cell_sizes))
        return decide(self.policy.topology_manager, demands, len(layout.cells))

    def free_cpus_in_cells(self) -> list[int]:
        return [(cell & self.free).bit_count() for cell in self.layout.cells]

    def free_gpus_in_cells(self) -> list[int]:
        homes = [gpu.cell for gpu in self.gpus]
        return [homes.count(cell) for cell in self.layout.cell_ids]

    def take_gpus(self, count: int, affinity: Affinity) -> KubeletRejection | None:
        if not count:
            self.taken_gpus.append(())
            return None
        chosen = devices.choose(self.gpus, count, _cells(self.layout, affinity))
        if chosen is None:
            return KubeletRejection(
                Reason.UNEXPECTED, f"{_many(count, 'GPU')} wanted, {len(self.gpus)} free"
            )
        self.taken_gpus.append(chosen)
        self.gpus = [gpu for gpu in self.gpus if gpu not in chosen]
        return None

    def take_cpus(self, count: int, affinity: Affinity) -> KubeletRejection | None:
        if not count:
            self.taken_cpus.append(0)
            return None
        rejection = self._splits_cores(count)
        if rejection is not None:
            return rejection
        near = None if affinity.cells is None else self.layout.in_cells(affinity.cells)
        by_cache = self.policy.prefer_l3_alignment
        chosen = static_cpus.allocate(self.layout, self.free, count, near, by_cache)
        if chosen is None:
            free = self.free.bit_count()
            return KubeletRejection(
                Reason.UNEXPECTED,
                f"{_many(count, 'exclusive CPU')} wanted, {free} free{self._kept()}",
            )
        self.taken_cpus.append(chosen)
        self.free &= ~chosen
        self.pool &= ~chosen
        return None

    def _splits_cores(self, count: int) -> KubeletRejection | None:
        if not self.policy.full_physical_cores_only:
            return None
        threads = self.layout.cpus_per_core
        if count % threads:
            return KubeletRejection(
                Reason.SMT,
                f"{_many(count, 'CPU')} cannot be whole cores of {threads} threads; "
                f"{-(-count // threads) * threads} could",
            )
        if count > self.free.bit_count():
            return KubeletRejection(
                Reason.SMT,
                f"{_many(count // threads, 'whole core')} of {_many(threads, 'thread')} wanted, "
                f"{self.free.bit_count() // threads} free{self._kept()}",
            )
        return None

    def _kept(self) -> str:
        reserved = len(self.policy.reserved_cpus)
        return f" ({reserved} kept by the kubelet)" if reserved else ""

    def misaligned(self, cpus: int, gpus: int) -> KubeletRejection:
        """Names what each cell has, because that is what would have to change."""
        parts = []
        if cpus:
            parts.append(_many(cpus, "CPU"))
        if gpus:
            parts.append(_many(gpus, "GPU"))
        free = zip(
            self.layout.cell_ids, self.free_cpus_in_cells(), self.free_gpus_in_cells(), strict=True
        )
        has = ", ".join(
            f"cell {cell} has "
            + " and ".join(
                [_many(free_cpus, "CPU")] * bool(cpus) + [_many(free_gpus, "GPU")] * bool(gpus)
            )
            for cell, free_cpus, free_gpus in free
        )
        where = (
            "one NUMA cell"
            if self.policy.topology_manager is TopologyManager.SINGLE_NUMA_NODE
            else "as few NUMA cells as they need"
        )
        return KubeletRejection(
            Reason.TOPOLOGY, f"no room for {' and '.join(parts)} together in {where}: {has} free"
        )

    def admission(self) -> KubeletAdmission | KubeletRejection:
        if not self.pool and not all(self.taken_cpus):
            return KubeletRejection(
                Reason.UNEXPECTED, "no CPU is left for containers that share CPUs"
            )
        cells = {gpu.cell for gpus in self.taken_gpus for gpu in gpus}
        for cell, mask in zip(self.layout.cell_ids, self.layout.cells, strict=True):
            if any(mask & cpus for cpus in self.taken_cpus):
                cells.add(cell)
        return KubeletAdmission(
            tuple(frozenset(to_ids(cpus)) for cpus in self.taken_cpus),
            tuple(frozenset(gpu.index for gpu in gpus) for gpus in self.taken_gpus),
            tuple(sorted(cells)),
            self.pool,
        )


def _cells(layout: CpuLayout, affinity: Affinity) -> list[int] | None:
    if affinity.cells is None:
        return None
    return [layout.cell_ids[bit] for bit in to_ids(affinity.cells)]


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
