"""The nodes as arrays: what never changes (`ClusterLayout`) and what is free now (`Free`).

Labels and taints are numbered by class: nodes with equal ones are asked once.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.brain.attachments import Attachments
from mooring.brain.pool import Numbers, Pool
from mooring.brain.residents import Residents, on_node, settle
from mooring.brain.shares import WHOLE
from mooring.brain.storage import Catalogue
from mooring.brain.want import Want
from mooring.model.cluster import KubeletPolicy, Node, NodeUse, Snapshot, Taint
from mooring.model.resources import Counts, Resources
from mooring.model.topology_spread import HOSTNAME
from mooring.model.volumes import Storage

Amounts = NDArray[np.int64]
Mask = NDArray[np.bool_]
Values = NDArray[np.float64]
#: Node indexes, each at most once, or all nodes.
Rows = NDArray[np.intp] | slice
ALL = slice(None)

#: On a node with this label the listed CPUs belong to other virtual nodes as well.
CPUS_LABEL = "mooring.dev/cpus"
OVERLAPPING = "overlapping"
_NO_LIMIT = 1 << 40
#: What a layout that is used again and again may remember, before it is made anew.
_MOST_ANSWERS = 1024
_MOST_STATES = 65_536


@dataclass(frozen=True)
class Devices:
    """What a member may care about in a node's devices, besides which of them are free.

    `memory_bytes` is the least that one of the healthy has; 0 if that is unknown.
    """

    kinds: frozenset[str]
    memory_bytes: int
    healthy: int
    count: int


def devices_of(node: Node) -> Devices:
    healthy = [gpu for gpu in node.gpus if gpu.healthy]
    return Devices(
        frozenset(gpu.kind for gpu in node.gpus),
        min((gpu.memory_bytes for gpu in healthy), default=0),
        len(healthy),
        len(node.gpus),
    )


class ClusterLayout:
    def __init__(self, nodes: tuple[Node, ...], storage: Storage | None = None) -> None:
        self.nodes = nodes
        self.index = {node.name: index for index, node in enumerate(nodes)}
        self.pool = Pool()
        self.cpu_millis = _amounts([node.cpu_millis for node in nodes])
        self.memory_bytes = _amounts([node.memory_bytes for node in nodes])
        self.gpus = _amounts([sum(gpu.healthy for gpu in node.gpus) for node in nodes])
        #: Extended resources that any node has, by name.
        self.extended = _extended([dict(node.extended) for node in nodes])
        self.nic_speed = _relative([node.nic_mbps or 0 for node in nodes])
        #: Which nodes have a kubelet whose decisions are known; None if none has.
        kubelets = np.array([node.kubelet is not None for node in nodes], dtype=bool)
        self.kubelets: Mask | None = kubelets if kubelets.any() else None
        self.overlapping: Mask = np.array([_overlapping(node) for node in nodes], dtype=bool)
        self.overlaps = bool(self.overlapping.any())
        self.topology = [self.pool.topology_id(node) for node in nodes]
        labels: dict[frozenset[tuple[str, str]], int] = {}
        self.label_class: Numbers = np.array(
            [labels.setdefault(frozenset(node.labels.items()), len(labels)) for node in nodes],
            dtype=np.int32,
        )
        self.labels: list[Mapping[str, str]] = [dict(known) for known in labels]
        taints: dict[tuple[Taint, ...], int] = {}
        self.taint_class: Numbers = np.array(
            [taints.setdefault(node.taints, len(taints)) for node in nodes], dtype=np.int32
        )
        self.taints = list(taints)
        devices: dict[Devices, int] = {}
        classes: dict[int, int] = {}
        for node, topology in zip(nodes, self.topology, strict=True):
            if topology not in classes:
                classes[topology] = devices.setdefault(devices_of(node), len(devices))
        self.device_class: Numbers = np.array(
            [classes[topology] for topology in self.topology], np.int32
        )
        self.devices = list(devices)
        policies: dict[KubeletPolicy | None, int] = {}
        self.policy_class: Numbers = np.array(
            [policies.setdefault(node.kubelet, len(policies)) for node in nodes], dtype=np.int32
        )
        self.policies = list(policies)
        images: dict[Counts, int] = {}
        self.image_class: Numbers = np.array(
            [images.setdefault(node.images, len(images)) for node in nodes], dtype=np.int32
        )
        self.images = list(images)
        #: Job -> the nodes that had rather not take it.
        self.avoids: dict[str, list[int]] = {}
        for index, node in enumerate(nodes):
            for job in node.avoids:
                self.avoids.setdefault(job, []).append(index)
        #: What is known of volumes; None if nothing is.
        self.catalogue = (
            Catalogue(storage, [dict(known) for known in labels], self.label_class)
            if storage is not None
            else None
        )
        #: Driver -> how many volumes each node can attach.
        self.volume_limits = {
            driver: _amounts([dict(node.volume_limits).get(driver, _NO_LIMIT) for node in nodes])
            for driver in {driver for node in nodes for driver, _ in node.volume_limits}
        }
        #: Answers that rest on what nodes are, by rule and want: asked once, kept for later gangs.
        self.fixed_refusals: dict[tuple[tuple[str, ...], Want], Mask] = {}
        self.fixed_scores: dict[tuple[str, Want], Values | float] = {}
        self._domains: dict[str, tuple[Numbers, int]] = {}
        self._empty: Free | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def describes(self, nodes: tuple[Node, ...], storage: Storage | None) -> bool:
        """Is it of these very nodes, and small enough to be kept for them?"""
        return (
            storage is None
            and self.catalogue is None
            and len(nodes) == len(self.nodes)
            and all(map(operator.is_, nodes, self.nodes))
            and len(self.fixed_refusals) + len(self.fixed_scores) <= _MOST_ANSWERS
            and len(self.pool) <= _MOST_STATES
        )

    def over(self, pool: Pool) -> ClusterLayout:
        """The same nodes with states in another pool of the same hardware."""
        twin = copy(self)
        twin.pool = pool
        twin._empty = None
        return twin

    def domains(self, key: str) -> tuple[Numbers, int]:
        """By a label: the number of each node's domain (-1 without the label), and how many."""
        found = self._domains.get(key)
        if found is None:
            values: dict[str, int] = {}
            if key == HOSTNAME:
                names = [node.labels.get(key, node.name) for node in self.nodes]
                numbers = [values.setdefault(name, len(values)) for name in names]
                of = np.array(numbers, dtype=np.int32)
            else:
                by_class = [
                    values.setdefault(labels[key], len(values)) if key in labels else -1
                    for labels in self.labels
                ]
                of = np.array(by_class, dtype=np.int32)[self.label_class]
            found = self._domains[key] = (of, len(values))
        return found

    @property
    def empty(self) -> Free:
        """All nodes with nobody on them."""
        if self._empty is None:
            self._empty = free_of(self, Snapshot(self.nodes))
        return self._empty

    @property
    def nbytes(self) -> int:
        arrays = (
            self.cpu_millis,
            self.memory_bytes,
            self.gpus,
            self.overlapping,
            self.label_class,
            self.taint_class,
            self.device_class,
            self.policy_class,
            self.image_class,
            self.nic_speed,
        )
        return sum(array.nbytes for array in (*arrays, *self.extended.values()))


