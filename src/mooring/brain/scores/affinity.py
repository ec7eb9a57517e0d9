"""Preferred node affinity: the part of the member's preferences, by weight, that a node meets."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import Scope, score_rule
from mooring.brain.want import Want


@score_rule("affinity", Scope.FIXED)
def affinity(want: Want, board: Board, rows: Rows) -> Values | float:
    terms = want.wish.preferred
    weights = sum(term.weight for term in terms)
    if not weights:
        return 0.0
    met = [
        sum(term.weight for term in terms if term.matches(labels)) / weights
        for labels in board.layout.labels
    ]
    found: Values = np.array(met)[board.layout.label_class[rows]]
    return found
