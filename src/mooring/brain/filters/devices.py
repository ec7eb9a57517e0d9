"""The kind of devices: all of a node's must be what the member asks for.

Devices that are not healthy never count as free. On a node with several kinds nobody can say
beforehand which one a member would be handed, so such a node refuses those who care.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, Scope, add_filter
from mooring.brain.want import Want

OTHER_KIND = "devices are of another kind"


def devices(want: Want, board: Board, rows: Rows) -> Objections:
    kind = want.wish.gpu_kind
    if not kind or not want.gpus:
        return {}
    wrong = [bool(kinds) and kinds != {kind} for kinds in board.layout.gpu_kinds]
    return {OTHER_KIND: np.array(wrong, dtype=bool)[board.layout.gpu_kind_class[rows]]}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    kind = want.wish.gpu_kind
    kinds = {gpu.kind for gpu in board.layout.nodes[index].gpus}
    if not kind or not want.gpus or not kinds or kinds == {kind}:
        return ()
    return (f"{OTHER_KIND} (has {', '.join(sorted(kinds))}, wants {kind})",)


add_filter("devices", devices, why, Scope.FIXED)
