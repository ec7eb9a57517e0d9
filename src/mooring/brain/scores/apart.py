"""Preferences to be apart: the weight of each rule, lost where the unwanted role already is."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.scores.together import weight_beside
from mooring.brain.want import Want
from mooring.model.member import Relation


@score_rule("apart")
def apart(want: Want, board: Board, rows: Rows) -> Values | float:
    return -weight_beside(Relation.APART, want, board, rows)
