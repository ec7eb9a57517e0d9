"""Exhaustive search for small gangs: what the ordered passes miss, this finds, or proves absent.

Depth first, the hardest member first, over nodes by score. Of interchangeable members, and of
nodes in the same state, only one order is tried; what is known to fail is not entered again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum

import numpy as np

from mooring.brain.attempt import lonely
from mooring.brain.board import Board
from mooring.brain.domains import even
from mooring.brain.trials import hardest_first
from mooring.brain.want import Kinds

MOST_MEMBERS = 8
MOST_NODES = 8
#: About a second of looking; nearly all instances of this size need less than a hundredth.
_MOST_STEPS = 5_000


class NoPlan(Enum):
    IMPOSSIBLE = "impossible"
    GAVE_UP = "gave up"


def search(board: Board, kinds: Kinds) -> Mapping[int, int] | NoPlan:
    """Position -> node index for all members, or that there is no such plan."""
    if len(kinds) > MOST_MEMBERS or len(board.layout) > MOST_NODES:
        return NoPlan.GAVE_UP
    order = hardest_first(board, kinds)
    # Equal wants side by side, so that their permutations are tried once.
    first = {number: rank for rank, number in reversed(list(enumerate(kinds.of[i] for i in order)))}
    order = tuple(sorted(order, key=lambda i: (first[kinds.of[i]], i)))
    sought = {want.wish.node for want in kinds.wants}
    if any(want.volumes for want in kinds.wants):
        sought.update(board.layout.index)  # what is mounted where tells any two nodes apart
    alike = [_kind(board, index, sought) for index in range(len(board.layout))]
    seen: set[Hashable] = set()
    chosen: dict[int, int] = {}
    steps = 0

    def descend(depth: int) -> bool:
        nonlocal steps
        if depth == len(order):
            return not any(
                lonely(rule, kinds[i].role, index, board)
                for i, index in chosen.items()
                for rule in board.required
            ) and even(board, kinds.wants)
        position = order[depth]
        want = kinds[position]
        lowest = 0
        if depth and kinds.of[order[depth - 1]] == kinds.of[position]:
            lowest = chosen[order[depth - 1]]
        states = _states(board)
        state = (depth, lowest, states)
        if state in seen:
            return False
        nodes = np.flatnonzero(board.can_take(want, for_good=True))
        nodes = nodes[nodes >= lowest]
        totals = dict(zip(nodes.tolist(), board.totals(want, nodes).tolist(), strict=True))
        # Nodes that cannot be told apart: the first stands for all.
        distinct = {(alike[index], states[index]): index for index in reversed(totals)}
        candidates = sorted(distinct.values(), key=lambda index: (-totals[index], index))
        board.untried[want.role] -= 1
        for index in candidates:
            if steps >= _MOST_STEPS:
                break
            steps += 1
            row = np.array([index])
            before = board.free.state[row]
            board.take(want, row)
            chosen[position] = index
            if descend(depth + 1):
                return True
            del chosen[position]
            board.put_out(want, row, before)
        board.untried[want.role] += 1
        seen.add(state)
        return False

    if descend(0):
        return chosen
    return NoPlan.GAVE_UP if steps >= _MOST_STEPS else NoPlan.IMPOSSIBLE


def in_turn(board: Board, kinds: Kinds, found: Mapping[int, int]) -> tuple[int, ...]:
    """The positions in an order in which each node can take its member when its turn comes, as far
    as there is one: evenness over domains depends on who comes first."""
    if not board.gang.spreads:
        return tuple(found)
    left, order = list(found), []
    while left:
        ready = (each for each in left if board.can_take(kinds[each])[found[each]])
        position = next(ready, left[0])
        left.remove(position)
        order.append(position)
        board.take(kinds[position], np.array([found[position]]))
        board.untried[kinds[position].role] -= 1
    return tuple(order)


def _kind(board: Board, index: int, sought: set[str]) -> Hashable:
    layout = board.layout
    name = layout.nodes[index].name
    return (
        layout.label_class[index],
        layout.taint_class[index],
        layout.overlapping[index],
        layout.device_class[index],
        layout.policy_class[index],
        layout.image_class[index],
        name if name in sought else "",
    )


def _states(board: Board) -> tuple[Hashable, ...]:
    """Of each node, all that decides what else it can take."""
    free = board.free
    # A kubelet looks at each CPU, and so do shares at each card; otherwise counts are enough.
    by_state = board.layout.kubelets is not None or board.layout.pool.shares
    exactly = free.state if by_state else np.zeros_like(free.state)
    columns = (
        exactly.tolist(),
        free.cpu_millis.tolist(),
        free.memory_bytes.tolist(),
        free.gpus.tolist(),
        board.layout.pool.free_cpus[free.state].tolist(),
        free.shared_millis.tolist(),
        free.sharers.tolist(),
        zip(*(board.extended(name).tolist() for name in board.layout.extended), strict=True)
        if board.layout.extended
        else [()] * len(board.layout),
        [board.ports_in_use(index) for index in range(len(board.layout))],
        zip(*(board.role(role).tolist() for role in board.sizes), strict=True),
    )
    return tuple(zip(*columns, strict=True))
