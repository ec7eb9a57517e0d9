"""Evenness: minus the members of this gang (or of this role) that are already there."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("spread")
def spread(want: Want, board: Board, rows: Rows) -> Values | float:
    return -board.members[rows].astype(np.float64)


@score_rule("spread-role")
def spread_role(want: Want, board: Board, rows: Rows) -> Values | float:
    return -board.role(want.role)[rows].astype(np.float64)
