"""Replicas away from each other: the part of them that is not yet on the node, 0..1.

`selector-spread` counts the members of the same role, which is what a controller selects, and
`service-spread` all members of the job, which is what its service selects. By node; for zones and
the like there are topology spread constraints.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("selector-spread")
def selector_spread(want: Want, board: Board, rows: Rows) -> Values | float:
    return np.subtract(1.0, board.role(want.role)[rows] / board.sizes[want.role])


@score_rule("service-spread")
def service_spread(want: Want, board: Board, rows: Rows) -> Values | float:
    return np.subtract(1.0, board.members[rows] / len(board.gang.members))
