"""Would it ever fit? What a refusal says about waiting: pointless, or worth it.

Only what is proven is said: from sums, from one member against every empty node, or from an
exhaustive search on the empty cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from mooring.brain import exact, explain
from mooring.brain.board import Board
from mooring.brain.filters.resources import INSUFFICIENT
from mooring.brain.layout import ClusterLayout
from mooring.brain.presets import Recipe
from mooring.brain.trials import cannot_fit
from mooring.brain.want import Kinds, Want
from mooring.model.member import Gang


def hopeless(
    gang: Gang, recipe: Recipe, layout: ClusterLayout, wants: Iterable[Want]
) -> dict[Want, str]:
    """The wants that no node could serve even if it were empty, each with a remark or ''."""
    alone = replace(recipe, required=(), preferred=())
    board = Board(gang, alone, layout, layout.empty)
    found: dict[Want, str] = {}
    for want in dict.fromkeys(wants):
        if not board.can_take(want).any():
            found[want] = _remark(board, want)
    return found


def _remark(board: Board, want: Want) -> str:
    """A node too small for it counts as that whatever else it objects to."""
    too_small = np.zeros(len(board.layout), dtype=bool)
    for reason, mask in board.objections(want).items():
        if reason.startswith(INSUFFICIENT):
            too_small |= mask
    if not too_small.any():
        return ""
    return explain.NO_NODE_LARGE_ENOUGH if too_small.all() else explain.NOT_EVEN_EMPTY


def gang_never_fits(gang: Gang, recipe: Recipe, layout: ClusterLayout, kinds: Kinds) -> bool:
    """Is it certain that the whole gang does not fit on these nodes, whoever leaves them?"""
    if cannot_fit(Board(gang, recipe, layout, layout.empty), kinds):
        return True
    board = Board(gang, recipe, layout, layout.empty)
    return exact.search(board, kinds) is exact.NoPlan.IMPOSSIBLE
