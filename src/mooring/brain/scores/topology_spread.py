"""Topology spread constraints that are a preference (`ScheduleAnyway`): minus the members, of the
gang and of matching others, that are already in the node's domain.

`host-spread` is for domains of a single node, `topology-spread` for the others. A node without the
label counts as one of the fullest domain.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.domains import domains, spreads_of
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import Scope, score_rule
from mooring.brain.want import Want


@score_rule("topology-spread", Scope.GANG)
def topology_spread(want: Want, board: Board, rows: Rows) -> Values | float:
    return _less(want, board, rows, by_node=False)


@score_rule("host-spread")
def host_spread(want: Want, board: Board, rows: Rows) -> Values | float:
    return _less(want, board, rows, by_node=True)


def _less(want: Want, board: Board, rows: Rows, *, by_node: bool) -> Values | float:
    found: Values | float = 0.0
    for spread in spreads_of(board, want.role, required=False):
        there = domains(board, want, spread)
        if there.by_node is by_node:
            fullest = there.members.max(initial=0)
            found = found - np.where(there.of[rows] < 0, fullest, there.crowd(rows))
    return found
