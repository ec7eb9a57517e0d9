"""The node selector: each label that the member asks for, with that value."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import filter_rule
from mooring.brain.room import Room
from mooring.brain.want import Want


@filter_rule("selector")
def selector(want: Want, room: Room, board: Board) -> tuple[str, ...]:
    labels = room.node.labels
    missing = [f"{key}={value}" for key, value in want.selector if labels.get(key) != value]
    return (f"labels do not match (wants {', '.join(missing)})",) if missing else ()
