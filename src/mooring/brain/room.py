"""One node while a plan is being made: what is free there, and what this gang has taken.

Amounts are kept as counts so that asking is cheap; which CPUs and devices exactly is decided
when a member is taken in, and undone exactly when it is put out again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mooring.brain import cpus, gpus
from mooring.brain.want import Want
from mooring.model.cluster import Cpu, Gpu, Node, NodeUse

#: On a node with this label the listed CPUs belong to other virtual nodes as well.
CPUS_LABEL = "mooring.dev/cpus"
OVERLAPPING = "overlapping"


@dataclass(frozen=True)
class Cut:
    """The CPUs that a member would hold for itself, and its devices."""

    cpus: tuple[Cpu, ...] = ()
    gpus: tuple[Gpu, ...] = ()

    @property
    def cells(self) -> tuple[int, ...]:
        cells = {cpu.cell for cpu in self.cpus} | {gpu.cell for gpu in self.gpus}
        return tuple(sorted(cells))


class Room:
    """`version` grows with every change: an answer about an older version is out of date."""

    def __init__(self, index: int, node: Node, use: NodeUse) -> None:
        self.index = index
        self.node = node
        self.version = 0
        self.cpu_millis = node.cpu_millis - use.resources.cpu_millis
        self.memory_bytes = node.memory_bytes - use.resources.memory_bytes
        self.cpus = {cpu.id: cpu for cpu in node.cpus if cpu.id not in use.cpus}
        self.gpus = {gpu.index: gpu for gpu in node.gpus if gpu.index not in use.gpus}
        #: Devices may be accounted for without saying which (`use.gpus` empty).
        self.gpu_count = min(len(self.gpus), len(node.gpus) - use.resources.gpus)
        self.ports = set(use.ports)
        #: What shared members of others ask for; theirs must stay possible.
        self.shared_millis = max(0, use.resources.cpu_millis - 1000 * len(use.cpus))
        self.shared_members = max(use.sharers, 1 if self.shared_millis else 0)
        self.members = 0
        self.roles: Counter[str] = Counter()
        self._core_sizes = cpus.core_sizes(node.cpus)
        self._free_in_cell = Counter(cpu.cell for cpu in self.cpus.values())

    @property
    def overlapping(self) -> bool:
        return (
            self.node.cpu_millis < 1000 * len(self.node.cpus)
            and self.node.labels.get(CPUS_LABEL) == OVERLAPPING
        )

    @property
    def spare_cpus(self) -> int:
        """CPUs that can be given away whole, with enough left for those who share the rest."""
        kept = max(-(-self.shared_millis // 1000), 1 if self.shared_members else 0)
        return len(self.cpus) - kept

    @property
    def shareable_millis(self) -> int:
        """What one more shared member may ask for."""
        return min(self.cpu_millis, 1000 * len(self.cpus) - self.shared_millis)

    def fits(self, want: Want) -> int:
        """How many members of this kind the free amounts allow for."""
        if want.exclusive:
            counts = [self.spare_cpus // want.whole_cpus, self.cpu_millis // want.cpu_millis]
        elif want.cpu_millis:
            counts = [self.shareable_millis // want.cpu_millis]
        else:
            counts = []
        if want.memory_bytes:
            counts.append(self.memory_bytes // want.memory_bytes)
        if want.gpus:
            counts.append(self.gpu_count // want.gpus)
        if want.ports:
            counts.append(0 if want.ports & self.ports else 1)
        if not counts:
            return 1_000_000
        return max(0, min(counts))

    def cells_needed(self, want: Want) -> int:
        """How many cells its own CPUs and devices would come from: `cut`, but cheaper."""
        if want.gpus:
            return len(self.cut(want).cells)
        missing, cells = want.whole_cpus, 0
        for count in sorted(self._free_in_cell.values(), reverse=True):
            if missing <= 0:
                break
            missing -= count
            cells += 1
        return cells

    def cut(self, want: Want) -> Cut:
        """The CPUs and devices that this member would get here now."""
        if not want.exclusive and not want.gpus:
            return Cut()
        free = tuple(self.cpus.values())
        devices: tuple[Gpu, ...] = ()
        if want.gpus:
            devices = gpus.choose(
                tuple(self.gpus.values()), want.gpus, self._free_in_cell, want.whole_cpus
            )
        if not want.exclusive:
            return Cut((), devices)
        near = frozenset(gpu.cell for gpu in devices)
        return Cut(cpus.choose(free, want.whole_cpus, self._core_sizes, near), devices)

    def take(self, want: Want) -> Cut:
        cut = self.cut(want)
        for cpu in cut.cpus:
            del self.cpus[cpu.id]
            self._free_in_cell[cpu.cell] -= 1
        for gpu in cut.gpus:
            del self.gpus[gpu.index]
        self._count(want, 1)
        self.ports |= want.ports
        return cut

    def put_out(self, want: Want, cut: Cut) -> None:
        for cpu in cut.cpus:
            self.cpus[cpu.id] = cpu
            self._free_in_cell[cpu.cell] += 1
        self.gpus.update((gpu.index, gpu) for gpu in cut.gpus)
        self._count(want, -1)
        self.ports -= want.ports

    def _count(self, want: Want, sign: int) -> None:
        self.version += 1
        self.members += sign
        self.roles[want.role] += sign
        self.cpu_millis -= sign * want.cpu_millis
        self.memory_bytes -= sign * want.memory_bytes
        self.gpu_count -= sign * want.gpus
        if not want.exclusive:
            self.shared_millis += sign * want.cpu_millis
            self.shared_members += sign
