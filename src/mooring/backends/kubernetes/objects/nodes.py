"""Nodes of a cluster as the brain sees them.

An API server tells how many CPUs and devices a node has, not how they hang together: without a
NodeResourceTopology a node counts as one cell. What its kubelet would do is known only where the
kubelet was asked, or the topology tells of it.

Thousands of nodes say the same of themselves, down to the images that they have: what is equal is
kept once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from sys import intern
from typing import TypeVar

from mooring.backends.kubernetes.api.document import Object, find, items, mapping, text, texts
from mooring.backends.kubernetes.api.times import parse_time
from mooring.backends.kubernetes.objects.amounts import MOST_CPUS, MOST_GPUS, amounts
from mooring.backends.kubernetes.objects.topology import NumaZone, TopologyView, over_zones
from mooring.model.cluster import Cpu, Gpu, KubeletPolicy, Node, Taint, TopologyManager
from mooring.model.numbers import whole_number
from mooring.model.resources import Counts, counts

#: What a kubelet takes unless it is told otherwise.
_PODS = 110
_GPU_KIND_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "accelerator")
#: In MiB, of the whole card; and into how many devices each card is divided.
_NVIDIA_MEMORY, _NVIDIA_REPLICAS = "nvidia.com/gpu.memory", "nvidia.com/gpu.replicas"
#: Such as `64G`, by which AMD's labeller means GiB.
_AMD_MEMORY = "amd.com/gpu.vram"
_AMD_SIZE = re.compile(r"(\d{1,6})([MGT])", re.ASCII)
_BYTES = {"M": 2**20, "G": 2**30, "T": 2**40}
_NIC_LABEL = "mooring.dev/nic-mbps"
_AVOID = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_MOST_SHAPES = 4096

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and whether it takes pods at all. `zones`: what is free by cell, where it is told."""

    node: Node
    ready: bool
    pods_most: int
    zones: tuple[NumaZone, ...] = ()
    avoids: tuple[str, ...] = ()
    """The uids of jobs whose members it had rather not take."""
    since_s: float = 0.0
    """When it became ready, or stopped being so."""

    @property
    def name(self) -> str:
        return self.node.name


