"""Prefer-avoid-pods: 0 on a node that asks to be spared the members of this job, otherwise 1."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("avoid")
def avoid(want: Want, board: Board, rows: Rows) -> Values | float:
    unwelcome = board.layout.avoids.get(board.gang.job)
    if unwelcome is None:
        return 1.0
    liked = np.ones(len(board.layout))
    liked[unwelcome] = 0.0
    return liked[rows]
