"""The node selector: each label that the member asks for, with that value."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want

MISMATCH = "labels do not match"


def selector(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.selector:
        return {}
    wrong = np.array([bool(_missing(want, labels)) for labels in board.layout.labels], dtype=bool)
    return {MISMATCH: wrong[board.layout.label_class[rows]]}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    missing = _missing(want, board.layout.nodes[index].labels)
    return (f"{MISMATCH} (wants {', '.join(missing)})",) if missing else ()


def _missing(want: Want, labels: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in want.selector if labels.get(key) != value]


add_filter("selector", selector, why, Scope.FIXED)
