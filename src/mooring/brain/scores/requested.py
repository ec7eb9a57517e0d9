"""How full a node would be with the member on it: four ways to like that.

All go from 0 to 1. `least-requested` and `most-requested` are the mean of the free and used parts;
`ratio` maps the used part of each resource through the profile's shape (points of utilisation in
per cent and score 0..10, straight lines between them); `balanced` is 1 minus the spread of the
used parts, so that no resource runs out long before the others.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import score_rule
from mooring.brain.want import Want

_HIGHEST = 10.0


@score_rule("least-requested")
def least_requested(want: Want, board: Board, rows: Rows) -> Values | float:
    return 1.0 - most_requested(want, board, rows)


@score_rule("most-requested")
def most_requested(want: Want, board: Board, rows: Rows) -> Values | float:
    both: Values = 0.5 * (used(want, board, rows, "cpu") + used(want, board, rows, "memory"))
    return both


@score_rule("ratio")
def ratio(want: Want, board: Board, rows: Rows) -> Values | float:
    profile = board.recipe.profile
    utilisations = [utilisation / 100 for utilisation, _ in profile.shape]
    points = [score / _HIGHEST for _, score in profile.shape]
    total = np.zeros(len(board.members[rows]))
    weights = 0.0
    for resource, weight in profile.ratio_of:
        total += weight * np.interp(used(want, board, rows, resource), utilisations, points)
        weights += weight
    return total / weights if weights else 0.0


@score_rule("balanced")
def balanced(want: Want, board: Board, rows: Rows) -> Values | float:
    resources = ("cpu", "memory", "gpu") if want.asked.gpu_millis else ("cpu", "memory")
    parts = np.stack([used(want, board, rows, resource) for resource in resources])
    spread: Values = parts.std(axis=0)
    return 1.0 - spread


@score_rule("equal")
def equal(want: Want, board: Board, rows: Rows) -> Values | float:
    """The same for all: the first node of the list wins where nothing else decides."""
    return 1.0


def used(want: Want, board: Board, rows: Rows, resource: str) -> Values:
    """The used part of a resource once the member is there, 0..1; 0 where there is none of it."""
    return board.once(resource, lambda: _used(want, board, rows, resource))


def _used(want: Want, board: Board, rows: Rows, resource: str) -> Values:
    free, layout = board.free, board.layout
    match resource:
        case "cpu":
            capacity, left, asked = layout.cpu_millis, free.cpu_millis, want.cpu_millis
        case "memory":
            capacity, left, asked = layout.memory_bytes, free.memory_bytes, want.memory_bytes
        case "gpu":
            return _used_gpus(want, board, rows)
        case name:
            nothing = np.zeros(len(layout), np.int64)
            capacity, left = layout.extended.get(name, nothing), board.extended(name)
            asked = want.asked.count(name)
    part = (capacity[rows] - left[rows] + asked) / np.maximum(capacity[rows], 1)
    return np.clip(part, 0.0, 1.0)


def _used_gpus(want: Want, board: Board, rows: Rows) -> Values:
    capacity = 1000 * board.layout.gpus[rows]
    part = (capacity - board.gpu_millis(rows) + want.asked.gpu_millis) / np.maximum(capacity, 1)
    return np.clip(part, 0.0, 1.0)
