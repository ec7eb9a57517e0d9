"""Volume binding: every claim must have a volume that the node reaches, or get one there.

A claim that has a volume goes where that volume's node affinity allows. One that waits for its
first consumer needs a volume that is there already, is free and reaches the node, or a provisioner
that may make one there. One that neither has a volume nor waits keeps its member waiting.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.attachments import Attachments
from mooring.brain.board import Board
from mooring.brain.layout import Mask, Rows
from mooring.brain.registry import Objections, add_filter
from mooring.brain.want import Want
from mooring.model.volumes import Claim

AFFINITY = "volume node affinity conflict"
NOTHING = "no available volumes to bind"


def volume_binding(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.volumes or board.attachments is None:
        return {}
    return {reason: mask[rows] for reason, mask in unbindable(want, board.attachments).items()}


def unbindable(want: Want, there: Attachments) -> dict[str, Mask]:
    catalogue = there.catalogue
    size = len(catalogue)
    found: dict[str, Mask] = {}
    waiting: list[Claim] = []
    for volume in want.volumes:
        if volume.disk:
            continue
        claim = catalogue.claim_of(volume)
        if claim is None:
            found[f"claim {volume.claim} is not there"] = np.ones(size, dtype=bool)
            continue
        has = claim.volume or there.given.get(claim.name, "")
        if has:
            known = catalogue.volumes.get(has)
            if known is None:
                found[f"volume {has} is not there"] = np.ones(size, dtype=bool)
            elif known.affinity:
                _add(found, AFFINITY, ~catalogue.reach(known.affinity))
        elif catalogue.waits(claim):
            waiting.append(claim)
        elif volume.own is None or not catalogue.class_of(claim).provisioner:
            reason = f"claim {claim.name or claim.storage_class} is unbound and does not wait"
            found[reason] = np.ones(size, dtype=bool)
    if waiting:
        _add(found, NOTHING, _without(waiting, there))
    return found


def _without(waiting: list[Claim], there: Attachments) -> Mask:
    """Nodes where these claims of one member cannot all get a volume.

    A volume that is large enough for one claim is so for every smaller one of its class: the i-th
    largest must find i of them.
    """
    catalogue = there.catalogue
    refused = np.zeros(len(catalogue), dtype=bool)
    ranks: dict[str, int] = {}
    for claim in sorted(waiting, key=lambda one: -one.request_bytes):
        kind = catalogue.class_of(claim)
        rank = ranks[kind.name] = ranks.get(kind.name, 0) + 1
        missing = there.left(claim) < rank
        if kind.provisioner:
            missing &= ~catalogue.reach(kind.topologies)
        refused |= missing
    return refused


def _add(found: dict[str, Mask], reason: str, refused: Mask) -> None:
    found[reason] = found[reason] | refused if reason in found else refused


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    row = slice(index, index + 1)
    return tuple(reason for reason, mask in volume_binding(want, board, row).items() if mask[0])


add_filter("volume-binding", volume_binding, why)
