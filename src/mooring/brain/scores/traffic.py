"""Minus the load that the node's NIC would carry with the member there.

One is what a lone server (or a lone member of a ring) has to carry over the slowest NIC.
"""

from __future__ import annotations

from mooring.brain import traffic
from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("traffic")
def load(want: Want, board: Board, rows: Rows) -> Values | float:
    if board.gang.traffic is None:
        return 0.0
    return -traffic.crossing(board, rows, want.role) / board.layout.nic_speed[rows]