@dataclass
class Free:
    """`gpus` may be less than the devices not held: some uses do not say which they hold.

    `shared_millis` is what the members that share CPUs ask for; theirs must stay possible.
    """

    cpu_millis: Amounts
    memory_bytes: Amounts
    gpus: Amounts
    shared_millis: Amounts
    sharers: Amounts
    state: Numbers
    ports: dict[int, set[int]]
    """Port -> the nodes where it is in use."""
    extended: dict[str, Amounts]
    """What is left of each extended resource that any node has."""
    residents: Residents
    attachments: Attachments | None = None

    def copy(self) -> Free:
        ports = {port: set(nodes) for port, nodes in self.ports.items()}
        twin = self.over(ports)
        if self.attachments is not None:
            twin.attachments = self.attachments.copy()
        twin.residents = dict(self.residents)
        twin.extended = {name: amounts.copy() for name, amounts in self.extended.items()}
        return twin

    def over(self, ports: dict[int, set[int]]) -> Free:
        """A copy with these ports, which shares what few members ask for."""
        return Free(
            self.cpu_millis.copy(),
            self.memory_bytes.copy(),
            self.gpus.copy(),
            self.shared_millis.copy(),
            self.sharers.copy(),
            self.state.copy(),
            ports,
            self.extended,
            self.residents,
            self.attachments,
        )

    @contextmanager
    def untouched(self, nodes: NDArray[np.intp]) -> Iterator[None]:
        """What is taken from these nodes within is back afterwards."""
        every = [value for value in vars(self).values() if isinstance(value, np.ndarray)]
        every += self.extended.values()
        before = [values[nodes] for values in every]
        try:
            yield
        finally:
            for values, kept in zip(every, before, strict=True):
                values[nodes] = kept

    @property
    def nbytes(self) -> int:
        arrays = (self.cpu_millis, self.memory_bytes, self.gpus, self.shared_millis, self.sharers)
        more = self.extended.values()
        return sum(array.nbytes for array in (*arrays, *more)) + self.state.nbytes

    def ports_of(self, index: int) -> frozenset[int]:
        return frozenset(port for port, nodes in self.ports.items() if index in nodes)


