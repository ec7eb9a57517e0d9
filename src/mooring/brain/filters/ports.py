"""Ports that the user fixed must be free on the node."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import filter_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@filter_rule("ports")
def ports(want: Want, room: Room, board: Board) -> tuple[str, ...]:
    taken = want.ports & room.ports
    if not taken:
        return ()
    return (f"port in use ({', '.join(str(port) for port in sorted(taken))})",)
