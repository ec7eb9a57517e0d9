"""Required rules that keep roles on the same node.

A member of `roles` goes where one of `others` is. Where a role is on both sides, all its members
share one node: the first one chooses it. While some of `others` are still to be placed, a member
may go ahead of them; the planner checks the whole plan at the end.
"""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import Scope, filter_rule
from mooring.brain.room import Room
from mooring.brain.want import Want
from mooring.model.member import Relation


@filter_rule("together", Scope.GANG)
def together(want: Want, room: Room, board: Board) -> tuple[str, ...]:
    reasons = []
    for rule in board.required:
        if rule.relation is not Relation.TOGETHER or want.role not in rule.roles:
            continue
        both = [role for role in rule.roles if role in rule.others]
        if want.role in both:
            if board.is_elsewhere(both, room):
                reasons.append(f"must be together with {'/'.join(both)}")
        elif not any(room.roles[role] for role in rule.others) and not any(
            board.untried[role] for role in rule.others
        ):
            reasons.append(f"must be together with {'/'.join(rule.others)}")
    return tuple(dict.fromkeys(reasons))
