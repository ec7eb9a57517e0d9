"""Pipeline spread: minus the members of the pipeline's other jobs that are already there."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want
from mooring.model.member import PIPELINE


@score_rule("pipeline")
def pipeline(want: Want, board: Board, rows: Rows) -> Values | float:
    own = next((pair for pair in board.gang.members[0].labels if pair[0] == PIPELINE), None)
    if own is None:
        return 0.0
    here = board.residents((own,))
    return 0.0 if here is None else np.negative(here[rows], dtype=np.float64)
