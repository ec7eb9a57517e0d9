"""Required rules that keep roles on the same node.

A member of `roles` goes where one of `others` is. Where a role is on both sides, all its members
share one node: the first one chooses it. While some of `others` are still to be placed, a member
may go ahead of them; the planner checks the whole plan at the end.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import ALL, Mask, Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want
from mooring.model.member import Relation, Rule


def together(want: Want, board: Board, rows: Rows) -> Objections:
    found: Objections = {}
    for rule in board.required:
        if rule.relation is not Relation.TOGETHER or want.role not in rule.roles:
            continue
        roles, refused = _refused(want, rule, board)
        if refused is not None:
            reason = f"must be together with {'/'.join(roles)}"
            mask = refused[rows]
            found[reason] = found[reason] | mask if reason in found else mask
    return found


def _refused(want: Want, rule: Rule, board: Board) -> tuple[tuple[str, ...], Mask | None]:
    both = tuple(role for role in rule.roles if role in rule.others)
    if want.role in both:
        present = board.present(both, ALL)
        if present is None or not present.any():
            return both, None
        # Elsewhere for everybody, as soon as they are on two nodes.
        return both, ~present if np.count_nonzero(present) == 1 else np.ones_like(present)
    if any(board.untried[role] for role in rule.others):
        return rule.others, None
    present = board.present(rule.others, ALL)
    return rule.others, np.ones(len(board.layout), bool) if present is None else ~present


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    return tuple(reason for reason, mask in together(want, board, ALL).items() if mask[index])


add_filter("together", together, why, Scope.GANG)
