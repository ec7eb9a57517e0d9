"""Required rules that keep roles on different nodes, whichever side comes first."""

from __future__ import annotations

import itertools

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, add_filter
from mooring.brain.want import Want
from mooring.model.member import Relation


def apart(want: Want, board: Board, rows: Rows) -> Objections:
    here = {}
    for role in _unwanted(want, board):
        present = board.present((role,), rows)
        if present is not None:
            here[role] = present
    found: Objections = {}
    # Each combination of roles is a reason of its own; there are as many as roles met together.
    for size in range(1, len(here) + 1):
        for roles in itertools.combinations(here, size):
            exactly = np.logical_and.reduce(
                [here[role] if role in roles else ~here[role] for role in here]
            )
            if exactly.any():
                found[_reason(roles)] = exactly
    return found


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    present = tuple(role for role in _unwanted(want, board) if board.role(role)[index])
    return (_reason(present),) if present else ()


def _unwanted(want: Want, board: Board) -> tuple[str, ...]:
    unwanted: list[str] = []
    for rule in board.required:
        if rule.relation is not Relation.APART:
            continue
        if want.role in rule.roles:
            unwanted += rule.others
        if want.role in rule.others:
            unwanted += rule.roles
    return tuple(dict.fromkeys(unwanted))


def _reason(roles: tuple[str, ...]) -> str:
    return f"must be apart from {'/'.join(roles)}"


add_filter("apart", apart, why)
