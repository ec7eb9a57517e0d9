"""Minus the groups of linked devices (NVLink) beyond the first that its devices would come from.

A switch beyond the first counts as a hundredth: it decides between nodes that are otherwise equal.
"""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("links")
def links(want: Want, board: Board, rows: Rows) -> Values | float:
    if want.gpus < 2:
        return 0.0
    lost: Values = board.layout.pool.links(board.free.state[rows], want) / -100.0
    return lost
