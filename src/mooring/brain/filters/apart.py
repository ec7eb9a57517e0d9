"""Required rules that keep roles on different nodes, whichever side comes first."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import filter_rule
from mooring.brain.room import Room
from mooring.brain.want import Want
from mooring.model.member import Relation


@filter_rule("apart")
def apart(want: Want, room: Room, board: Board) -> tuple[str, ...]:
    unwanted: list[str] = []
    for rule in board.required:
        if rule.relation is not Relation.APART:
            continue
        if want.role in rule.roles:
            unwanted += rule.others
        if want.role in rule.others:
            unwanted += rule.roles
    present = [role for role in dict.fromkeys(unwanted) if room.roles[role]]
    return (f"must be apart from {'/'.join(present)}",) if present else ()
