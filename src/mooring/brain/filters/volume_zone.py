"""Volume zone conflict: a volume that a claim already has is in one zone or region, as its labels
say, and only nodes there can mount it. Nodes that say nothing of zones are not refused."""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.storage import Catalogue
from mooring.brain.want import Want
from mooring.model.volumes import PersistentVolume

CONFLICT = "volume zone conflict"


def volume_zone(want: Want, board: Board, rows: Rows) -> Objections:
    catalogue = board.layout.catalogue
    if not want.volumes or catalogue is None:
        return {}
    refused = np.zeros(len(board.layout), dtype=bool)
    for volume in _bound(want, catalogue):
        refused |= ~catalogue.zone(volume.labels)
    return {CONFLICT: refused[rows]}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    catalogue = board.layout.catalogue
    if not want.volumes or catalogue is None:
        return ()
    wrong = [one.name for one in _bound(want, catalogue) if not catalogue.zone(one.labels)[index]]
    return (f"{CONFLICT} ({', '.join(wrong)})",) if wrong else ()


def _bound(want: Want, catalogue: Catalogue) -> list[PersistentVolume]:
    claims = [catalogue.claim_of(volume) for volume in want.volumes]
    volumes = [catalogue.bound(claim) for claim in claims if claim is not None]
    return [volume for volume in volumes if volume is not None and volume.labels]


add_filter("volume-zone", volume_zone, why, Scope.FIXED)
