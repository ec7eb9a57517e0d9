"""Minus one on a node with devices, for a member that asks for none: devices without CPUs and
memory beside them are of no use to anybody."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import Scope, score_rule
from mooring.brain.want import Want


@score_rule("spare-gpus", Scope.FIXED)
def spare_gpus(want: Want, board: Board, rows: Rows) -> Values | float:
    if want.gpus or not board.layout.gpus.any():
        return 0.0
    return -(board.layout.gpus[rows] > 0).astype(np.float64)
