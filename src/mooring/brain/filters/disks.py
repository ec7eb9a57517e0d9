"""Disk conflicts: what is mounted elsewhere and can be mounted only once.

A disk that somebody writes is nobody else's; a `ReadWriteOncePod` claim has one user, and the
users of a `ReadWriteOnce` claim are on one node. kube-scheduler leaves the last to the attaching
of the volume, which then never ends; here such a plan is not made.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.attachments import Attachments, key_of
from mooring.brain.board import Board
from mooring.brain.layout import ALL, Mask, Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want
from mooring.model.volumes import Volume


def disks(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.volumes or board.attachments is None:
        return {}
    return {reason: mask[rows] for reason, mask in conflicts(want, board.attachments).items()}


def conflicts(want: Want, there: Attachments) -> dict[str, Mask]:
    found: dict[str, Mask] = {}
    for volume in want.volumes:
        users = there.users.get(key_of(volume)) if volume.own is None else None
        if not users:
            continue
        refused = np.ones(len(there.catalogue), dtype=bool)
        if volume.disk:
            if volume.exclusive or not volume.read_only or there.writers[volume.disk]:
                found[f"disk conflict with another user of {volume.disk}"] = refused
        elif there.catalogue.one_member(volume):
            found[f"claim {volume.claim} is in use by another member"] = refused
        elif there.catalogue.one_node(volume):
            refused[list(users)] = False
            found[_elsewhere(volume)] = refused
    return found


def _elsewhere(volume: Volume) -> str:
    return f"claim {volume.claim} is in use on another node"


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    return tuple(reason for reason, mask in disks(want, board, ALL).items() if mask[index])


add_filter("disks", disks, why, Scope.GANG)
