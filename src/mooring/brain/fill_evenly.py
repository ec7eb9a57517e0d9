"""Placing many members of one kind under topology spread constraints.

Nodes that are in the same domains by every constraint form a cell. Within a cell the constraints
say nothing, so each cell has one sequence of nodes, as in `fill`; the members then take from the
heads of these sequences the best that the constraints allow, which is one small step a member and
one scan a cell. Where a domain is a single node, a constraint is a limit on that node, which rises
when all domains have reached it: then another round is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.brain.board import Board
from mooring.brain.domains import Domains, domains, spreads_of
from mooring.brain.fill import Best, Indexes, Sequence, fill, follow, highest, undo_surplus
from mooring.brain.layout import ALL, Amounts, Mask, Values
from mooring.brain.want import Want

_SCORE = "topology-spread"


def place_all(
    board: Board, want: Want, count: int, allowed: Mask | None = None, best: Best | None = None
) -> Indexes:
    """As `fill`, and evenly where the gang asks for that."""
    if not any(spread.applies_to(want.role) for spread in board.gang.spreads):
        return fill(board, want, count, allowed, best)
    rounds: list[Indexes] = []
    left = count
    while left:
        chosen = _round(board, want, left, allowed)
        if not len(chosen):
            break
        rounds.append(chosen)
        left -= len(chosen)
    return np.concatenate(rounds) if rounds else np.empty(0, dtype=np.intp)


def _round(board: Board, want: Want, count: int, allowed: Mask | None) -> Indexes:
    hard = [domains(board, want, each) for each in spreads_of(board, want.role, required=True)]
    soft = [domains(board, want, each) for each in spreads_of(board, want.role, required=False)]
    able = board.can_take(want, for_good=True)
    if allowed is not None:
        able &= allowed
    limit = np.full(len(board.layout), count, dtype=np.int64)
    for there in hard:
        able &= there.of >= 0
        if there.by_node:
            limit = np.minimum(limit, there.most - there.crowd(ALL))
    nodes = np.flatnonzero(able & (limit > 0))
    if not len(nodes):
        return nodes
    wide = [there for there in (*hard, *soft) if not there.by_node]
    merge = _Merge(wide, dict(board.recipe.scores).get(_SCORE, 0.0))
    totals = board.totals(want, nodes)
    for domain, inside in _cells(wide, nodes):
        here = nodes[inside]
        first = highest(totals[inside], count)
        sequence = follow(board, want, count, here[first], totals[inside][first], limit)
        merge.add(domain, sequence)
    chosen = merge.take(count)
    for sequence in merge.sequences:
        undo_surplus(board, want, sequence.steps, chosen)
    return chosen


def _cells(wide: list[Domains], nodes: Indexes) -> list[tuple[tuple[int, ...], Mask]]:
    """The domains of each cell, one for each constraint, and which of the nodes are in it."""
    if not wide:
        return [((), np.ones(len(nodes), dtype=bool))]
    table = np.stack([there.of[nodes] for there in wide])
    kinds, which = np.unique(table, axis=1, return_inverse=True)
    which = which.reshape(-1)
    return [(tuple(kinds[:, i].tolist()), which == i) for i in range(kinds.shape[1])]


@dataclass(frozen=True, eq=False)
class _Rule:
    """One constraint while members are being handed out."""

    there: Domains
    members: Amounts

    def allows(self, of: Indexes) -> Mask:
        most = int(self.members[:-1][self.there.counted].min(initial=1 << 60))
        found: Mask = self.members[of] < most + self.there.spread.max_skew
        return found


class _Merge:
    def __init__(self, wide: list[Domains], weight: float) -> None:
        # One entry more: a node without the label is in the fullest domain, for a preference.
        fullest = [there.members.max(initial=0) for there in wide]
        self._rules = [
            _Rule(there, np.append(there.members, most))
            for there, most in zip(wide, fullest, strict=True)
        ]
        self._weight = weight
        self._cells: list[tuple[int, ...]] = []
        self.sequences: list[Sequence] = []

    def add(self, domain: tuple[int, ...], sequence: Sequence) -> None:
        self._cells.append(domain)
        self.sequences.append(sequence)

    def take(self, count: int) -> Indexes:
        size = len(self.sequences)
        heads = np.zeros(size, dtype=np.intp)
        lengths = np.array([len(each.nodes) for each in self.sequences])
        keys: Values = np.array([each.keys[0] for each in self.sequences])
        first = np.array([each.nodes[0] for each in self.sequences])
        of = [np.array([cell[k] for cell in self._cells]) for k in range(len(self._rules))]
        chosen: list[int] = []
        for _ in range(min(count, int(lengths.sum()))):
            worth = np.where(heads < lengths, keys, -np.inf)
            for rule, where in zip(self._rules, of, strict=True):
                if rule.there.spread.required:
                    worth[~rule.allows(where)] = -np.inf
                else:
                    worth = worth - self._weight * rule.members[where]
            best = int(np.lexsort((first, -worth))[0])
            if worth[best] == -np.inf:
                break
            sequence = self.sequences[best]
            chosen.append(int(sequence.nodes[heads[best]]))
            heads[best] += 1
            if heads[best] < lengths[best]:
                keys[best] = sequence.keys[heads[best]]
                first[best] = sequence.nodes[heads[best]]
            for rule, where in zip(self._rules, of, strict=True):
                rule.members[where[best]] += 1
        return np.array(chosen, dtype=np.intp)
