"""What keeps a status small: an API server stores at most 1.5 MiB of a job, its spec included.

Texts come from kubelets, schedulers and programs and are cut where they are written. What only the
operator reads is packed when it is long: members of a large gang that fail one by one, each with
words of its own, would otherwise fill the status until it can no longer be written.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping

from mooring.backends.kubernetes.api.document import Json, Object, mapping, text

LONGEST_MESSAGE = 4096
LONGEST_REASON = 1024
#: Of one member, and of all members of a job together.
LONGEST_MEMBER_REASON = 200
MOST_MEMBER_REASONS = 64 * 1024
#: What is left of a member's reason once those are used up: its first word, mostly the kubelet's,
#: if that is one of not too many.
SHORT_REASON = 32
MOST_SHORT_REASONS = 32
_UNTOLD = "…"
#: A record, or a placement, that is longer than this as JSON is packed.
MOST_PLAIN_BYTES = 128 * 1024
#: Fewer members than this are never that long: their reasons, and CPUs as ranges.
FEW_MEMBERS = 64
#: How many places of a packed placement are still shown to people.
MOST_SHOWN = 256
_PACKED = "packed"
_MOST_UNPACKED_BYTES = 64 * 1024 * 1024


def cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


class MemberReasons:
    """Cuts the reasons of members, one after the other."""

    def __init__(self) -> None:
        self._left = MOST_MEMBER_REASONS
        self._short: set[str] = set()

    def cut(self, reason: str) -> str:
        whole = cut(reason, LONGEST_MEMBER_REASON)
        if len(whole) <= self._left:
            self._left -= len(whole)
            return whole
        short = cut(reason.partition(":")[0], SHORT_REASON)
        if len(self._short) < MOST_SHORT_REASONS:
            self._short.add(short)
        return short if short in self._short else _UNTOLD


def pack(status: dict[str, Json], members: int) -> dict[str, Json]:
    """The same status, with a record and a placement that are too long for people made short."""
    if members <= FEW_MEMBERS:
        return status
    record, placement = mapping(status, "record"), mapping(status, "placement")
    hidden: dict[str, Json] = {}
    written = dict(status)
    if _size(placement) > MOST_PLAIN_BYTES:
        hidden["placement"] = placement
        written["placement"] = _shown(placement)
    if hidden or _size(record) > MOST_PLAIN_BYTES:
        hidden["record"] = record
        raw = json.dumps(hidden, separators=(",", ":"), sort_keys=True).encode()
        written["record"] = {_PACKED: base64.b64encode(zlib.compress(raw)).decode("ascii")}
    return written


def unpack(status: Object) -> Object:
    """What was packed, as it was. Only the operator writes statuses, and only it reads this."""
    packed = text(status, "record", _PACKED)
    if not packed:
        return status
    reader = zlib.decompressobj()
    raw = reader.decompress(base64.b64decode(packed), _MOST_UNPACKED_BYTES)
    hidden = json.loads(raw)
    return {**status, **hidden}


def _size(value: Object) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def _shown(placement: Mapping[str, Json]) -> dict[str, Json]:
    """The first places of each role."""
    left, shown = MOST_SHOWN, dict[str, Json]()
    for role, nodes in placement.items():
        if isinstance(nodes, list) and left:
            shown[role] = nodes[:left]
            left -= len(nodes[:left])
    return shown
