"""A node's CPUs as bit sets: what the kubelet asks of its CPU topology, answered in a few µs.

CPU sets are integers with one bit a CPU, so that "which CPUs of this cell are free" is one `&`
whatever the size of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from mooring.model.cluster import Cpu, Gpu, Node

Key = TypeVar("Key", bound=Hashable)

#: Machines of one group share their tuple of CPUs, so few layouts serve many nodes.
_MOST_KEPT = 1024


@dataclass(frozen=True)
class Leaf:
    """A group of CPUs at the lower of the two levels above cores, with its cores by number."""

    mask: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class L3Cache:
    """The CPUs of one cell that share an L3 cache, with their cores by number."""

    mask: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Branch:
    """A group of CPUs at the upper level, and the leaves that have CPUs in it, by number."""

    mask: int
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True)
class CpuLayout:
    """`cells` and `sockets` are in the order of their numbers; bit i of a cell set is `cells[i]`.

    `cpus_per_core` and `cpus_per_socket` are averages rounded down, as the kubelet has them: a
    core or socket of another size is never taken as a whole.
    """

    every_cpu: int
    cell_ids: tuple[int, ...]
    cells: tuple[int, ...]
    sockets: tuple[int, ...]
    branches: tuple[Branch, ...]
    cells_first: bool
    cpus_per_core: int
    cpus_per_socket: int
    smallest_cell: int
    caches: dict[int, tuple[L3Cache, ...]]
    """CPUs of a cell -> its L3 caches by number."""
    cell_sizes: tuple[int, ...]
    gpus_in_cell: tuple[int, ...]
    """Devices of each cell, healthy or not."""

    def whole_cores(self, cpus: int) -> int:
        """Those of `cpus` that lie in cores of which every CPU is among them."""
        found = 0
        for branch in self.branches:
            if not branch.mask & cpus:
                continue
            for leaf in branch.leaves:
                if leaf.mask & cpus == leaf.mask:
                    found |= leaf.mask
                    continue
                for core in leaf.cores:
                    if core & cpus == core:
                        found |= core
        return found

    def in_cells(self, cell_set: int) -> int:
        """The CPUs of these cells."""
        found = 0
        for bit, cell in enumerate(self.cells):
            if cell_set >> bit & 1:
                found |= cell
        return found


def to_bits(ids: Iterable[int]) -> int:
    bits = 0
    for number in ids:
        bits |= 1 << number
    return bits


def to_ids(bits: int) -> list[int]:
    return [number for number, digit in enumerate(bin(bits)[:1:-1]) if digit == "1"]


_kept: dict[tuple[int, int], tuple[tuple[Cpu, ...], tuple[Gpu, ...], CpuLayout]] = {}


def layout_of(node: Node) -> CpuLayout:
    """The node's layout; kept by the identity of its parts, which are never changed."""
    key = (id(node.cpus), id(node.gpus))
    known = _kept.get(key)
    # The entry holds the tuples themselves, so that their identities cannot be used again.
    if known is not None and known[0] is node.cpus and known[1] is node.gpus:
        return known[2]
    layout = _build(node)
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[key] = (node.cpus, node.gpus, layout)
    return layout


def threads_per_core(node: Node) -> int:
    return layout_of(node).cpus_per_core


def _build(node: Node) -> CpuLayout:
    cpus = node.cpus
    cells = _grouped(cpus, lambda cpu: cpu.cell)
    sockets = _grouped(cpus, lambda cpu: cpu.socket)
    cores = sorted(
        _grouped(cpus, lambda cpu: (cpu.socket, cpu.core)).values(), key=lambda core: core & -core
    )
    # A cell may have devices and no CPU of its own.
    cell_ids = tuple(sorted(cells.keys() | {gpu.cell for gpu in node.gpus}))
    cell_masks = tuple(cells.get(cell, 0) for cell in cell_ids)
    socket_masks = tuple(mask for _, mask in sorted(sockets.items()))
    cells_first = len(sockets) >= len(cells)
    uppers, lowers = socket_masks, cell_masks
    if cells_first:
        uppers, lowers = lowers, uppers
    leaves = tuple(Leaf(mask, tuple(core for core in cores if core & mask)) for mask in lowers)
    caches: dict[int, list[L3Cache]] = {mask: [] for mask in cell_masks}
    for (cell, _), mask in sorted(_grouped(cpus, lambda cpu: (cpu.cell, cpu.l3)).items()):
        inside = tuple(core for core in cores if core & mask)
        caches[cells[cell]].append(L3Cache(mask, inside))
    return CpuLayout(
        every_cpu=to_bits(cpu.id for cpu in cpus),
        cell_ids=cell_ids,
        cells=cell_masks,
        sockets=socket_masks,
        branches=tuple(
            Branch(mask, tuple(leaf for leaf in leaves if leaf.mask & mask)) for mask in uppers
        ),
        cells_first=cells_first,
        cpus_per_core=max(1, len(cpus) // max(1, len(cores))),
        cpus_per_socket=len(cpus) // max(1, len(sockets)),
        smallest_cell=min((mask.bit_count() for mask in cells.values()), default=0),
        caches={mask: tuple(found) for mask, found in caches.items()},
        cell_sizes=tuple(mask.bit_count() for mask in cell_masks),
        gpus_in_cell=tuple(sum(gpu.cell == cell for gpu in node.gpus) for cell in cell_ids),
    )


def _grouped(cpus: Iterable[Cpu], key: Callable[[Cpu], Key]) -> dict[Key, int]:
    groups: dict[Key, int] = {}
    for cpu in cpus:
        group = key(cpu)
        groups[group] = groups.get(group, 0) | 1 << cpu.id
    return groups
