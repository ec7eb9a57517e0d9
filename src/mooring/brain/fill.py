"""Placing many members of one kind at once, exactly as if one after the other.

One after the other, each member goes to the node with the highest score now, the first of equals.
A node's scores for its first, second, third such member depend on that node alone, so they are
one sequence a node, and the members take from the heads of these sequences the highest. An entry
comes out no earlier than all before it in its sequence, hence in the order of the lowest score so
far; what follows an equal or lower one in its own sequence comes out right after it. So sorting by
(lowest so far, node, place in the sequence) gives the order of the one-by-one walk. Sequences are
computed one place at a time for all nodes that may still be chosen, never one scan a member.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.brain.board import Board
from mooring.brain.layout import Amounts, Mask, Values
from mooring.brain.pool import Numbers
from mooring.brain.want import Want

Indexes = NDArray[np.intp]


@dataclass(frozen=True)
class FillStep:
    """One more member on each of these nodes, and the states that they were in before."""

    nodes: Indexes
    before: Numbers


@dataclass(frozen=True, eq=False)
class Sequence:
    """Nodes in the order of choice, the score of each choice, and what was taken to find out."""

    nodes: Indexes
    keys: Values
    steps: list[FillStep]


#: Of the nodes that can take a member, those with the highest totals, highest first, with these.
Best = tuple[Indexes, Values]


def best_of(board: Board, want: Want, count: int, allowed: Mask | None = None) -> Best:
    """As many as members can be seated first; of equals the first."""
    able = board.can_take(want)
    if allowed is not None:
        able &= allowed
    nodes = np.flatnonzero(able)
    return best_by(nodes, board.totals(want, nodes), count) if len(nodes) else (nodes, np.empty(0))


def best_by(nodes: Indexes, totals: Values, count: int) -> Best:
    if count == 1:
        at = int(np.argmax(totals))
        return nodes[at : at + 1], totals[at : at + 1]
    first = highest(totals, count)
    return nodes[first], totals[first]


def fill(
    board: Board, want: Want, count: int, allowed: Mask | None = None, best: Best | None = None
) -> Indexes:
    """Take in up to `count` such members; their nodes, in the order in which they were chosen.

    `best`: what `best_of` would say, if that is known.
    """
    nodes, totals = best_of(board, want, count, allowed) if best is None else best
    if not len(nodes):
        return nodes
    if count == 1:
        board.take(want, nodes)
        return nodes
    found = follow(board, want, count, nodes, totals)
    undo_surplus(board, want, found.steps, found.nodes)
    return found.nodes


def follow(
    board: Board,
    want: Want,
    count: int,
    nodes: Indexes,
    lowest: Values,
    limit: Amounts | None = None,
) -> Sequence:
    """The first `count` choices. `limit`: how many each node may take at most."""
    chosen, places, keys = nodes, np.zeros(len(nodes), dtype=np.intp), lowest
    steps: list[FillStep] = []
    while len(nodes):
        steps.append(FillStep(nodes, board.free.state[nodes]))
        board.take(want, nodes)
        if len(chosen) == count and places[-1] == len(steps) - 1:
            # What follows the last choice of its own node comes after it, and so too late.
            nodes, lowest = nodes[:-1], lowest[:-1]
            if not len(nodes):
                break
        able = board.can_take_another(want, nodes)
        if limit is not None:
            able &= limit[nodes] > len(steps)
        nodes, lowest = nodes[able], lowest[able]
        if len(nodes):
            lowest = np.minimum(lowest, board.totals(want, nodes))
            chosen = np.concatenate([chosen, nodes])
            places = np.concatenate([places, np.full(len(nodes), len(steps))])
            keys = np.concatenate([keys, lowest])
            order = np.lexsort((places, chosen, -keys))[:count]
            chosen, places, keys = chosen[order], places[order], keys[order]
            latest = places == len(steps)
            nodes, lowest = chosen[latest], keys[latest]
    return Sequence(chosen, keys, steps)


def undo_surplus(board: Board, want: Want, steps: list[FillStep], chosen: Indexes) -> None:
    """Nodes were asked for one more than they were chosen for, or lost to others later."""
    kept = np.bincount(chosen, minlength=len(board.layout))
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        surplus = kept[step.nodes] <= place
        if surplus.any():
            board.put_out(want, step.nodes[surplus], step.before[surplus])


def highest(values: Values, count: int) -> Indexes:
    """The positions of the `count` highest, highest first; of equals the first."""
    if len(values) > 2 * count:
        least = np.partition(values, len(values) - count)[len(values) - count]
        near = np.flatnonzero(values >= least)
    else:
        near = np.arange(len(values))
    order = np.argsort(-values[near], kind="stable")[:count]
    found: Indexes = near[order]
    return found
