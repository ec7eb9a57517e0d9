"""A picture of nodes: sockets, cells, cores with their threads, GPUs, and who holds what.

One model for both drawings (a terminal here, SVG in `nodemap_svg`), so that they say the same.
Every holder of a node gets a letter; threads and devices carry the letter of their holder.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mooring.model.cluster import Cpu, Gpu, Node, NodeUse, Snapshot, format_cpus
from mooring.model.plan import Plan
from mooring.model.resources import format_gpus, format_memory

FREE, RESERVED, TAKEN, BROKEN = "·", "R", "x", "!"
MEANING = {
    FREE: "free or shared",
    RESERVED: "kept by the kubelet",
    TAKEN: "held by others",
    BROKEN: "broken",
}
#: Letters that do not look like one of the marks above.
_LETTERS = [c for c in string.ascii_uppercase + string.ascii_lowercase if c not in "Rx"]
#: A node with more holders than letters shows the last ones alike.
_CROWD = "+"
_STYLES = ("cyan", "yellow", "green", "magenta", "blue", "red")
_CORES_A_LINE = 16
_MOST_NODES = 20


@dataclass(frozen=True)
class MemberOnNode:
    """A member on a node; one that is not `exclusive` has no CPUs of its own."""

    letter: str
    name: str
    cpus: tuple[int, ...]
    gpus: tuple[int, ...]
    exclusive: bool
    gpu_share_millis: int = 0


@dataclass(frozen=True)
class NodeMap:
    """`cpu_marks` says a letter or a mark for each CPU, `gpu_parts` for each device who holds how
    many thousandths of it, what is free last."""

    node: Node
    holders: tuple[MemberOnNode, ...]
    cpu_marks: Mapping[int, str]
    gpu_parts: Mapping[int, tuple[tuple[str, int], ...]]

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks that appear and are not letters of holders."""
        used = {mark for parts in self.gpu_parts.values() for mark, _ in parts}
        used.update(self.cpu_marks.values())
        return tuple(mark for mark in MEANING if mark in used)

    @property
    def title(self) -> str:
        gpus = f", {len(self.node.gpus)} GPUs" if self.node.gpus else ""
        memory = format_memory(self.node.memory_bytes)
        return f"{self.node.name}: {len(self.node.cpus)} CPUs{gpus}, {memory}"


@dataclass(frozen=True)
class CellMap:
    """One NUMA cell: its cores by L3 group, each a tuple of threads, and its devices."""

    socket: int
    cell: int
    l3_groups: tuple[tuple[tuple[Cpu, ...], ...], ...]
    gpus: tuple[Gpu, ...]


def node_maps(snapshot: Snapshot, plans: Sequence[Plan]) -> tuple[NodeMap, ...]:
    """The nodes that these plans use, in the order of the cluster."""
    holders: dict[str, list[MemberOnNode]] = {}
    for plan in plans:
        for placement in plan.placements:
            slot = placement.slot
            there = holders.setdefault(slot.node, [])
            name = placement.member.name
            there.append(
                MemberOnNode(
                    _LETTERS[len(there)] if len(there) < len(_LETTERS) else _CROWD,
                    f"{plan.job}/{name}" if len(plans) > 1 else name,
                    slot.cpus,
                    slot.gpus,
                    slot.exclusive,
                    slot.gpu_share_millis,
                )
            )
    return tuple(
        _map_of(node, snapshot, tuple(holders[node.name]))
        for node in snapshot.nodes
        if node.name in holders
    )


def _map_of(node: Node, snapshot: Snapshot, holders: tuple[MemberOnNode, ...]) -> NodeMap:
    use = snapshot.use_of(node.name)
    reserved = node.kubelet.reserved_cpus if node.kubelet is not None else frozenset()
    cpu_marks = {cpu.id: RESERVED if cpu.id in reserved else FREE for cpu in node.cpus}
    cpu_marks.update((cpu, TAKEN) for cpu in use.cpus if cpu in cpu_marks)
    for holder in holders:
        if holder.exclusive:
            cpu_marks.update((cpu, holder.letter) for cpu in holder.cpus)
    parts = {gpu.index: _parts_of(gpu, use, holders) for gpu in node.gpus}
    return NodeMap(node, holders, cpu_marks, parts)


def _parts_of(
    gpu: Gpu, use: NodeUse, holders: Sequence[MemberOnNode]
) -> tuple[tuple[str, int], ...]:
    if not gpu.healthy:
        return ((BROKEN, 1000),)
    if gpu.index in use.gpus:
        return ((TAKEN, 1000),)
    taken = dict(use.gpu_shares).get(gpu.index, 0)
    parts = [(TAKEN, taken)] if taken else []
    parts += [
        (holder.letter, holder.gpu_share_millis or 1000)
        for holder in holders
        if gpu.index in holder.gpus
    ]
    free = 1000 - sum(millis for _, millis in parts)
    return (*parts, (FREE, free)) if free > 0 else tuple(parts)


