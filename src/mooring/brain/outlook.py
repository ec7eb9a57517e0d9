"""Would it ever fit? What a refusal says about waiting: pointless, or worth it.

Only what is proven is said: from sums, from one member against every empty node, or from an
exhaustive search on the empty cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mooring.brain import exact, explain
from mooring.brain.board import Board
from mooring.brain.filters.resources import INSUFFICIENT
from mooring.brain.presets import Recipe
from mooring.brain.trials import cannot_fit
from mooring.brain.want import Want
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang
from mooring.model.plan import NodeVerdict


def hopeless(
    gang: Gang, recipe: Recipe, snapshot: Snapshot, wants: Iterable[Want]
) -> dict[Want, str]:
    """The wants that no node could serve even if it were empty, each with a remark or ''."""
    alone = replace(recipe, required=(), preferred=())
    board = Board(gang, alone, Snapshot(snapshot.nodes))
    found: dict[Want, str] = {}
    for want in dict.fromkeys(wants):
        verdicts = [answer.verdict for answer in board.ask(want)]
        if all(verdict.refused for verdict in verdicts):
            found[want] = _remark(verdicts)
    return found


def _remark(verdicts: Sequence[NodeVerdict]) -> str:
    """A node too small for it counts as that whatever else it objects to."""
    too_small = [
        any(reason.startswith(INSUFFICIENT) for reason in verdict.reasons) for verdict in verdicts
    ]
    if not any(too_small):
        return ""
    return explain.NO_NODE_LARGE_ENOUGH if all(too_small) else explain.NOT_EVEN_EMPTY


def gang_never_fits(gang: Gang, recipe: Recipe, snapshot: Snapshot, wants: Sequence[Want]) -> bool:
    """Is it certain that the whole gang does not fit on these nodes, whoever leaves them?"""
    empty = Snapshot(snapshot.nodes)
    if cannot_fit(Board(gang, recipe, empty), wants):
        return True
    board = Board(gang, recipe, empty)
    return exact.search(board, wants) is exact.Result.IMPOSSIBLE
