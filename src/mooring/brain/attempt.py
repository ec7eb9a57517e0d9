"""One pass over the gang: each member in turn to the best node that can take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.brain.board import Answer, Board
from mooring.brain.room import Cut, Room
from mooring.brain.trials import Trial, Zone
from mooring.brain.want import Want
from mooring.model.member import Relation, Rule
from mooring.model.plan import NodeVerdict


@dataclass(frozen=True)
class Seat:
    room: Room
    cut: Cut
    verdicts: tuple[NodeVerdict, ...]


@dataclass
class Attempt:
    """`seats` and `failed` are by position in the gang; `failed` in the order of failing."""

    board: Board
    seats: dict[int, Seat] = field(default_factory=dict)
    failed: dict[int, tuple[NodeVerdict, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        return len({seat.room.index for seat in self.seats.values()})


def attempt(
    board: Board,
    wants: Sequence[Want],
    trial: Trial,
    forced: Mapping[int, int] | None = None,
) -> Attempt:
    """Place in this order on a fresh board. `forced` names the node of each position."""
    result = Attempt(board)
    for position in trial.order:
        want = wants[position]
        answers = _confined(board.ask(want), want, trial.zone)
        verdicts = tuple(answer.verdict for answer in answers)
        board.untried[want.role] -= 1
        chosen = _best(answers) if forced is None else forced[position]
        if chosen is None:
            result.failed[position] = verdicts
            continue
        room = board.rooms[chosen]
        result.seats[position] = Seat(room, board.take(want, room), verdicts)
    _put_out_the_lonely(result, wants)
    return result


def _confined(answers: list[Answer], want: Want, zone: Zone) -> list[Answer]:
    if want.role not in zone.nodes:
        return answers
    confined = []
    for index, answer in enumerate(answers):
        reason = zone.refuses(want.role, index)
        if reason and not answer.verdict.refused:
            verdict = NodeVerdict(answer.verdict.node, (reason,))
            confined.append(Answer(answer.version, verdict, 0.0))
        else:
            confined.append(answer)
    return confined


def _best(answers: Sequence[Answer]) -> int | None:
    """The first of the highest total."""
    best: int | None = None
    for index, answer in enumerate(answers):
        if answer.verdict.reasons:
            continue
        if best is None or answer.total > answers[best].total:
            best = index
    return best


def lonely(rule: Rule, role: str, room: Room) -> bool:
    """Is a member of this role, on this node, without the one that it must be together with?"""
    return (
        rule.relation is Relation.TOGETHER
        and role in rule.roles
        and role not in rule.others
        and not any(room.roles[other] for other in rule.others)
    )


def _put_out_the_lonely(result: Attempt, wants: Sequence[Want]) -> None:
    """Members that went ahead of those they must be together with, who then did not follow."""
    found = True
    while found:
        found = False
        for position, seat in list(result.seats.items()):
            role = wants[position].role
            if any(lonely(rule, role, seat.room) for rule in result.board.required):
                result.board.put_out(wants[position], seat.room, seat.cut)
                del result.seats[position]
                verdicts = tuple(a.verdict for a in result.board.ask(wants[position]))
                result.failed[position] = verdicts
                found = True
