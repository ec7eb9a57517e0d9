"""Minus the NUMA cells beyond the first that its own CPUs and devices would come from."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("numa")
def numa(want: Want, board: Board, rows: Rows) -> Values | float:
    if not want.cuts:
        return 0.0
    cells = board.layout.pool.cells(board.free.state[rows], want)
    return np.subtract(1.0, cells, dtype=np.float64)
