"""Node maps as SVG: a frame a node, boxes for sockets, cells, L3 groups, cores and GPUs.

Stands alone (fonts and colours included), so that the file can be shown as a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from mooring.model.cluster import Cpu
from mooring.report.nodemap import (
    BROKEN,
    FREE,
    MEANING,
    RESERVED,
    TAKEN,
    CellMap,
    NodeMap,
    cells_of,
    holding,
)

_THREAD, _GAP, _PAD, _LINE = 15, 4, 8, 16
_CORES_A_ROW = 8
_GPU_WIDTH = 52
_MOST_NODES = 100
#: Okabe and Ito's palette: distinct for readers who do not see all colours.
_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#0072b2")
_MARK_COLOURS = {FREE: "#ffffff", RESERVED: "#9a9a9a", TAKEN: "#cfcfcf", BROKEN: "#ffffff"}
_STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:11px;fill:#222}"
    ".title{font-size:13px;font-weight:600}.mark{text-anchor:middle;font-size:10px}"
    ".frame{fill:#fff;stroke:#444}.socket{fill:#f4f4f4;stroke:#999}.cell{fill:#fff;stroke:#666}"
    ".l3{fill:#dfe9f2}.thread,.gpu{stroke:#777}"
)


@dataclass
class _Drawing:
    """Parts of a picture, and how much room they take."""

    parts: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def box(self, x: float, y: float, width: float, height: float, of: str, fill: str = "") -> None:
        paint = f' style="fill:{fill}"' if fill else ""
        self.parts.append(
            f'<rect class="{of}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'rx="2"{paint}/>'
        )

    def text(self, x: float, y: float, words: str, of: str = "") -> None:
        kind = f' class="{of}"' if of else ""
        self.parts.append(f'<text{kind} x="{x:g}" y="{y:g}">{escape(words)}</text>')

    def place(self, other: _Drawing, x: float, y: float) -> None:
        self.parts += [f'<g transform="translate({x:g} {y:g})">', *other.parts, "</g>"]
        self.width = max(self.width, x + other.width)
        self.height = max(self.height, y + other.height)


def svg(maps: Sequence[NodeMap]) -> str:
    """One picture of all these nodes, below each other."""
    page = _Drawing()
    for node_map in maps[:_MOST_NODES]:
        page.place(_node(node_map), _PAD, page.height + _PAD)
    if len(maps) > _MOST_NODES:
        page.text(_PAD, page.height + _LINE, f"… and {len(maps) - _MOST_NODES} more nodes")
        page.height += _LINE
    width, height = page.width + _PAD, page.height + _PAD
    names = ", ".join(node_map.node.name for node_map in maps[:_MOST_NODES])
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<title>Who holds what on {escape(names)}</title>",
            f"<style>{_STYLE}</style>",
            *page.parts,
            "</svg>\n",
        ]
    )


def _node(node_map: NodeMap) -> _Drawing:
    colours = dict(_MARK_COLOURS)
    for index, holder in enumerate(node_map.holders):
        colours[holder.letter] = _COLOURS[index % len(_COLOURS)]
    inside = _Drawing()
    sockets: dict[int, list[CellMap]] = {}
    for cell in cells_of(node_map.node):
        sockets.setdefault(cell.socket, []).append(cell)
    x = float(_PAD)
    for socket, cells in sorted(sockets.items()):
        drawn = _socket(socket, cells, node_map, colours)
        inside.place(drawn, x, _LINE + _PAD)
        x += drawn.width + _PAD
    inside.text(_PAD, _LINE, node_map.title, "title")
    y = inside.height + _PAD
    entries = [(holder.letter, f"{holder.name}: {holding(holder)}") for holder in node_map.holders]
    entries += [(mark, MEANING[mark]) for mark in node_map.marks]
    for letter, words in entries:
        _square(inside, _PAD, y, _THREAD, letter, colours, "thread")
        inside.text(_PAD + _THREAD + 6, y + 12, words)
        inside.width = max(inside.width, _PAD + _THREAD + 6 + 6.2 * len(words))
        y += _LINE + 2
    inside.width = max(inside.width, 7.5 * len(node_map.title)) + _PAD
    inside.height = y + _PAD
    framed = _Drawing(width=inside.width, height=inside.height)
    framed.box(0, 0, inside.width, inside.height, "frame")
    framed.parts += inside.parts
    return framed


def _socket(
    socket: int, cells: Sequence[CellMap], node_map: NodeMap, colours: dict[str, str]
) -> _Drawing:
    inside = _Drawing()
    for cell in cells:
        y = inside.height + _PAD if inside.height else _LINE + 4
        inside.place(_cell(cell, node_map, colours), _PAD, y)
    framed = _Drawing(width=inside.width + _PAD, height=inside.height + _PAD)
    framed.box(0, 0, framed.width, framed.height, "socket")
    framed.text(_PAD, 13, f"socket {socket}")
    framed.parts += inside.parts
    return framed


def _cell(cell: CellMap, node_map: NodeMap, colours: dict[str, str]) -> _Drawing:
    inside = _Drawing()
    y = float(_LINE + 4)
    for group in cell.l3_groups:
        drawn = _l3_group(group, node_map, colours)
        inside.place(drawn, _PAD, y)
        y += drawn.height + _GAP
    x = float(_PAD)
    for gpu in cell.gpus:
        if x + _GPU_WIDTH > max(inside.width, 200):
            x, y = float(_PAD), y + _THREAD + _GAP + 2
        parts = node_map.gpu_parts[gpu.index]
        left = x
        for mark, millis in parts:
            width = _GPU_WIDTH * millis / 1000
            inside.box(left, y, width, _THREAD + 2, "gpu", colours.get(mark, ""))
            left += width
        letters = "".join(mark for mark, _ in parts)
        inside.text(x + _GPU_WIDTH / 2, y + 12, f"GPU {gpu.index} {letters}", "mark")
        inside.width = max(inside.width, x + _GPU_WIDTH)
        inside.height = max(inside.height, y + _THREAD + 2)
        x += _GPU_WIDTH + _GAP
    framed = _Drawing(width=max(inside.width, 60) + _PAD, height=max(inside.height, y) + _PAD)
    framed.box(0, 0, framed.width, framed.height, "cell")
    framed.text(_PAD, 13, f"cell {cell.cell}")
    framed.parts += inside.parts
    return framed


def _l3_group(
    cores: Sequence[Sequence[Cpu]], node_map: NodeMap, colours: dict[str, str]
) -> _Drawing:
    drawing = _Drawing()
    squares = _Drawing()
    x, y = float(_GAP), float(_GAP)
    for number, core in enumerate(cores):
        if number and number % _CORES_A_ROW == 0:
            x, y = float(_GAP), y + _THREAD + _GAP
        for cpu in core:
            _square(squares, x, y, _THREAD, node_map.cpu_marks[cpu.id], colours, "thread", cpu.id)
            x += _THREAD
        drawing.width = max(drawing.width, x + _GAP)
        x += _GAP
    drawing.height = y + _THREAD + _GAP
    drawing.box(0, 0, drawing.width, drawing.height, "l3")
    drawing.parts += squares.parts
    return drawing


def _square(
    drawing: _Drawing,
    x: float,
    y: float,
    size: float,
    mark: str,
    colours: dict[str, str],
    of: str,
    cpu: int | None = None,
) -> None:
    """A thread; what it is called is shown when pointed at."""
    if cpu is not None:
        drawing.parts.append(f"<g><title>CPU {cpu}</title>")
    drawing.box(x, y, size, size, of, colours.get(mark, ""))
    drawing.text(x + size / 2, y + size - 4, mark, "mark")
    if cpu is not None:
        drawing.parts.append("</g>")
