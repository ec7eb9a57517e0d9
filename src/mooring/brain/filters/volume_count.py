"""Volume count: a driver attaches only so many volumes to a node.

Each volume counts once on a node, however many members there mount it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from mooring.brain.attachments import Attachments, key_of
from mooring.brain.board import Board
from mooring.brain.layout import Amounts, ClusterLayout, Rows
from mooring.brain.registry import Objections, add_filter
from mooring.brain.want import Want

EXCEEDED = "too many volumes of"


def volume_count(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.volumes or board.attachments is None:
        return {}
    found: Objections = {}
    for driver, more in _more(want, board.attachments).items():
        left = spare(driver, board.layout, board.attachments)
        if left is not None:
            found[f"{EXCEEDED} {driver}"] = ((more > 0) & (more > left))[rows]
    return found


def exceeded(want: Want, layout: ClusterLayout, there: Attachments, node: int) -> bool:
    """Would one such member more be too much for this node?"""
    for driver, more in _more(want, there).items():
        left = spare(driver, layout, there)
        if left is not None and 0 < more[node] > left[node]:
            return True
    return False


def spare(driver: str, layout: ClusterLayout, there: Attachments) -> Amounts | None:
    """How many volumes the driver may still attach, by node; None if no node limits it."""
    limits = layout.volume_limits.get(driver)
    return None if limits is None else limits - there.counts(driver)


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    there = board.attachments
    reasons = []
    for reason, mask in volume_count(want, board, slice(index, index + 1)).items():
        if mask[0] and there is not None:
            driver = reason.removeprefix(f"{EXCEEDED} ")
            left = spare(driver, board.layout, there)
            assert left is not None
            reasons.append(f"{reason} (can attach {max(0, int(left[index]))} more)")
    return tuple(reasons)


def _more(want: Want, there: Attachments) -> dict[str, Amounts]:
    """By driver: how many volumes the member would add, by node."""
    size = len(there.catalogue)
    own: Counter[str] = Counter()
    found: dict[str, Amounts] = {}
    for volume in dict.fromkeys(want.volumes):
        driver = there.catalogue.driver(volume)
        if not driver:
            continue
        new = found.setdefault(driver, np.zeros(size, dtype=np.int64))
        if volume.own is not None:
            own[driver] += want.volumes.count(volume)
            continue
        new += 1
        new[list(there.users.get(key_of(volume), ()))] -= 1
    for driver, count in own.items():
        found[driver] += count
    return found


add_filter("volume-count", volume_count, why)
