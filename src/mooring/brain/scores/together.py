"""Preferences to be together: the weight of each rule, won where the wanted role already is."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want
from mooring.model.member import Relation


@score_rule("together")
def together(want: Want, room: Room, board: Board) -> float:
    won = 0
    for rule in board.preferred:
        if rule.relation is not Relation.TOGETHER:
            continue
        wanted = (rule.others if want.role in rule.roles else ()) + (
            rule.roles if want.role in rule.others else ()
        )
        if any(room.roles[role] for role in wanted):
            won += rule.weight
    return won
