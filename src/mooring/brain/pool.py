"""States of nodes' CPUs and devices, each known once: who takes what from where is looked up.

A state is a kind of hardware and what of it is free. Thousands of nodes are in a few states, and
a member of one kind leads from one state to one other, so that a cluster is one array of state
numbers and placing is indexing. States are only ever added, because
copies of a cluster share one pool; a cluster that has seen too many goes on with a pool of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.brain.shares import Left, Share, between, given_back, room, taken
from mooring.brain.topology import Topology
from mooring.brain.want import Want
from mooring.model.cluster import Cpu, Gpu, KubeletPolicy, Node

# What a kubelet would do is imported by who asks: this machine has none.
if TYPE_CHECKING:
    from mooring.brain.kubelet import KubeletAdmission, KubeletRejection

Numbers = NDArray[np.int32]

Hardware = tuple[tuple[Cpu, ...], tuple[Gpu, ...], KubeletPolicy | None]

_UNKNOWN = -1
REJECTED = -2
_FIRST_CAPACITY = 256
#: Only kept to be quick: beyond it they are worked out anew.
_MOST_CUTS = 100_000


class Allotment(NamedTuple):
    """The CPUs of a member's own with their cells, and its devices."""

    cpus: tuple[int, ...]
    cells: tuple[int, ...]
    gpus: tuple[int, ...]
    gpu_share_millis: int = 0


class _State(NamedTuple):
    """A kind of hardware, and what of it is free: CPUs and whole devices as masks, and what is
    left of shared devices."""

    topology: int
    cpus: int
    gpus: int
    left: Left = ()


class _Own(NamedTuple):
    """What a member takes: masks of CPUs and whole devices, or a share of one."""

    cpus: int
    gpus: int
    share: Share | None = None


def _numbers(capacity: int) -> Numbers:
    return np.full(capacity, _UNKNOWN, dtype=np.int32)


@dataclass
class _Table:
    """For one kind of want, by state: the state that it leads to, the cells that it cuts from, and
    how far its devices are from being linked to each other."""

    after: Numbers = field(default_factory=lambda: _numbers(_FIRST_CAPACITY))
    cells: Numbers = field(default_factory=lambda: _numbers(_FIRST_CAPACITY))
    links: Numbers = field(default_factory=lambda: _numbers(_FIRST_CAPACITY))


