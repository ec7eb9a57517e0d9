"""Minus the taints that only ask to be avoided and are not tolerated."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.filters.taints import PREFERENCE
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@score_rule("taints")
def taints(want: Want, room: Room, board: Board) -> float:
    return -sum(
        taint.effect == PREFERENCE
        and not any(toleration.tolerates(taint) for toleration in want.tolerations)
        for taint in room.node.taints
    )
