"""The host name: a member may be meant for one node."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want

ANOTHER = "another node is asked for"


def host(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.wish.node:
        return {}
    refused = np.ones(len(board.layout), dtype=bool)
    index = board.layout.index.get(want.wish.node)
    if index is not None:
        refused[index] = False
    return {ANOTHER: refused[rows]}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    asked = want.wish.node
    if not asked or board.layout.nodes[index].name == asked:
        return ()
    return (f"{ANOTHER} ({asked})",)


add_filter("host", host, why, Scope.FIXED)