class Pool:
    def __init__(self) -> None:
        self.free_cpus: Numbers = _numbers(_FIRST_CAPACITY)
        self._topologies: list[Topology] = []
        self._kubelets: list[Node | None] = []
        self._topology_ids: dict[Hardware, int] = {}
        self._seen: dict[tuple[int, int, int], tuple[object, int]] = {}
        self._states: list[_State] = []
        self._numbers: dict[_State, int] = {}
        #: Is any device shared in any state? As long as none is, nobody needs to ask.
        self.shares = False
        #: By state: whole devices, and of shared ones the sum and the largest of what is left.
        self.whole_gpus: Numbers = _numbers(_FIRST_CAPACITY)
        self.left_millis: Numbers = _numbers(_FIRST_CAPACITY)
        self.largest_left: Numbers = _numbers(_FIRST_CAPACITY)
        self._cuts: dict[tuple[int, int], Allotment] = {}
        self._tables: dict[tuple[int, int, int, int], _Table] = {}

    def __len__(self) -> int:
        """How many states are known."""
        return len(self._states)

    def renewed(self, states: Numbers) -> tuple[Pool, Numbers]:
        """A pool of the same hardware that knows nothing but these states, and their numbers there.

        Those who use this one keep it: their numbers stay what they are.
        """
        fresh = Pool()
        fresh._topologies = self._topologies
        fresh._kubelets = self._kubelets
        fresh._topology_ids = self._topology_ids
        fresh._seen = self._seen
        kept, which = np.unique(states, return_inverse=True)
        numbers = [fresh.state(*self._states[state]) for state in kept.tolist()]
        return fresh, np.array(numbers, dtype=np.int32)[which]

    def topology_id(self, node: Node) -> int:
        # Most clusters share the tuples between nodes; hashing hundreds of CPUs is the slow part.
        address = (id(node.cpus), id(node.gpus), id(node.kubelet))
        seen = self._seen.get(address)
        if seen is not None:
            return seen[1]
        key = (node.cpus, node.gpus, node.kubelet)
        number = self._topology_ids.get(key)
        if number is None:
            number = len(self._topologies)
            self._topology_ids[key] = number
            self._topologies.append(Topology(node.cpus, node.gpus))
            self._kubelets.append(node if node.kubelet else None)
        self._seen[address] = (key, number)  # kept alive, so that the address stays theirs
        return number

    def topology(self, state: int) -> Topology:
        return self._topologies[self._states[state][0]]

    def hardware(self, topology_id: int) -> Topology:
        return self._topologies[topology_id]

    def masks(self, state: int) -> tuple[int, int]:
        """The free CPUs and devices."""
        found = self._states[state]
        return found.cpus, found.gpus

    def left(self, state: int) -> Left:
        """What is left of the devices that are shared."""
        return self._states[state].left

    def state(self, topology_id: int, cpus: int, gpus: int, left: Left = ()) -> int:
        key = _State(topology_id, cpus, gpus, left)
        number = self._numbers.get(key)
        if number is None:
            number = len(self._states)
            if number == len(self.free_cpus):
                self._grow()
            self._numbers[key] = number
            self._states.append(key)
            self.free_cpus[number] = cpus.bit_count()
            self.whole_gpus[number] = gpus.bit_count()
            self.left_millis[number] = sum(rest for _, rest in left)
            self.largest_left[number] = max((rest for _, rest in left), default=0)
            self.shares = self.shares or bool(left)
        return number

    def given_back(self, state: int, cpus: int, gpus: int, share: Share | None = None) -> int:
        topology_id, free_cpus, free_gpus, left = self._states[state]
        if share is not None:
            left, free = given_back(left, share)
            gpus |= free << share.card
        return self.state(topology_id, free_cpus | cpus, free_gpus | gpus, left)

    def taken(self, state: int, cpus: int, gpus: int, share: Share | None = None) -> int:
        topology_id, free_cpus, free_gpus, left = self._states[state]
        if share is not None:
            left = taken(left, share)
            gpus |= 1 << share.card
        return self.state(topology_id, free_cpus & ~cpus, free_gpus & ~gpus, left)

    def undone(self, state: int, before: int, after: int) -> int:
        """A state in which what was taken between two others is free again."""
        return self.given_back(state, *self._difference(before, after))

    def room_for_shares(self, states: Numbers, millis: int) -> Numbers:
        """How many such shares the shared devices have room for."""
        known, places = np.unique(states, return_inverse=True)
        counts = [room(self._states[state].left, millis) for state in known.tolist()]
        return np.array(counts, dtype=np.int32)[places]

    def after(self, states: Numbers, want: Want) -> Numbers:
        """The states after one such member more has been cut out of each; it must fit."""
        table = self._table(want)
        found: Numbers = table.after[states]
        if (found < 0).any():
            for state in np.unique(states[found < 0]).tolist():
                own = self._cut(state, want)
                if own is None:
                    raise ValueError("taken from a node whose kubelet would not admit it")
                number = self.taken(state, *own)
                self._table(want).after[state] = number
            found = self._table(want).after[states]
        return found

    def cells(self, states: Numbers, want: Want) -> Numbers:
        """How many cells the member's own CPUs and devices would come from; `REJECTED` where the
        kubelet would not admit it."""
        table = self._table(want)
        found: Numbers = table.cells[states]
        if (found == _UNKNOWN).any():
            for state in np.unique(states[found == _UNKNOWN]).tolist():
                own = self._cut(state, want)
                hardware = self.topology(state)
                if own is None:
                    table.cells[state], table.links[state] = REJECTED, 0
                    continue
                devices = 1 << own.share.card if own.share is not None else own.gpus
                table.cells[state] = hardware.cells_of(own.cpus, devices)
                table.links[state] = _links(*hardware.links_of(devices))
            found = table.cells[states]
        return found

    def links(self, states: Numbers, want: Want) -> Numbers:
        """In hundredths: the groups of linked devices that the member's own would come from, and
        one for each switch, beyond the first."""
        self.cells(states, want)
        found: Numbers = self._table(want).links[states]
        return found

    def admission(self, state: int, want: Want) -> KubeletAdmission | KubeletRejection | None:
        """The kubelet's answer, on a node that has one."""
        topology_id, cpus, gpus, left = self._states[state]
        node = self._kubelets[topology_id]
        if node is None or node.kubelet is None:
            return None
        from mooring.brain.kubelet import Container, KubeletAdmission, admit

        hardware = self._topologies[topology_id]
        free = frozenset(hardware.cpu_ids(cpus))
        if not want.gpu_share:
            alone = want.exclusive or want.gpus > 0
            container = Container(want.cpu_millis, want.handed_cpus, want.gpus, alone)
            devices = frozenset(hardware.gpu_ids(gpus))
            return admit(node, free, devices, (container,), node.kubelet)
        # To the kubelet a share is one device; which card it is of, the device plugin says.
        container = Container(want.cpu_millis, want.whole_cpus, 1, want.exclusive)
        answer: KubeletAdmission | KubeletRejection | None = None
        for card in hardware.cards_for(cpus, gpus, left, want.whole_cpus, want.gpu_share):
            device = frozenset({hardware.gpus[card].index})
            answer = admit(node, free, device, (container,), node.kubelet)
            if isinstance(answer, KubeletAdmission):
                break
        return answer or admit(node, free, frozenset(), (container,), node.kubelet)

    def successors(self, want: Want) -> Callable[[int], int]:
        """`after` for one state at a time."""
        table = self._table(want)

        def successor(state: int) -> int:
            found = table.after.item(state)
            return found if found >= 0 else int(self.after(np.array([state]), want)[0])

        return successor

    def cut(self, before: int, after: int) -> Allotment:
        """What was taken between two states of one node."""
        found = self._cuts.get((before, after))
        if found is None:
            hardware = self.topology(before)
            cpus, gpus, share = self._difference(before, after)
            devices = 1 << share.card if share is not None else gpus
            found = Allotment(
                hardware.cpu_ids(cpus),
                hardware.cell_ids(cpus),
                hardware.gpu_ids(devices),
                share.millis if share is not None else 0,
            )
            if len(self._cuts) >= _MOST_CUTS:
                self._cuts.clear()
            self._cuts[before, after] = found
        return found

    def _difference(self, before: int, after: int) -> _Own:
        one, two = self._states[before], self._states[after]
        share = between(one.left, two.left)
        gpus = one.gpus & ~two.gpus
        if share is not None:
            gpus &= ~(1 << share.card)
        return _Own(one.cpus & ~two.cpus, gpus, share)

    def _cut(self, state: int, want: Want) -> _Own | None:
        topology_id, cpus, gpus, left = self._states[state]
        hardware = self._topologies[topology_id]
        share = want.gpu_share
        if self._kubelets[topology_id] is None:
            if not share:
                return _Own(*hardware.cut(cpus, gpus, want.whole_cpus, want.gpus))
            own, part = hardware.cut_share(cpus, gpus, left, want.whole_cpus, share)
            return _Own(own, 0, part)
        from mooring.brain.kubelet import KubeletAdmission

        answer = self.admission(state, want)
        if not isinstance(answer, KubeletAdmission):
            return None
        # CPUs that nobody asked for are not set aside, although the kubelet hands them out.
        own = hardware.cpu_mask(answer.cpus[0]) if want.exclusive else 0
        devices = hardware.gpu_mask(answer.gpus[0])
        if not share:
            return _Own(own, devices)
        return _Own(own, 0, Share(devices.bit_length() - 1, share))

    def _table(self, want: Want) -> _Table:
        key = (want.whole_cpus, want.gpus, want.gpu_share, want.handed_cpus)
        table = self._tables.get(key)
        if table is None:
            capacity = len(self.free_cpus)
            table = self._tables[key] = _Table(*(_numbers(capacity) for _ in range(3)))
        return table

    def _grow(self) -> None:
        more = len(self.free_cpus)
        self.free_cpus = np.concatenate([self.free_cpus, _numbers(more)])
        self.whole_gpus = np.concatenate([self.whole_gpus, _numbers(more)])
        self.left_millis = np.concatenate([self.left_millis, _numbers(more)])
        self.largest_left = np.concatenate([self.largest_left, _numbers(more)])
        for table in self._tables.values():
            table.after = np.concatenate([table.after, _numbers(more)])
            table.cells = np.concatenate([table.cells, _numbers(more)])
            table.links = np.concatenate([table.links, _numbers(more)])


def _links(groups: int, switches: int) -> int:
    return 100 * max(0, groups - 1) + min(99, max(0, switches - 1))
