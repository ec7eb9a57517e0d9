"""Servers away from servers: minus the servers already there, for a server."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want


@score_rule("servers")
def servers(want: Want, board: Board, rows: Rows) -> Values | float:
    roles = board.gang.server_roles
    if want.role not in roles:
        return 0.0
    here = np.zeros(len(board.members[rows]))
    for role in roles:
        here -= board.role(role)[rows]
    return here
