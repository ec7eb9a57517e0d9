"""CPU sets: can the wanted CPUs be cut out of this node, and is one left for those who share?

Cells never refuse: a member that fits in none of them whole may span several, and the `numa`
score makes that the last choice.
"""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.filters.resources import CPU
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, add_filter
from mooring.brain.want import Want

OVERLAPPING = "its CPUs are shared with other virtual nodes"


def numa(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.exclusive:
        return {CPU: board.free_cpus(rows) == 0}
    overlapping = board.layout.overlapping[rows]
    missing = (board.spare_cpus(rows) < want.whole_cpus) & ~overlapping
    return {OVERLAPPING: overlapping, CPU: missing}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    row = slice(index, index + 1)
    if not want.exclusive:
        held = not board.free_cpus(row)[0]
        return (f"{CPU} (all its CPUs are held exclusively)",) if held else ()
    if board.layout.overlapping[index]:
        return (OVERLAPPING,)
    spare = max(0, int(board.spare_cpus(row)[0]))
    if want.whole_cpus > spare:
        return (f"{CPU} (has {spare} whole CPUs to give away)",)
    return ()


add_filter("numa", numa, why)