def parse_node(obj: Object) -> NodeView:
    allocatable = mapping(obj, "status", "allocatable") or mapping(obj, "status", "capacity")
    room = amounts(allocatable)
    capacity = amounts(mapping(obj, "status", "capacity"))
    written = texts(obj, "metadata", "labels")
    labels = {intern(key): intern(value) for key, value in written.items()}
    cpus = min(MOST_CPUS, max(room.cpu_millis, capacity.cpu_millis) // 1000)
    kind = next((labels[key] for key in _GPU_KIND_LABELS if key in labels), "")
    devices = ((0, min(MOST_GPUS, room.gpus)),)
    taints = [
        Taint(text(item, "key"), text(item, "value"), text(item, "effect"))
        for item in items(obj, "spec", "taints")
    ]
    if find(obj, "spec", "unschedulable") is True:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    nic = labels.get(_NIC_LABEL, "")
    address = next(
        (
            text(item, "address")
            for item in items(obj, "status", "addresses")
            if text(item, "type") == "InternalIP"
        ),
        "",
    )
    node = Node(
        name=text(obj, "metadata", "name"),
        cpus=_cpus(((0, cpus),)),
        cpu_millis=room.cpu_millis,
        memory_bytes=room.memory_bytes,
        gpus=_gpus(devices, kind, gpu_memory_bytes(labels)),
        nic_mbps=whole_number(nic),
        labels=labels,
        taints=_kept_once(tuple(dict.fromkeys(taints))),
        address=address,
        extended=_kept_once(room.extended),
        images=_images(obj),
    )
    pods = text(allocatable, "pods")
    most = whole_number(pods)
    most = _PODS if most is None else most
    ready, since_s = _ready(obj)
    return NodeView(node, ready, most, avoids=_avoids(obj), since_s=since_s)


def _avoids(obj: Object) -> tuple[str, ...]:
    """From an annotation in JSON, which anybody may have written."""
    written = text(obj, "metadata", "annotations", _AVOID)
    if not written:
        return ()
    try:
        told = json.loads(written)
    except (ValueError, RecursionError):
        return ()
    owners = [
        mapping(item, "podSignature", "podController") for item in items(told, "preferAvoidPods")
    ]
    return tuple(text(owner, "uid") for owner in owners if text(owner, "kind") == "TrainingJob")


@lru_cache(maxsize=65_536)
def _kept_once(value: Value) -> Value:
    """The first of all equal values."""
    return value


def _images(obj: Object) -> Counts:
    """Every name of each image that the node tells of, with its bytes."""
    found: dict[str, int] = {}
    for image in items(obj, "status", "images"):
        size = find(image, "sizeBytes")
        known = find(image, "names")
        if isinstance(size, int) and isinstance(known, list):
            found.update((intern(name), size) for name in known if isinstance(name, str))
    shared: Counts = _kept_once(tuple(_kept_once(pair) for pair in counts(found)))
    return shared


def _ready(obj: Object) -> tuple[bool, float]:
    """Whether it is, and since when."""
    for condition in items(obj, "status", "conditions"):
        if text(condition, "type") == "Ready":
            return text(condition, "status") == "True", parse_time(
                text(condition, "lastTransitionTime")
            )
    return False, 0.0


def gpu_memory_bytes(labels: Mapping[str, str]) -> int:
    """Of each device, as the labels of the vendors' own labellers say; 0 if they do not."""
    told = labels.get(_NVIDIA_MEMORY, "")
    if told.isdecimal():
        shared = labels.get(_NVIDIA_REPLICAS, "")
        parts = int(shared) if shared.isdecimal() else 1
        return int(told) * 2**20 // max(1, parts)
    size = _AMD_SIZE.fullmatch(labels.get(_AMD_MEMORY, ""))
    return int(size.group(1)) * _BYTES[size.group(2)] if size else 0


def with_limits(view: NodeView, limits: Counts) -> NodeView:
    """The node with how many volumes each driver can attach to it."""
    if not limits:
        return view
    return replace(view, node=replace(view.node, volume_limits=_kept_once(limits)))


def with_hardware(
    view: NodeView, topology: TopologyView | None, kubelet: KubeletPolicy | None
) -> NodeView:
    """The node with its cells and its kubelet's settings, as far as they are known.

    What the kubelet says of itself counts more than what a topology says of it. A topology that
    speaks of fewer CPUs than the node has to give is none of this node's.
    """
    zones = topology.zones if topology is not None else ()
    if 1000 * sum(zone.cpus for zone in zones) < view.node.cpu_millis:
        zones = ()
    if not zones:
        if kubelet is None:
            return view
        return replace(view, node=replace(view.node, kubelet=_kept_once(kubelet)))
    node = view.node
    gpus = node.gpus
    if gpus and sum(zone.gpus for zone in zones) == len(gpus):
        devices = tuple((zone.cell, zone.gpus) for zone in zones)
        gpus = _gpus(devices, gpus[0].kind, gpus[0].memory_bytes)
    policy = over_zones(kubelet, zones) if kubelet is not None else None
    if policy is None and topology is not None:
        policy = topology.policy
    if policy is not None and gpus is node.gpus and gpus and len(zones) > 1:
        # Nobody says where its devices hang, and so nobody knows what could not be aligned.
        policy = replace(policy, topology_manager=TopologyManager.NONE)
    cpus = _cpus(tuple((zone.cell, zone.cpus) for zone in zones))
    known = replace(node, cpus=cpus, gpus=gpus, kubelet=_kept_once(policy))
    return replace(view, node=known, zones=zones)


@lru_cache(_MOST_SHAPES)
def _cpus(cells: tuple[tuple[int, int], ...]) -> tuple[Cpu, ...]:
    """(cell, CPUs in it) -> CPUs, counted through. Nothing tells of sockets, caches and threads:
    a cell counts as a socket with one cache, and each CPU as a core."""
    homes = [cell for cell, count in cells for _ in range(count)]
    return tuple(Cpu(cpu, cpu, cell, cell, cell) for cpu, cell in enumerate(homes))


@lru_cache(_MOST_SHAPES)
def _gpus(cells: tuple[tuple[int, int], ...], kind: str, memory_bytes: int) -> tuple[Gpu, ...]:
    homes = [cell for cell, count in cells for _ in range(count)]
    return tuple(
        Gpu(index, cell, kind, memory_bytes=memory_bytes) for index, cell in enumerate(homes)
    )
