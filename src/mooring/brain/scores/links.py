"""Minus the groups of linked devices (NVLink) beyond the first that its devices would come from."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("links")
def links(want: Want, board: Board, rows: Rows) -> Values | float:
    if want.gpus < 2:
        return 0.0
    groups = board.layout.pool.links(board.free.state[rows], want)
    return np.subtract(1.0, groups, dtype=np.float64)