def free_of(layout: ClusterLayout, snapshot: Snapshot) -> Free:
    pool = layout.pool
    uses = [snapshot.use_of(node.name) for node in layout.nodes]
    cpu_used = _amounts([use.resources.cpu_millis for use in uses])
    exclusive = _amounts([len(use.cpus) for use in uses])
    shared = np.maximum(0, cpu_used - 1000 * exclusive)
    states = []
    not_held = []
    ports: dict[int, set[int]] = {}
    for index, (topology_id, use) in enumerate(zip(layout.topology, uses, strict=True)):
        hardware = pool.hardware(topology_id)
        cpus = hardware.all_cpus & ~hardware.cpu_mask(use.cpus)
        gpus = hardware.healthy_gpus & ~hardware.gpu_mask(use.gpus)
        left = hardware.left_of(use.gpu_shares)
        for card, _ in left:
            gpus &= ~(1 << card)
        states.append(pool.state(topology_id, cpus, gpus, left))
        not_held.append(gpus.bit_count())
        for port in use.ports:
            ports.setdefault(port, set()).add(index)
    residents: Residents = {}
    for index, use in enumerate(uses):
        for labels, there in use.residents:
            settle(residents, [(labels, index)] * there, 1)
    attachments = None
    if layout.catalogue is not None:
        attachments = Attachments(layout.catalogue)
        for index, use in enumerate(uses):
            for volume, there in use.volumes:
                attachments.take([volume] * there, index)
    unused = _amounts(
        [_unused_gpus(node, use) for node, use in zip(layout.nodes, uses, strict=True)]
    )
    return Free(
        layout.cpu_millis - cpu_used,
        layout.memory_bytes - _amounts([use.resources.memory_bytes for use in uses]),
        np.minimum(_amounts(not_held), unused),
        shared,
        np.maximum(_amounts([use.sharers for use in uses]), shared > 0),
        np.array(states, dtype=np.int32),
        ports,
        {
            name: has - _amounts([use.resources.count(name) for use in uses])
            for name, has in layout.extended.items()
        },
        residents,
        attachments,
    )


def use_of(layout: ClusterLayout, free: Free, index: int) -> NodeUse:
    """The use of one node as a snapshot says it."""
    node = layout.nodes[index]
    state = int(free.state[index])
    hardware = layout.pool.topology(state)
    cpus, gpus = layout.pool.masks(state)
    left = layout.pool.left(state)
    shared = sum(1 << card for card, _ in left)
    return NodeUse(
        Resources(
            node.cpu_millis - int(free.cpu_millis[index]),
            node.memory_bytes - int(free.memory_bytes[index]),
            len(node.gpus) - int(free.gpus[index]),
            extended=tuple(
                (name, node.capacity.count(name) - int(has[index]))
                for name, has in free.extended.items()
            ),
            gpu_share_millis=-sum(rest for _, rest in left),
        ),
        frozenset(hardware.cpu_ids(hardware.all_cpus & ~cpus)),
        frozenset(hardware.gpu_ids(hardware.all_gpus & ~gpus & ~shared)),
        free.ports_of(index),
        int(free.sharers[index]),
        on_node(free.residents, index),
        tuple((hardware.gpus[card].index, WHOLE - rest) for card, rest in left),
        free.attachments.on_node(index) if free.attachments is not None else (),
    )


def _extended(nodes: list[dict[str, int]]) -> dict[str, Amounts]:
    names = sorted({name for has in nodes for name in has})
    return {name: _amounts([has.get(name, 0) for has in nodes]) for name in names}


def _unused_gpus(node: Node, use: NodeUse) -> int:
    """Devices that are neither held nor shared, by the amounts; a part of one counts as one."""
    if not use.resources.gpu_share_millis and not use.gpu_shares:
        return len(node.gpus) - use.resources.gpus
    whole_millis = use.resources.gpu_millis - sum(millis for _, millis in use.gpu_shares)
    return len(node.gpus) - len(use.gpu_shares) - max(0, -(-whole_millis // WHOLE))


def _amounts(values: list[int]) -> Amounts:
    return np.array(values, dtype=np.int64)


def _relative(speeds: list[int]) -> Values:
    """In units of the slowest known one; unknown ones count as the slowest."""
    slowest = min((speed for speed in speeds if speed), default=1)
    return np.array([max(speed, slowest) / slowest for speed in speeds], dtype=np.float64)


def _overlapping(node: Node) -> bool:
    return node.cpu_millis < 1000 * len(node.cpus) and node.labels.get(CPUS_LABEL) == OVERLAPPING
