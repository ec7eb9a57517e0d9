"""Nodes of a cluster as the brain sees them, and what all of its pods hold there.

An API server tells how many CPUs and devices a node has, not how they hang together; without a
NodeResourceTopology a node counts as one cell, and the kubelet decides on the CPUs.

Thousands of nodes say the same of themselves, down to the images that they have: what is equal is
kept once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import TypeVar

from mooring.bodies.kubernetes.pods import PodView, amounts
from mooring.kubeapi.document import Object, find, items, mapping, text, texts
from mooring.model.cluster import Cpu, Gpu, Node, NodeUse, Snapshot, Taint
from mooring.model.resources import Counts, Resources, counts

_GPU_KIND_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "accelerator")
_NIC_LABEL = "mooring.dev/nic-mbps"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and whether it takes pods at all."""

    node: Node
    ready: bool
    pods_most: int

    @property
    def name(self) -> str:
        return self.node.name


def parse_node(obj: Object) -> NodeView:
    allocatable = mapping(obj, "status", "allocatable") or mapping(obj, "status", "capacity")
    room = amounts(allocatable)
    capacity = amounts(mapping(obj, "status", "capacity"))
    written = texts(obj, "metadata", "labels")
    labels = {intern(key): intern(value) for key, value in written.items()}
    cpus = max(room.cpu_millis, capacity.cpu_millis) // 1000
    kind = next((labels[key] for key in _GPU_KIND_LABELS if key in labels), "")
    taints = [
        Taint(text(one, "key"), text(one, "value"), text(one, "effect"))
        for one in items(obj, "spec", "taints")
    ]
    if find(obj, "spec", "unschedulable") is True:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    nic = labels.get(_NIC_LABEL, "")
    address = next(
        (
            text(one, "address")
            for one in items(obj, "status", "addresses")
            if text(one, "type") == "InternalIP"
        ),
        "",
    )
    node = Node(
        name=text(obj, "metadata", "name"),
        cpus=_cpus(cpus),
        cpu_millis=room.cpu_millis,
        memory_bytes=room.memory_bytes,
        gpus=_gpus(room.gpus, kind),
        nic_mbps=int(nic) if nic.isdigit() else None,
        labels=labels,
        taints=_kept_once(tuple(dict.fromkeys(taints))),
        address=address,
        extended=_kept_once(room.extended),
        images=_images(obj),
    )
    pods = text(allocatable, "pods")
    return NodeView(node, _ready(obj), int(pods) if pods.isdigit() else 110)


@lru_cache(maxsize=1024)
def _cpus(count: int) -> tuple[Cpu, ...]:
    return tuple(Cpu(id=cpu, core=cpu, l3=0, cell=0, socket=0) for cpu in range(count))


@lru_cache(maxsize=1024)
def _gpus(count: int, kind: str) -> tuple[Gpu, ...]:
    return tuple(Gpu(index=index, cell=0, kind=kind) for index in range(count))


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


def _ready(obj: Object) -> bool:
    return any(
        text(one, "type") == "Ready" and text(one, "status") == "True"
        for one in items(obj, "status", "conditions")
    )


def snapshot(nodes: Iterable[NodeView], pods: Iterable[PodView]) -> Snapshot:
    """The ready nodes in the order of their names, with what is held on them.

    Devices and CPUs of pods that carry no hint are taken from the lowest free numbers: only how
    many are left matters then.
    """
    usable = sorted((view.node for view in nodes if view.ready), key=lambda node: node.name)
    by_name = {node.name: node for node in usable}
    held: dict[str, list[PodView]] = {}
    for pod in pods:
        if pod.node in by_name and not pod.over:
            held.setdefault(pod.node, []).append(pod)
    use = {name: _use(by_name[name], mine) for name, mine in held.items()}
    return Snapshot(tuple(usable), use)


def _use(node: Node, pods: list[PodView]) -> NodeUse:
    resources = sum((pod.resources for pod in pods), Resources())
    gpus = {gpu for pod in pods for gpu in pod.gpus}
    unnamed = sum(pod.resources.gpus for pod in pods if not pod.gpus)
    spare = (gpu.index for gpu in node.gpus if gpu.index not in gpus)
    gpus |= {index for index, _ in zip(spare, range(unnamed), strict=False)}
    return NodeUse(
        resources=resources,
        cpus=frozenset(cpu for pod in pods for cpu in pod.cpus),
        gpus=frozenset(gpus),
        ports=frozenset(port for pod in pods for port in pod.host_ports),
        sharers=sum(1 for pod in pods if not pod.cpus),
    )
