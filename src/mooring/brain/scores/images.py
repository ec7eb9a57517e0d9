"""Image locality: how much of the member's image need not be fetched, 0..1.

As kube-scheduler counts it: the size of the image on the node times the part of all nodes that
have it, so that one node with a rare image does not draw everybody; below 23 MiB nothing, from
1000 MiB on everything.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.brain.registry import Scope, score_rule
from mooring.brain.want import Want

_MIB = 1 << 20
_LEAST_BYTES = 23 * _MIB
_MOST_BYTES = 1000 * _MIB


@score_rule("images", Scope.FIXED)
def images(want: Want, board: Board, rows: Rows) -> Values | float:
    layout = board.layout
    if not want.image or not any(layout.images):
        return 0.0
    sought = full_name(want.image)
    sizes = np.array([_bytes_of(sought, known) for known in layout.images])[layout.image_class]
    scaled = sizes * (np.count_nonzero(sizes) / len(layout))
    found: Values = (np.clip(scaled, _LEAST_BYTES, _MOST_BYTES) - _LEAST_BYTES) / (
        _MOST_BYTES - _LEAST_BYTES
    )
    return found[rows]


def full_name(image: str) -> str:
    """With the tag that a registry assumes: the last part of a name has none before a colon."""
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"


def _bytes_of(sought: str, known: tuple[tuple[str, int], ...]) -> float:
    return float(next((size for name, size in known if full_name(name) == sought), 0))
