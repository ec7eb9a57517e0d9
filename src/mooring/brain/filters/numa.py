"""CPU sets: can the wanted CPUs be cut out of this node, and is one left for those who share?

Cells never refuse: a member that fits in none of them whole may span several, and the `numa`
score makes that the last choice.
"""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import filter_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@filter_rule("numa")
def numa(want: Want, room: Room, board: Board) -> tuple[str, ...]:
    if not want.exclusive:
        return () if room.cpus else ("insufficient cpu (all its CPUs are held exclusively)",)
    if room.overlapping:
        return ("its CPUs are shared with other virtual nodes",)
    spare = max(0, room.spare_cpus)
    if want.whole_cpus > spare:
        return (f"insufficient cpu (has {spare} whole CPUs to give away)",)
    return ()
