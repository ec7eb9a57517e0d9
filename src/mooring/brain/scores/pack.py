"""Fewest nodes: first those that the gang already uses, then those that hold most of the role."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("pack")
def pack(want: Want, board: Board, rows: Rows) -> Values | float:
    return (board.members[rows] > 0).astype(np.float64)


@score_rule("holds-more")
def holds_more(want: Want, board: Board, rows: Rows) -> Values | float:
    """The part of the role that would fit here, 0..1."""
    size = board.sizes[want.role]
    held: Values = np.minimum(board.fits(want, rows), size) / size
    return held
