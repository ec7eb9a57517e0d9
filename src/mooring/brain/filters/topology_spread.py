"""Topology spread constraints that must hold (`DoNotSchedule`).

A node is refused if its domain would then have more members than the emptiest one plus the
constraint's skew, or if it has no label to belong to a domain by. Domains count if they have a
node that the member's selector and affinity allow.
"""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.domains import domains, spreads_of
from mooring.brain.layout import ALL, Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want


def topology_spread(want: Want, board: Board, rows: Rows) -> Objections:
    found: Objections = {}
    for spread in spreads_of(board, want.role, required=True):
        there = domains(board, want, spread)
        of = there.of[rows]
        found[f"no label {spread.key} to spread by"] = of < 0
        uneven = (of >= 0) & (there.crowd(rows) >= there.most)
        found[f"too uneven by {spread.key}"] = uneven
    return found


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    return tuple(
        reason for reason, mask in topology_spread(want, board, ALL).items() if mask[index]
    )


add_filter("topology-spread", topology_spread, why, Scope.GANG, passing=True)
