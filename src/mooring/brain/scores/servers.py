"""Servers away from servers: minus the servers already there, for a server."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@score_rule("servers")
def servers(want: Want, room: Room, board: Board) -> float:
    roles = board.gang.server_roles
    return -sum(room.roles[role] for role in roles) if want.role in roles else 0
