"""Which CPUs and devices of a node a member gets, on bit masks.

The rules for CPUs are those of `cpus`, where they are easiest to read; masks make the same choice
about twenty times faster. Devices are few: `gpus` chooses them, and its answers are remembered,
because equal masks on equal hardware are the same question. Bit i stands for the i-th CPU (device)
by its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from mooring.brain import gpus as devices
from mooring.brain.cpus import core_of
from mooring.brain.shares import WHOLE, Left, Share
from mooring.model.cluster import Cpu, Gpu

Key = TypeVar("Key")
Kept = TypeVar("Kept")

#: Lists of numbers are remembered to be quick, not without end.
_MOST_KEPT = 10_000


@dataclass(frozen=True)
class Core:
    mask: int
    size: int


@dataclass(frozen=True)
class CacheGroup:
    """The CPUs of one L3 group within one cell."""

    key: int
    mask: int


@dataclass(frozen=True)
class Cell:
    key: int
    mask: int
    groups: tuple[CacheGroup, ...]


class Topology:
    """The hardware of all nodes that have exactly these CPUs and devices."""

    def __init__(self, cpus: tuple[Cpu, ...], gpus: tuple[Gpu, ...]) -> None:
        self.cpus = tuple(sorted(cpus, key=lambda cpu: cpu.id))
        self.gpus = tuple(sorted(gpus, key=lambda gpu: gpu.index))
        self.cpu_bit = {cpu.id: 1 << i for i, cpu in enumerate(self.cpus)}
        self.gpu_bit = {gpu.index: 1 << i for i, gpu in enumerate(self.gpus)}
        self.all_cpus = (1 << len(self.cpus)) - 1
        self.all_gpus = (1 << len(self.gpus)) - 1
        self.healthy_gpus = self.gpu_mask(tuple(gpu.index for gpu in gpus if gpu.healthy))
        self._cells = _cells(self.cpus)
        self._gpu_cells = _gpu_cells(self.gpus)
        masks: dict[tuple[int, int], int] = {}
        for i, cpu in enumerate(self.cpus):
            masks[core_of(cpu)] = masks.get(core_of(cpu), 0) | 1 << i
        cores = {key: Core(mask, mask.bit_count()) for key, mask in masks.items()}
        self._cores = tuple(cores[key] for key in sorted(cores))
        self._cores_by_cpu = tuple(cores.values())
        sizes = {core.size for core in self._cores}
        self._core_size = sizes.pop() if len(sizes) == 1 else 0
        self._cpu_ids: dict[int, tuple[int, ...]] = {}
        self._cell_ids: dict[int, tuple[int, ...]] = {}
        self._devices: dict[tuple[int, int, tuple[int, ...]], int] = {}

    def cpu_mask(self, ids: frozenset[int] | tuple[int, ...]) -> int:
        return _mask(self.cpu_bit, ids)

    def gpu_mask(self, indexes: frozenset[int] | tuple[int, ...]) -> int:
        return _mask(self.gpu_bit, indexes)

    def cpu_ids(self, mask: int) -> tuple[int, ...]:
        found = self._cpu_ids.get(mask)
        if found is None:
            found = tuple(cpu.id for i, cpu in enumerate(self.cpus) if mask >> i & 1)
            _keep(self._cpu_ids, mask, found)
        return found

    def gpu_ids(self, mask: int) -> tuple[int, ...]:
        return tuple(gpu.index for i, gpu in enumerate(self.gpus) if mask >> i & 1)

    def left_of(self, held: tuple[tuple[int, int], ...]) -> Left:
        """What is left of shared devices, of which this much is held; unhealthy ones have none."""
        found = []
        for index, millis in held:
            bit = self.gpu_bit.get(index, 0)
            if bit:
                rest = max(0, WHOLE - millis) if bit & self.healthy_gpus else 0
                found.append((bit.bit_length() - 1, rest))
        return tuple(sorted(found))

    def cell_ids(self, mask: int) -> tuple[int, ...]:
        """The cells of these CPUs."""
        found = self._cell_ids.get(mask)
        if found is None:
            found = tuple(cell.key for cell in self._cells if cell.mask & mask)
            _keep(self._cell_ids, mask, found)
        return found

    def cells_of(self, cpus: int, gpus: int) -> int:
        """How many cells these CPUs and devices come from."""
        keys = {cell.key for cell in self._cells if cell.mask & cpus}
        keys.update(key for key, mask in self._gpu_cells if mask & gpus)
        return len(keys)

    def links_of(self, gpus: int) -> tuple[int, int]:
        """How many groups of devices with fast links between them, and how many switches."""
        return devices.links([gpu for i, gpu in enumerate(self.gpus) if gpus >> i & 1])

    def cut(self, cpus: int, gpus: int, whole_cpus: int, count: int) -> tuple[int, int]:
        """Of these free ones, the CPUs and devices that such a member gets; there are enough."""
        own = self._choose_gpus(cpus, gpus, whole_cpus, count) if count else 0
        if not whole_cpus:
            return 0, own
        near = {key for key, mask in self._gpu_cells if mask & own}
        return self._choose_cpus(cpus, whole_cpus, near), own

    def cut_share(
        self, cpus: int, gpus: int, left: Left, whole_cpus: int, millis: int
    ) -> tuple[int, Share]:
        """The same for a share of one device: of a shared one if any has room."""
        card = self.cards_for(cpus, gpus, left, whole_cpus, millis)[0]
        if not whole_cpus:
            return 0, Share(card, millis)
        near = {self.gpus[card].cell}
        return self._choose_cpus(cpus, whole_cpus, near), Share(card, millis)

    def cards_for(
        self, cpus: int, gpus: int, left: Left, whole_cpus: int, millis: int
    ) -> list[int]:
        """The devices that could take such a share, the best first."""
        far = {cell.key for cell in self._cells if (cell.mask & cpus).bit_count() < whole_cpus}
        shared = sorted(
            (self.gpus[card].cell in far, rest, card) for card, rest in left if rest >= millis
        )
        found = [card for _, _, card in shared]
        if gpus:
            first = self._choose_gpus(cpus, gpus, whole_cpus, 1).bit_length() - 1
            found.append(first)
            found += [i for i in range(len(self.gpus)) if gpus >> i & 1 and i != first]
        return found

    def _choose_gpus(self, cpus: int, gpus: int, whole_cpus: int, count: int) -> int:
        # Beyond what the member asks for, it does not matter how many CPUs a cell has free.
        room = {
            cell.key: min(whole_cpus, (cell.mask & cpus).bit_count()) if whole_cpus else 0
            for cell in self._cells
        }
        question = (gpus, count, tuple(room.values()))
        known = self._devices.get(question)
        if known is None:
            free = [gpu for i, gpu in enumerate(self.gpus) if gpus >> i & 1]
            chosen = devices.choose(free, count, room, whole_cpus)
            known = self.gpu_mask(tuple(gpu.index for gpu in chosen))
            _keep(self._devices, question, known)
        return known

    def _choose_cpus(self, free: int, count: int, near: set[int]) -> int:
        left = {cell.key: (cell.mask & free, cell) for cell in self._cells if cell.mask & free}
        taken = 0
        while count:
            fitting = [key for key, (mask, _) in left.items() if mask.bit_count() >= count]
            if fitting:
                key = fitting[0] if len(fitting) == 1 else self._best(left, fitting, count, near)
                mask, cell = left[key]
                return taken | self._from_groups(mask, cell, count)
            key = max(left, key=lambda key: (key in near, left[key][0].bit_count(), -key))
            mask, _ = left.pop(key)
            taken |= mask
            count -= mask.bit_count()
        return taken

    def _best(
        self, left: dict[int, tuple[int, Cell]], fitting: list[int], count: int, near: set[int]
    ) -> int:
        return min(
            fitting,
            key=lambda key: (
                key not in near,
                self._broken(left[key][0], count),
                left[key][0].bit_count(),
                key,
            ),
        )

    def _from_groups(self, free: int, cell: Cell, count: int) -> int:
        if len(cell.groups) == 1:
            return self._from_cores(free, count)
        left = {group.key: group.mask & free for group in cell.groups if group.mask & free}
        taken = 0
        while count:
            fitting = [key for key, mask in left.items() if mask.bit_count() >= count]
            if fitting:
                key = min(
                    fitting,
                    key=lambda key: (
                        self._broken(left[key], count),
                        left[key].bit_count(),
                        key,
                    ),
                )
                return taken | self._from_cores(left[key], count)
            key = max(left, key=lambda key: (left[key].bit_count(), -key))
            mask = left.pop(key)
            taken |= mask
            count -= mask.bit_count()
        return taken

    def _broken(self, free: int, count: int) -> int:
        """How many of `count` CPUs taken from here would share their core with somebody else."""
        size = self._core_size
        if size == 1:
            return 0
        if size:
            whole = sum(core.mask & free == core.mask for core in self._cores)
            return count - size * min(whole, count // size)
        here = [core for core in self._cores_by_cpu if core.mask & free]
        # In the order of the first free CPU of each core, as its siblings are met.
        here.sort(key=lambda core: (core.mask & free) & -(core.mask & free))
        in_whole = 0
        for core in here:
            if core.mask & free == core.mask and in_whole + core.size <= count:
                in_whole += core.size
        return count - in_whole

    def _from_cores(self, free: int, count: int) -> int:
        if self._core_size == 1:
            return self._lowest_by_core(free, count)
        taken = 0
        broken: list[tuple[int, Core]] = []
        for rank, core in enumerate(self._cores):
            here = core.mask & free
            if not here:
                continue
            if here == core.mask and core.size <= count:
                taken |= here
                count -= core.size
            else:
                broken.append((rank, core))
        while count:
            missing = count
            rank, core = min(
                broken,
                key=lambda one: (
                    one[1].mask & free == one[1].mask,
                    (one[1].mask & free).bit_count() < missing,
                    abs((one[1].mask & free).bit_count() - missing),
                    one[0],
                ),
            )
            broken.remove((rank, core))
            part = _lowest(core.mask & free, missing)
            taken |= part
            count -= part.bit_count()
        return taken

    def _lowest_by_core(self, free: int, count: int) -> int:
        taken = 0
        for core in self._cores:
            if core.mask & free:
                taken |= core.mask
                count -= 1
                if not count:
                    break
        return taken


def _keep(kept: dict[Key, Kept], key: Key, found: Kept) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = found


def _lowest(mask: int, count: int) -> int:
    taken = 0
    for _ in range(min(count, mask.bit_count())):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken


def _mask(bits: dict[int, int], keys: frozenset[int] | tuple[int, ...]) -> int:
    mask = 0
    for key in keys:
        mask |= bits.get(key, 0)
    return mask


def _cells(cpus: tuple[Cpu, ...]) -> tuple[Cell, ...]:
    masks: dict[int, dict[int, int]] = {}
    for i, cpu in enumerate(cpus):
        groups = masks.setdefault(cpu.cell, {})
        groups[cpu.l3] = groups.get(cpu.l3, 0) | 1 << i
    return tuple(
        Cell(
            key,
            sum(groups.values()),
            tuple(CacheGroup(l3, groups[l3]) for l3 in sorted(groups)),
        )
        for key, groups in sorted(masks.items())
    )


def _gpu_cells(gpus: tuple[Gpu, ...]) -> tuple[tuple[int, int], ...]:
    masks: dict[int, int] = {}
    for i, gpu in enumerate(gpus):
        masks[gpu.cell] = masks.get(gpu.cell, 0) | 1 << i
    return tuple(sorted(masks.items()))
