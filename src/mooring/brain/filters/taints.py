"""Taints that the member does not tolerate. `PreferNoSchedule` only costs score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want
from mooring.model.cluster import Taint

PREFERENCE = "PreferNoSchedule"
TAINTED = "tainted"


def taints(want: Want, board: Board, rows: Rows) -> Objections:
    repelled = [bool(_repelling(want, known)) for known in board.layout.taints]
    if not any(repelled):
        return {}
    return {TAINTED: np.array(repelled, dtype=bool)[board.layout.taint_class[rows]]}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    repelling = _repelling(want, board.layout.nodes[index].taints)
    return (f"{TAINTED} ({', '.join(str(taint) for taint in repelling)})",) if repelling else ()


def _repelling(want: Want, known: Sequence[Taint]) -> list[Taint]:
    return [
        taint
        for taint in known
        if taint.effect != PREFERENCE
        and not any(toleration.tolerates(taint) for toleration in want.tolerations)
    ]


add_filter("taints", taints, why, Scope.FIXED)
