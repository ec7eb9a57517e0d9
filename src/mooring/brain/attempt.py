"""One pass over the gang: each member in turn to the best node that can take it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mooring.brain.board import Board
from mooring.brain.fill import Best
from mooring.brain.fill_evenly import place_all
from mooring.brain.layout import ALL
from mooring.brain.pool import Numbers
from mooring.brain.ranks import deal, is_ring
from mooring.brain.trials import RoleZone, Trial
from mooring.brain.want import Kinds, Want
from mooring.model.member import Relation, Rule


class Seat(NamedTuple):
    """A node, and the states of its CPUs and devices before and after the member took its own."""

    node: int
    before: int
    after: int


#: Class of reason -> how many nodes gave it.
Counts = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class PlacedBatch:
    """Members of one kind that were placed at once, and the states of all nodes before that."""

    want: Want
    positions: tuple[int, ...]
    nodes: list[int]
    states: Numbers


@dataclass
class Attempt:
    """`where` and `failed` are by position in the gang, in the order of trying.

    `lonely` are those that had a seat and lost it again, in that order: they are in `failed` too.
    """

    board: Board
    trial: Trial
    runs: list[PlacedBatch] = field(default_factory=list)
    where: dict[int, int] = field(default_factory=dict)
    failed: dict[int, Counts] = field(default_factory=dict)
    lonely: dict[int, Seat] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        return len(set(self.where.values()))

    @cached_property
    def all_seats(self) -> dict[int, Seat]:
        """Of everybody who ever had one; only worked out for a pass that is made use of."""
        found: dict[int, Seat] = {}
        for run in self.runs:
            seats = _cut_seats if run.want.cuts else _seats
            found.update(zip(run.positions, seats(self.board, run), strict=False))
        return found


def attempt(
    board: Board,
    kinds: Kinds,
    trial: Trial,
    forced: Mapping[int, int] | None = None,
    best: Best | None = None,
) -> Attempt:
    """Place in this order on a fresh board. `forced` names the node of each position.

    `best`: where the first members may go, if that is known; for a gang of one kind.
    """
    result = Attempt(board, trial)
    for want, positions in _runs(board, kinds, trial.order):
        states = board.free.state.copy()
        if forced is None:
            allowed = trial.zone.nodes.get(want.role)
            nodes = place_all(board, want, len(positions), allowed, best).tolist()
        else:
            nodes = [forced[position] for position in positions]
            for node in nodes:
                board.take(want, np.array([node]))
        board.untried[want.role] -= len(positions)
        result.runs.append(PlacedBatch(want, positions, nodes, states))
        result.where.update(zip(positions, nodes, strict=False))
        if len(nodes) < len(positions):
            counts = count_reasons(board, want, trial.zone)
            result.failed.update(dict.fromkeys(positions[len(nodes) :], counts))
    if is_ring(board.gang):
        _follow_nodes(result)
    _put_out_the_lonely(result, kinds)
    return result


def _follow_nodes(result: Attempt) -> None:
    """Deal the seats of each kind so that neighbours share a node; who failed still fails."""
    if len(set(result.where.values())) < 2:
        return
    dealt = deal([(run.positions, run.nodes) for run in result.runs], result.board.layout)
    result.runs = [
        replace(run, positions=positions) for run, positions in zip(result.runs, dealt, strict=True)
    ]
    result.trial = Trial(tuple(itertools.chain(*dealt)), result.trial.zone)
    result.where = {
        position: node
        for run in result.runs
        for position, node in zip(run.positions, run.nodes, strict=False)
    }


def _seats(board: Board, run: PlacedBatch) -> Iterator[Seat]:
    for node, state in zip(run.nodes, run.states[run.nodes].tolist(), strict=True):
        yield Seat(node, state, state)


def _cut_seats(board: Board, run: PlacedBatch) -> Iterator[Seat]:
    """One after the other on the same node: each cuts from what the one before has left."""
    successor = board.layout.pool.successors(run.want)
    now: dict[int, int] = dict(zip(run.nodes, run.states[run.nodes].tolist(), strict=True))
    for node in run.nodes:
        before = now[node]
        after = now[node] = successor(before)
        yield Seat(node, before, after)


def _runs(
    board: Board, kinds: Kinds, order: tuple[int, ...]
) -> Iterator[tuple[Want, tuple[int, ...]]]:
    """Members of one kind side by side are placed at once.

    Where all of a role must be on one node, the first chooses it and is on its own. Where what one
    mounts decides about the next, each is on its own.
    """
    for number, group in itertools.groupby(order, key=kinds.of.__getitem__):
        want, positions = kinds.wants[number], tuple(group)
        first_chooses = any(
            rule.relation is Relation.TOGETHER
            and want.role in rule.roles
            and want.role in rule.others
            for rule in board.required
        )
        if want.volumes and board.layout.catalogue is not None:
            catalogue = board.layout.catalogue
            first_chooses |= any(catalogue.one_node(volume) for volume in want.volumes)
            if any(catalogue.one_by_one(volume) for volume in want.volumes):
                yield from ((want, (position,)) for position in positions)
                continue
        if first_chooses and len(positions) > 1:
            yield want, positions[:1]
            yield want, positions[1:]
        else:
            yield want, positions


def count_reasons(board: Board, want: Want, zone: RoleZone) -> Counts:
    """How many nodes object for each class of reason; a node with several counts under each."""
    own = board.objections(want)
    rest = board.gang_objections(want)
    counts: Counter[str] = Counter()
    refused = np.zeros(len(board.layout), dtype=bool)
    for reason in dict.fromkeys((*own, *rest)):
        masks = [found[reason] for found in (own, rest) if reason in found]
        mask = np.logical_or.reduce(masks)
        counts[reason] += int(np.count_nonzero(mask))
        refused |= mask
    allowed = zone.nodes.get(want.role)
    if allowed is not None:
        counts[zone.reason[want.role]] += int(np.count_nonzero(~allowed & ~refused))
    return {reason: count for reason, count in counts.items() if count}


def lonely(rule: Rule, role: str, node: int, board: Board) -> bool:
    """Is a member of this role, on this node, without the one that it must be together with?"""
    return (
        rule.relation is Relation.TOGETHER
        and role in rule.roles
        and role not in rule.others
        and not any(board.role(other)[node] for other in rule.others)
    )


def _put_out_the_lonely(result: Attempt, kinds: Kinds) -> None:
    """Members that went ahead of those they must be together with, who then did not follow."""
    board = result.board
    rules = [rule for rule in board.required if rule.relation is Relation.TOGETHER]
    while any(_leaves_somebody_alone(rule, board) for rule in rules):
        for position, node in list(result.where.items()):
            want = kinds[position]
            if any(lonely(rule, want.role, node, board) for rule in rules):
                seat = result.all_seats[position]
                put_out(board, want, seat)
                del result.where[position]
                result.lonely[position] = seat
                result.failed[position] = count_reasons(board, want, RoleZone())


def _leaves_somebody_alone(rule: Rule, board: Board) -> bool:
    seekers = [role for role in rule.roles if role not in rule.others]
    seeking = board.present(seekers, ALL)
    if seeking is None:
        return False
    sought = board.present(rule.others, ALL)
    return bool((seeking if sought is None else seeking & ~sought).any())


def put_out(board: Board, want: Want, seat: Seat) -> None:
    """Give back what this seat took, whoever has been seated there since."""
    pool = board.layout.pool
    state = pool.undone(int(board.free.state[seat.node]), seat.before, seat.after)
    board.put_out(want, np.array([seat.node]), np.array([state], dtype=np.int32))
