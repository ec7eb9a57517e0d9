"""Minus what the member would add to the load of the node's NIC: less than nothing where it joins
those that it exchanges with.

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
    added = traffic.crossing(board, rows, want.role) - traffic.crossing(board, rows, None)
    return -added / board.layout.nic_speed[rows]
