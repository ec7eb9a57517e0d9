"""Taints that the member does not tolerate. `PreferNoSchedule` only costs score."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import filter_rule
from mooring.brain.room import Room
from mooring.brain.want import Want

PREFERENCE = "PreferNoSchedule"


@filter_rule("taints")
def taints(want: Want, room: Room, board: Board) -> tuple[str, ...]:
    repelling = [
        str(taint)
        for taint in room.node.taints
        if taint.effect != PREFERENCE
        and not any(toleration.tolerates(taint) for toleration in want.tolerations)
    ]
    return (f"tainted ({', '.join(repelling)})",) if repelling else ()
