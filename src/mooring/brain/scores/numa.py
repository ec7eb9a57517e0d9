"""Minus the NUMA cells beyond the first that its own CPUs and devices would come from."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@score_rule("numa")
def numa(want: Want, room: Room, board: Board) -> float:
    if not want.exclusive and not want.gpus:
        return 0
    return 1 - room.cells_needed(want)
