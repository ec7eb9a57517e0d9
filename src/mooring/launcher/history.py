"""The last minutes of every member, as the first one has heard them."""

from __future__ import annotations

import json
from collections import deque

from .sharing import KEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

#: Two minutes at one sample every five seconds.
_MOST_RECENT = 24
#: Records about variables and the program; a model with more is told in part.
MOST_KEPT = 4000


#: Of all members together, as they were written: readers take no answer of over 4 MiB.
_MOST_BYTES = 32 * 1024 * 1024
#: Kinds of records of one member; the launcher writes six, one of them for each of its ranks.
_MOST_KINDS = 64


class _Kept:
    """A record, and what it takes."""

    __slots__ = ("record", "size")

    def __init__(self, record: dict[str, Any], size: int) -> None:
        self.record, self.size = record, size


class History:
    """Records by member. What an earlier attempt said is forgotten when the next one begins.

    Of what does not fit the newest is left out: a member that says too much does not cost the
    others what they said.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list[_Kept]] = {}
        self._recent: dict[str, dict[str, deque[_Kept]]] = {}
        self._bytes = 0

    def add(self, member: str, record: dict[str, Any], size: int) -> None:
        """`size`: of the line that it came in."""
        kind, one = str(record.get("kind", "")), _Kept(record, size)
        if kind == "ready":
            # A member that comes again after a lost connection says everything again.
            self._drop(self._kept.pop(member, []))
            earlier = self._recent.get(member, {}).get("sample")
            first = earlier[0].record if earlier else record
            if first.get("attempt") != record.get("attempt"):
                for old in self._recent.pop(member, {}).values():
                    self._drop(old)
        if self._bytes + size > _MOST_BYTES:
            return
        if kind == "ready" or kind in KEPT:
            kept = self._kept.setdefault(member, [])
            if len(kept) < MOST_KEPT:
                kept.append(one)
                self._bytes += size
            return
        # Each rank of a member has looks of its own.
        key = "%s %s" % (kind, record.get("r")) if kind == "looks" else kind
        kinds = self._recent.setdefault(member, {})
        if key not in kinds and len(kinds) >= _MOST_KINDS:
            return
        recent = kinds.setdefault(key, deque())
        recent.append(one)
        self._bytes += size
        if len(recent) > _MOST_RECENT:
            self._bytes -= recent.popleft().size

    def document(self) -> bytes:
        members = sorted(set(self._kept) | set(self._recent))
        body = {"members": {member: self._records(member) for member in members}}
        return json.dumps(body, separators=(",", ":")).encode("utf-8")

    def _drop(self, gone: Iterable[_Kept]) -> None:
        self._bytes -= sum(one.size for one in gone)

    def _records(self, member: str) -> list[dict[str, Any]]:
        recent = [one.record for many in self._recent.get(member, {}).values() for one in many]
        return [one.record for one in self._kept.get(member, [])] + recent
