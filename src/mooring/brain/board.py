"""The cluster while one plan is being made: all rooms, and each node's answers so far.

Members with equal wants get equal answers, so an answer is kept until its node changes; a gang
of a few roles costs a few answers for each change, not one scan of the cluster a member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.brain.presets import Recipe
from mooring.brain.registry import FILTERS, SCORES, Filter, Scope
from mooring.brain.room import Cut, Room
from mooring.brain.want import Want
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang
from mooring.model.plan import NodeVerdict


@dataclass(frozen=True)
class Answer:
    version: int
    verdict: NodeVerdict
    total: float


class Board:
    def __init__(self, gang: Gang, recipe: Recipe, snapshot: Snapshot) -> None:
        self.gang = gang
        self.required = recipe.required
        self.preferred = recipe.preferred
        self.rooms = tuple(
            Room(index, node, snapshot.use_of(node.name))
            for index, node in enumerate(snapshot.nodes)
        )
        self.sizes = Counter(member.id.role for member in gang.members)
        #: Members of each role that no node has been sought for yet.
        self.untried = Counter(self.sizes)
        filters = [FILTERS[name] for name in recipe.filters]
        self._node_filters = [rule for rule in filters if rule.scope is Scope.NODE]
        self._gang_filters = [rule for rule in filters if rule.scope is Scope.GANG]
        self._scores = [(name, SCORES[name], weight) for name, weight in recipe.scores]
        self._homes: dict[str, Counter[int]] = {}
        self._answers: dict[Want, list[Answer | None]] = {}

    def ask(self, want: Want) -> list[Answer]:
        """Every node's answer for such a member now, in node order."""
        kept = self._answers.setdefault(want, [None] * len(self.rooms))
        answers: list[Answer] = []
        for room, known in zip(self.rooms, kept, strict=True):
            if known is None or known.version != room.version:
                known = self._answer(want, room)
                kept[room.index] = known
            answers.append(known)
        if self._gang_filters:
            return [
                self._with_gang_filters(want, room, answer)
                for room, answer in zip(self.rooms, answers, strict=True)
            ]
        return answers

    def take(self, want: Want, room: Room) -> Cut:
        self._homes.setdefault(want.role, Counter())[room.index] += 1
        return room.take(want)

    def put_out(self, want: Want, room: Room, cut: Cut) -> None:
        homes = self._homes[want.role]
        homes[room.index] -= 1
        if not homes[room.index]:
            del homes[room.index]
        room.put_out(want, cut)

    def is_elsewhere(self, roles: Sequence[str], room: Room) -> bool:
        """Is any member of these roles on another node?"""
        return any(index != room.index for role in roles for index in self._homes.get(role, ()))

    def _answer(self, want: Want, room: Room) -> Answer:
        reasons = _reasons(self._node_filters, want, room, self)
        if reasons:
            return Answer(room.version, NodeVerdict(room.node.name, reasons), 0.0)
        scores = tuple(
            (name, weight * rule(want, room, self) + 0.0) for name, rule, weight in self._scores
        )
        verdict = NodeVerdict(room.node.name, scores=scores)
        return Answer(room.version, verdict, verdict.total)

    def _with_gang_filters(self, want: Want, room: Room, answer: Answer) -> Answer:
        reasons = _reasons(self._gang_filters, want, room, self)
        if not reasons:
            return answer
        known = answer.verdict.reasons
        return Answer(answer.version, NodeVerdict(room.node.name, known + reasons), 0.0)


def _reasons(filters: Sequence[Filter], want: Want, room: Room, board: Board) -> tuple[str, ...]:
    """All reasons, the first of each class: two filters may both miss CPUs."""
    found: dict[str, str] = {}
    for rule in filters:
        for reason in rule.rule(want, room, board):
            found.setdefault(reason.partition(" (")[0], reason)
    return tuple(found.values())
