"""Pipeline spread: minus the members of the pipeline's other jobs that are already there."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want
from mooring.model.member import JOB, PIPELINE


@score_rule("pipeline")
def pipeline(want: Want, board: Board, rows: Rows) -> Values | float:
    own = next((pair for pair in board.gang.members[0].labels if pair[0] == PIPELINE), None)
    if own is None:
        return 0.0
    here = board.residents((own,))
    if here is None:
        return 0.0
    mine = board.residents((own, (JOB, board.gang.job)))
    others = here if mine is None else here - mine
    return np.negative(others[rows], dtype=np.float64)