def cells_of(node: Node) -> tuple[CellMap, ...]:
    """Cells in the order of sockets; cores and threads in the order of their numbers."""
    cores: dict[tuple[int, int, int, int], list[Cpu]] = {}
    for cpu in sorted(node.cpus, key=lambda cpu: cpu.id):
        cores.setdefault((cpu.socket, cpu.cell, cpu.l3, cpu.core), []).append(cpu)
    caches: dict[tuple[int, int, int], list[tuple[Cpu, ...]]] = {}
    for (socket, cell, l3, _), threads in cores.items():
        caches.setdefault((socket, cell, l3), []).append(tuple(threads))
    cells: dict[tuple[int, int], list[tuple[tuple[Cpu, ...], ...]]] = {}
    for (socket, cell, _), group in sorted(caches.items()):
        cells.setdefault((socket, cell), []).append(tuple(group))
    # A device may hang off a cell that has no CPU here.
    for gpu in node.gpus:
        if all(cell != gpu.cell for _, cell in cells):
            cells[0, gpu.cell] = []
    return tuple(
        CellMap(
            socket,
            cell,
            tuple(groups),
            tuple(gpu for gpu in node.gpus if gpu.cell == cell and _first(cells, socket, cell)),
        )
        for (socket, cell), groups in cells.items()
    )


def _first(cells: Mapping[tuple[int, int], object], socket: int, cell: int) -> bool:
    """A cell above several sockets is drawn in each of them; its devices are drawn once."""
    return socket == min(s for s, c in cells if c == cell)


def holding(holder: MemberOnNode) -> str:
    """`CPUs 0-3,8-11, GPU 1`, or what it shares."""
    cpus = format_cpus(holder.cpus)
    said = f"CPUs {cpus}" if holder.exclusive else f"shares CPUs {cpus}"
    if holder.gpu_share_millis:
        return f"{said}, {format_gpus(holder.gpu_share_millis)} of GPU {holder.gpus[0]}"
    return f"{said}, GPUs {format_cpus(holder.gpus)}" if holder.gpus else said


def draw(maps: Sequence[NodeMap]) -> RenderableType:
    """The maps for a terminal, one frame a node."""
    parts: list[RenderableType] = [_frame(node_map) for node_map in maps[:_MOST_NODES]]
    if len(maps) > _MOST_NODES:
        parts.append(Text(f"… and {len(maps) - _MOST_NODES} more nodes", style="dim"))
    return Group(*parts)


def _frame(node_map: NodeMap) -> Panel:
    styles = {
        holder.letter: f"bold {_STYLES[index % len(_STYLES)]}"
        for index, holder in enumerate(node_map.holders)
    }
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in ("socket", "cell"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("cores", no_wrap=True)
    if node_map.node.gpus:
        table.add_column("GPUs", no_wrap=True)
    table.add_column("CPUs", style="dim")
    last_socket: int | None = None
    for cell in cells_of(node_map.node):
        row: list[RenderableType] = [
            "" if cell.socket == last_socket else str(cell.socket),
            str(cell.cell),
            _cores(cell, node_map, styles),
        ]
        if node_map.node.gpus:
            row.append(_gpus(cell, node_map, styles))
        ids = {cpu.id for group in cell.l3_groups for core in group for cpu in core}
        table.add_row(*row, format_cpus(ids))
        last_socket = cell.socket
    legend = [
        Text.assemble((holder.letter, styles[holder.letter]), f" {holder.name}: {holding(holder)}")
        for holder in node_map.holders
    ]
    marks = Text("  ".join(f"{mark} {MEANING[mark]}" for mark in node_map.marks), style="dim")
    inside = Group(table, *legend, marks)
    return Panel(inside, title=Text(node_map.title), title_align="left", expand=False)


def _cores(cell: CellMap, node_map: NodeMap, styles: Mapping[str, str]) -> Text:
    """Threads of a core side by side, cores apart, L3 groups divided by a bar."""
    text = Text()
    drawn = 0
    for index, group in enumerate(cell.l3_groups):
        if index:
            text.append("\n" if drawn + len(group) > _CORES_A_LINE else "│ ", "dim")
            drawn = 0 if drawn + len(group) > _CORES_A_LINE else drawn
        for core in group:
            if drawn == _CORES_A_LINE:
                text.append("\n")
                drawn = 0
            for cpu in core:
                mark = node_map.cpu_marks[cpu.id]
                text.append(mark, styles.get(mark, "dim"))
            text.append(" ")
            drawn += 1
    return text


def _gpus(cell: CellMap, node_map: NodeMap, styles: Mapping[str, str]) -> Text:
    text = Text()
    for gpu in cell.gpus:
        text.append(f"{gpu.index}:", "dim")
        for mark, _ in node_map.gpu_parts[gpu.index]:
            text.append(mark, styles.get(mark, "dim"))
        text.append(" ")
    return text
