"""Preferences to be apart: the weight of each rule, lost where the unwanted role already is."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import score_rule
from mooring.brain.room import Room
from mooring.brain.want import Want
from mooring.model.member import Relation


@score_rule("apart")
def apart(want: Want, room: Room, board: Board) -> float:
    lost = 0
    for rule in board.preferred:
        if rule.relation is not Relation.APART:
            continue
        unwanted = (rule.others if want.role in rule.roles else ()) + (
            rule.roles if want.role in rule.others else ()
        )
        if any(room.roles[role] for role in unwanted):
            lost += rule.weight
    return -lost
