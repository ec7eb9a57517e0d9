"""Free capacity after taking the member, 0..1, averaged over what the member asks for."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@score_rule("room")
def room_left(want: Want, room: Room, board: Board) -> float:
    node = room.node
    left = [
        (free - asked) / capacity
        for asked, free, capacity in (
            (want.cpu_millis, room.cpu_millis, node.cpu_millis),
            (want.memory_bytes, room.memory_bytes, node.memory_bytes),
            (want.gpus, room.gpu_count, len(node.gpus)),
        )
        if asked and capacity
    ]
    if left:
        return sum(left) / len(left)
    return room.cpu_millis / node.cpu_millis if node.cpu_millis else 0.0


@score_rule("tight")
def tight(want: Want, room: Room, board: Board) -> float:
    return 1.0 - room_left(want, room, board)
