"""Kind, memory and health of devices: all of a node's must be what the member asks for.

Devices that are not healthy never count as free; a node with too few others says so. On a node with
several kinds nobody can say beforehand which one a member would be handed, so such a node refuses
those who care.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Devices, Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want
from mooring.model.resources import format_memory

OTHER_KIND = "devices are of another kind"
TOO_SMALL = "devices have too little memory"
BROKEN = "too few healthy devices"


def devices(want: Want, board: Board, rows: Rows) -> Objections:
    if not want.gpus and not want.gpu_share:
        return {}
    found: Objections = {}
    known = board.layout.devices
    for reason in (OTHER_KIND, TOO_SMALL, BROKEN):
        refused = [bool(_why(want, reason, has)) for has in known]
        if any(refused):
            found[reason] = np.array(refused, dtype=bool)[board.layout.device_class[rows]]
    return found


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    if not want.gpus and not want.gpu_share:
        return ()
    has = board.layout.devices[board.layout.device_class.item(index)]
    said = [(reason, _why(want, reason, has)) for reason in (OTHER_KIND, TOO_SMALL, BROKEN)]
    return tuple(f"{reason} ({detail})" for reason, detail in said if detail)


def _why(want: Want, reason: str, has: Devices) -> str:
    """Empty if a node with such devices has nothing to object."""
    if not has.count:
        return ""
    if reason == OTHER_KIND:
        kind = want.wish.gpu_kind
        if not kind or has.kinds == {kind}:
            return ""
        kinds = ", ".join(sorted(one or "of unknown kind" for one in has.kinds))
        return f"has {kinds}, wants {kind}"
    if reason == TOO_SMALL:
        memory_bytes = want.wish.gpu_memory_bytes
        if not has.healthy or has.memory_bytes >= memory_bytes:
            return ""
        known = format_memory(has.memory_bytes) if has.memory_bytes else "an unknown amount"
        return f"has {known}, wants {format_memory(memory_bytes)}"
    if has.healthy < (want.gpus or 1) <= has.count:
        return f"{has.healthy} of {has.count}"
    return ""


add_filter("devices", devices, why, Scope.FIXED)
