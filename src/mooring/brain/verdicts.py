"""Each node's answer for each member, as it was when the member's turn came.

Plans are made without them; they are worked out afterwards, for those who ask why, by going
through the finished pass once more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mooring.brain.attempt import Attempt, put_out
from mooring.brain.board import Board
from mooring.brain.fill import Indexes
from mooring.brain.trials import RoleZone
from mooring.brain.want import Kinds, Want
from mooring.model.plan import NodeVerdict

Verdicts = tuple[NodeVerdict, ...]


class Witness:
    """Asks the nodes of a board, and again only those that have changed."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._known: dict[Want, list[NodeVerdict]] = {}
        self._stale: dict[Want, set[int]] = {}

    def changed(self, node: int) -> None:
        for stale in self._stale.values():
            stale.add(node)

    def ask(self, want: Want, zone: RoleZone) -> Verdicts:
        if want not in self._known:
            self._known[want] = self._answers(want, np.arange(len(self._board.layout)))
            self._stale[want] = set()
        known, stale = self._known[want], self._stale[want]
        if stale:
            nodes = np.array(sorted(stale))
            for node, verdict in zip(nodes.tolist(), self._answers(want, nodes), strict=True):
                known[node] = verdict
            stale.clear()
        allowed = zone.nodes.get(want.role)
        if allowed is None and not self._board.gang_filters and not self._board.gang_scores:
            return tuple(known)
        return self._with_the_gang(want, known, zone)

    def _answers(self, want: Want, nodes: Indexes) -> list[NodeVerdict]:
        board = self._board
        able = np.ones(len(nodes), dtype=bool)
        for mask in board.objections(want, nodes).values():
            able &= ~mask
        rows = nodes[able]
        columns = []
        for name, weight in board.recipe.scores:
            if (name, weight) in board.gang_scores:
                continue
            values = np.broadcast_to(weight * board.score(name, want, rows) + 0.0, rows.shape)
            columns.append([(name, value) for value in values.tolist()])
        scored = iter(zip(*columns, strict=True))
        names = board.layout.nodes
        return [
            NodeVerdict(names[node].name, scores=next(scored))
            if can
            else NodeVerdict(names[node].name, self._reasons(want, node))
            for node, can in zip(nodes.tolist(), able.tolist(), strict=True)
        ]

    def _reasons(self, want: Want, node: int) -> tuple[str, ...]:
        """All reasons, the first of each class: two filters may both miss CPUs."""
        found: dict[str, str] = {}
        for rule in self._board.node_filters:
            for reason in rule.why(want, self._board, node):
                found.setdefault(reason.partition(" (")[0], reason)
        return tuple(found.values())

    def _with_gang_scores(self, want: Want, known: list[NodeVerdict]) -> list[NodeVerdict]:
        board = self._board
        answers = list(known)
        rows = np.array([node for node, each in enumerate(known) if not each.refused], np.intp)
        for name, weight in board.gang_scores if len(rows) else ():
            values = np.broadcast_to(weight * board.score(name, want, rows) + 0.0, rows.shape)
            for node, value in zip(rows.tolist(), values.tolist(), strict=True):
                scores = (*answers[node].scores, (name, value))
                answers[node] = NodeVerdict(answers[node].node, scores=scores)
        return answers

    def _with_the_gang(self, want: Want, known: list[NodeVerdict], zone: RoleZone) -> Verdicts:
        answers = self._with_gang_scores(want, known)
        for reason, mask in self._board.gang_objections(want).items():
            for node in np.flatnonzero(mask).tolist():
                answers[node] = NodeVerdict(answers[node].node, (*answers[node].reasons, reason))
        allowed = zone.nodes.get(want.role)
        if allowed is not None:
            for node in np.flatnonzero(~allowed).tolist():
                if not answers[node].refused:
                    answers[node] = NodeVerdict(answers[node].node, (zone.reason[want.role],))
        return tuple(answers)


def replay(board: Board, kinds: Kinds, result: Attempt) -> Iterator[tuple[int, Verdicts]]:
    """Position after position with its verdicts; those put out at the end come once more."""
    witness = Witness(board)
    zone = result.trial.zone
    for position in result.trial.order:
        want = kinds[position]
        yield position, witness.ask(want, zone)
        board.untried[want.role] -= 1
        seat = result.all_seats.get(position)
        if seat is not None:
            board.take(want, np.array([seat.node]))
            witness.changed(seat.node)
    for position, seat in result.lonely.items():
        put_out(board, kinds[position], seat)
        witness.changed(seat.node)
        yield position, witness.ask(kinds[position], RoleZone())
