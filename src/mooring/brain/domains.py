"""Domains of a topology spread constraint on a board: which nodes form them, who is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import ALL, Amounts, Mask, Rows
from mooring.brain.pool import Numbers
from mooring.brain.registry import FILTERS
from mooring.brain.want import Want
from mooring.model.labels import Labels
from mooring.model.member import JOB, ROLE
from mooring.model.topology_spread import TopologySpread

#: What decides which domains count: those with a node that the member itself might want.
_WISHES = ("selector", "affinity")


@dataclass(frozen=True, eq=False)
class Domains:
    """`of`: each node's domain, -1 without one. `members`: how many there are in each domain, of
    the gang and of matching others; `counted`: the domains that the fewest are sought among."""

    spread: TopologySpread
    of: Numbers
    members: Amounts
    counted: Mask

    @property
    def least(self) -> int:
        return int(self.members[self.counted].min()) if self.counted.any() else 0

    @property
    def by_node(self) -> bool:
        """Is every domain a single node?"""
        return int(np.count_nonzero(self.of >= 0)) == len(self.members)

    def crowd(self, rows: Rows) -> Amounts:
        """How many there are in the domain of each of these nodes; 0 for nodes in none."""
        found: Amounts = np.append(self.members, 0)[self.of[rows]]
        return found

    @property
    def most(self) -> int:
        """What a domain may have at the moment."""
        return self.least + self.spread.max_skew


def spreads_of(board: Board, role: str, *, required: bool) -> list[TopologySpread]:
    return [
        spread
        for spread in board.gang.spreads
        if spread.required is required and spread.applies_to(role)
    ]


def domains(board: Board, want: Want, spread: TopologySpread) -> Domains:
    of, count = board.layout.domains(spread.key)
    here = np.zeros(len(of), dtype=np.int64)
    for role in board.sizes:
        if spread.applies_to(role):
            here += board.role(role)
    for sought, sign in _residents(board, spread):
        others = board.residents(sought)
        if others is not None:
            here += sign * others
    inside = of >= 0
    members = np.bincount(of[inside], weights=here[inside], minlength=count).astype(np.int64)
    counted = np.zeros(count, dtype=bool)
    counted[of[inside & _wanted(board, want)]] = True
    return Domains(spread, of, members, counted)


def even(board: Board, wants: Iterable[Want]) -> bool:
    """Do all constraints hold that must, now that these members are where they are?"""
    for want in wants:
        for spread in spreads_of(board, want.role, required=True):
            there = domains(board, want, spread)
            here = board.role(want.role) > 0
            if ((there.of < 0) | (there.crowd(ALL) > there.most))[here].any():
                return False
    return True


def _residents(board: Board, spread: TopologySpread) -> Iterator[tuple[Labels, int]]:
    """Whom to count and whom not to count twice: matching members of other jobs, and those of this
    one that run already, where it is only growing."""
    own = (JOB, board.gang.job)
    if spread.roles:
        yield from (((own, (ROLE, role)), 1) for role in spread.roles)
    else:
        yield (own,), 1
    if spread.match_labels:
        yield spread.match_labels, 1
        yield (*spread.match_labels, own), -1


def _wanted(board: Board, want: Want) -> Mask:
    wanted = np.ones(len(board.layout), dtype=bool)
    for name in _WISHES:
        for refused in FILTERS[name].rule(want, board, ALL).values():
            wanted &= ~refused
    return wanted
