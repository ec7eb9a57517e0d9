"""Preferences to be together: the weight of each rule, won where the wanted role already is."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want
from mooring.model.member import Relation


@score_rule("together")
def together(want: Want, board: Board, rows: Rows) -> Values | float:
    return weight_beside(Relation.TOGETHER, want, board, rows)


def weight_beside(relation: Relation, want: Want, board: Board, rows: Rows) -> Values | float:
    """The sum of the weights of the preferences whose other side is on the node."""
    found: Values | float = 0.0
    for rule in board.preferred:
        if rule.relation is not relation:
            continue
        sought = (rule.others if want.role in rule.roles else ()) + (
            rule.roles if want.role in rule.others else ()
        )
        present = board.present(sought, rows)
        if present is not None:
            found = found + np.where(present, float(rule.weight), 0.0)
    return found
