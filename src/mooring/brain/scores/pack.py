"""Fewest nodes: first those that the gang already uses, then those that hold most of the role."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@score_rule("pack")
def pack(want: Want, room: Room, board: Board) -> float:
    return 1.0 if room.members else 0.0


@score_rule("holds-more")
def holds_more(want: Want, room: Room, board: Board) -> float:
    """The part of the role that would fit here, 0..1."""
    size = board.sizes[want.role]
    return min(room.fits(want), size) / size
