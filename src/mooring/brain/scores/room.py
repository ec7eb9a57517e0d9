"""Free capacity after taking the member, 0..1, averaged over what the member asks for."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("room")
def room_left(want: Want, board: Board, rows: Rows) -> Values:
    free, layout = board.free, board.layout
    left = [
        (amount[rows] - asked) / np.maximum(capacity[rows], 1)
        for asked, amount, capacity in (
            (want.cpu_millis, free.cpu_millis, layout.cpu_millis),
            (want.memory_bytes, free.memory_bytes, layout.memory_bytes),
            *(
                (asked, board.extended(name), layout.extended.get(name, board.extended(name)))
                for name, asked in want.asked.extended
            ),
        )
        if asked
    ]
    if want.asked.gpu_millis:
        capacity = 1000 * np.maximum(layout.gpus[rows], 1)
        left.append((board.gpu_millis(rows) - want.asked.gpu_millis) / capacity)
    if not left:
        left = [free.cpu_millis[rows] / np.maximum(layout.cpu_millis[rows], 1)]
    mean: Values = sum(left[1:], left[0]) / len(left)
    return mean


@score_rule("tight")
def tight(want: Want, board: Board, rows: Rows) -> Values:
    """Little capacity left after taking the member, 0..1: the opposite of `room`."""
    return np.subtract(1.0, room_left(want, board, rows))
