"""Minus one where a share of a GPU would open a card that nobody shares yet."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("shares")
def shares(want: Want, board: Board, rows: Rows) -> Values | float:
    if not want.gpu_share:
        return 0.0
    pool = board.layout.pool
    before = board.free.state[rows]
    after = pool.after(before, want)  # may add states, and with them replace the array
    whole = pool.whole_gpus
    return np.subtract(whole[after], whole[before], dtype=np.float64)
