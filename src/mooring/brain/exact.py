"""Exhaustive search for small gangs: what the ordered passes miss, this finds, or proves absent.

Depth first, the hardest member first, over nodes by score. Of interchangeable members, and of
nodes in the same state, only one order is tried; what is known to fail is not entered again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum

from mooring.brain.attempt import lonely
from mooring.brain.board import Board
from mooring.brain.room import Room
from mooring.brain.trials import hardest_first
from mooring.brain.want import Want

MOST_MEMBERS = 8
MOST_NODES = 8
#: About a second of looking; nearly all instances of this size need less than a hundredth.
_MOST_STEPS = 5_000


class Result(Enum):
    IMPOSSIBLE = "impossible"
    GAVE_UP = "gave up"


def search(board: Board, wants: Sequence[Want]) -> Mapping[int, int] | Result:
    """Position -> node index for all members, or that there is no such plan."""
    if len(wants) > MOST_MEMBERS or len(board.rooms) > MOST_NODES:
        return Result.GAVE_UP
    order: Sequence[int] = hardest_first(board, wants)
    # Equal wants side by side, so that their permutations are tried once.
    first = {want: rank for rank, want in reversed(list(enumerate(wants[i] for i in order)))}
    order = sorted(order, key=lambda i: (first[wants[i]], i))
    kinds = [_kind(room) for room in board.rooms]
    seen: set[Hashable] = set()
    chosen: dict[int, int] = {}
    steps = 0

    def descend(depth: int) -> bool:
        nonlocal steps
        if depth == len(order):
            return not any(
                lonely(rule, wants[i].role, board.rooms[index])
                for i, index in chosen.items()
                for rule in board.required
            )
        position = order[depth]
        want = wants[position]
        lowest = 0
        if depth and wants[order[depth - 1]] == want:
            lowest = chosen[order[depth - 1]]
        state = (depth, lowest, tuple(_state(room) for room in board.rooms))
        if state in seen:
            return False
        answers = board.ask(want)
        candidates = [
            index
            for index, answer in enumerate(answers)
            if index >= lowest and not answer.verdict.reasons
        ]
        # Nodes that cannot be told apart: the first stands for all.
        distinct = {(kinds[index], state[2][index]): index for index in reversed(candidates)}
        candidates = sorted(distinct.values(), key=lambda index: (-answers[index].total, index))
        board.untried[want.role] -= 1
        for index in candidates:
            if steps >= _MOST_STEPS:
                break
            steps += 1
            room = board.rooms[index]
            cut = board.take(want, room)
            chosen[position] = index
            if descend(depth + 1):
                return True
            del chosen[position]
            board.put_out(want, room, cut)
        board.untried[want.role] += 1
        seen.add(state)
        return False

    if descend(0):
        return chosen
    return Result.GAVE_UP if steps >= _MOST_STEPS else Result.IMPOSSIBLE


def _kind(room: Room) -> Hashable:
    node = room.node
    return frozenset(node.labels.items()), node.taints, room.overlapping


def _state(room: Room) -> Hashable:
    return (
        room.cpu_millis,
        room.memory_bytes,
        room.gpu_count,
        len(room.cpus),
        room.shared_millis,
        room.shared_members,
        frozenset(room.ports),
        frozenset((role, count) for role, count in room.roles.items() if count),
    )
