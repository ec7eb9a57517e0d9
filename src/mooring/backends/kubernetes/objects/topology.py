"""NUMA cells of nodes, where a cluster publishes them as NodeResourceTopology objects.

Such an object says of each cell how many CPUs and devices it has (`capacity`), hands out
(`allocatable`) and has left (`available`), not which ones. Mooring numbers them cell by cell: the
kubelet chooses the real ones, and only how many there are in a cell decides what fits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mooring.backends.kubernetes.api.document import Json, Object, find, items, text
from mooring.backends.kubernetes.objects.amounts import MOST_CPUS, MOST_GPUS, amounts
from mooring.model.cluster import CpuManager, KubeletPolicy, TopologyManager, TopologyScope
from mooring.model.resources import Resources

_LAST_NUMBER = re.compile(r"(\d{1,4})$", re.ASCII)
#: What exporters wrote before there were attributes; the last word is the scope.
_OLD_POLICIES = {
    "SingleNUMANode": TopologyManager.SINGLE_NUMA_NODE,
    "Restricted": TopologyManager.RESTRICTED,
    "BestEffort": TopologyManager.BEST_EFFORT,
    "None": TopologyManager.NONE,
}


@dataclass(frozen=True, slots=True)
class NumaZone:
    """A NUMA cell: its CPUs, how many of them are handed out, and how many of those nobody has."""

    cell: int
    cpus: int
    cpus_handed_out: int
    cpus_free: int
    gpus: int = 0
    gpus_free: int = 0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """What does not change as pods come and go."""
        return self.cell, self.cpus, self.cpus_handed_out, self.gpus


@dataclass(frozen=True, slots=True)
class TopologyView:
    """`policy`: what the object tells of the kubelet's settings; None if that is not enough."""

    name: str
    zones: tuple[NumaZone, ...]
    policy: KubeletPolicy | None = None

    def matters_after(self, before: TopologyView) -> bool:
        """May something fit now that did not before?"""
        if [zone.shape for zone in before.zones] != [zone.shape for zone in self.zones]:
            return True
        return before.policy != self.policy or any(
            new.cpus_free > old.cpus_free or new.gpus_free > old.gpus_free
            for old, new in zip(before.zones, self.zones, strict=True)
        )


def parse_topology(obj: Object) -> TopologyView:
    zones = [
        _zone(one, index)
        for index, one in enumerate(
            [item for item in items(obj, "zones") if text(item, "type") == "Node"]
        )
    ]
    distinct = {zone.cell: zone for zone in zones}
    listed = tuple(distinct[cell] for cell in sorted(distinct))
    return TopologyView(text(obj, "metadata", "name"), listed, _policy(obj, listed))


def _zone(obj: Object, index: int) -> NumaZone:
    number = _LAST_NUMBER.search(text(obj, "name"))
    listed = {text(item, "name"): item for item in items(obj, "resources")}
    capacity, given, left = (
        _amounts(listed, key) for key in ("capacity", "allocatable", "available")
    )
    cpus = min(MOST_CPUS, max(capacity.cpu_millis, given.cpu_millis) // 1000)
    gpus = min(MOST_GPUS, given.gpus)
    return NumaZone(
        cell=int(number.group(1)) if number else index,
        cpus=cpus,
        cpus_handed_out=min(cpus, given.cpu_millis // 1000),
        cpus_free=max(0, min(cpus, left.cpu_millis // 1000)),
        gpus=gpus,
        gpus_free=max(0, min(gpus, left.gpus)),
    )


def _amounts(listed: Mapping[str, Object], key: str) -> Resources:
    found: dict[str, Json] = {name: find(one, key) for name, one in listed.items()}
    return amounts(found)


def _policy(obj: Object, zones: tuple[NumaZone, ...]) -> KubeletPolicy | None:
    """Exporters tell of the topology manager, not of the CPU manager.

    A topology manager is switched on for the sake of CPUs of one's own, so then the CPU manager is
    taken to be static. One that is off says nothing about it.
    """
    told = {text(item, "name"): text(item, "value") for item in items(obj, "attributes")}
    policy, scope = told.get("topologyManagerPolicy", ""), told.get("topologyManagerScope", "")
    manager = next((choice for choice in TopologyManager if choice.value == policy), None)
    where = next(
        (choice for choice in TopologyScope if choice.value == scope), TopologyScope.CONTAINER
    )
    if manager is None:
        manager, where = _old_policy(obj)
    if manager is None or manager is TopologyManager.NONE:
        return None
    return KubeletPolicy(CpuManager.STATIC, manager, where, reserved_cpus=reserved_of(zones))


def _old_policy(obj: Object) -> tuple[TopologyManager | None, TopologyScope]:
    listed = find(obj, "topologyPolicies")
    name = listed[0] if isinstance(listed, list) and listed else ""
    if not isinstance(name, str):
        return None, TopologyScope.CONTAINER
    scope = TopologyScope.POD if name.endswith("PodLevel") else TopologyScope.CONTAINER
    base = name.removesuffix("PodLevel").removesuffix("ContainerLevel")
    return _OLD_POLICIES.get(base), scope


def reserved_of(zones: tuple[NumaZone, ...]) -> frozenset[int]:
    """The CPUs that a kubelet keeps, in Mooring's numbering: the first of each cell."""
    kept: set[int] = set()
    first = 0
    for zone in zones:
        kept.update(range(first, first + zone.cpus - zone.cpus_handed_out))
        first += zone.cpus
    return frozenset(kept)


def over_zones(policy: KubeletPolicy, zones: tuple[NumaZone, ...]) -> KubeletPolicy:
    """A kubelet's own settings, with what it keeps counted cell by cell."""
    kept = reserved_of(zones)
    return replace(policy, reserved_cpus=kept) if kept else policy
