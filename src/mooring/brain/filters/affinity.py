"""Required node affinity: any of the member's terms, each with all its requirements."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want

UNSUITED = "node affinity does not match"


def affinity(want: Want, board: Board, rows: Rows) -> Objections:
    terms = want.wish.required
    if not terms:
        return {}
    wrong = [not any(term.matches(labels) for term in terms) for labels in board.layout.labels]
    return {UNSUITED: np.array(wrong, dtype=bool)[board.layout.label_class[rows]]}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    terms = want.wish.required
    labels = board.layout.nodes[index].labels
    if not terms or any(term.matches(labels) for term in terms):
        return ()
    return (f"{UNSUITED} (wants {' or '.join(str(term) for term in terms)})",)


add_filter("affinity", affinity, why, Scope.FIXED)
