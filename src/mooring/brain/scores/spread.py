"""Evenness: minus the members of this gang (or of this role) that are already there."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@score_rule("spread")
def spread(want: Want, room: Room, board: Board) -> float:
    return -room.members


@score_rule("spread-role")
def spread_role(want: Want, room: Room, board: Board) -> float:
    return -room.roles[want.role]
