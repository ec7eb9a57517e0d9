"""Ports that the user fixed must be free on the node."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, add_filter
from mooring.brain.want import Want

IN_USE = "port in use"


def ports(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.ports:
        return {}
    used = [board.port(port)[rows] for port in want.ports]
    refused = used[0]
    for more in used[1:]:
        refused = refused | more
    return {IN_USE: refused}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    taken = [port for port in sorted(want.ports) if board.port(port)[index]]
    return (f"{IN_USE} ({', '.join(str(port) for port in taken)})",) if taken else ()


add_filter("ports", ports, why, counted=True)
