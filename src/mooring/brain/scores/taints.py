"""Minus the taints that only ask to be avoided and are not tolerated."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.filters.taints import PREFERENCE
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import Scope, score_rule
from mooring.brain.want import Want
from mooring.model.cluster import Taint


@score_rule("taints", Scope.FIXED)
def taints(want: Want, board: Board, rows: Rows) -> Values | float:
    lost = [-_unwelcome(want, known) for known in board.layout.taints]
    if not any(lost):
        return 0.0
    return np.array(lost, dtype=np.float64)[board.layout.taint_class[rows]]


def _unwelcome(want: Want, known: tuple[Taint, ...]) -> int:
    return sum(
        taint.effect == PREFERENCE
        and not any(toleration.tolerates(taint) for toleration in want.tolerations)
        for taint in known
    )
