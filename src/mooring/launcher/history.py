"""The last minutes of every member, as the first one has heard them."""

from __future__ import annotations

import json
from collections import deque

from .sharing import KEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Two minutes at one sample every five seconds.
_MOST_RECENT = 24
#: Records about variables and the program; a model with more is told in part.
MOST_KEPT = 4000


class History:
    """Records by member. What an earlier attempt said is forgotten when the next one begins."""

    def __init__(self) -> None:
        self._kept: dict[str, list[dict[str, Any]]] = {}
        self._recent: dict[str, dict[str, deque[dict[str, Any]]]] = {}

    def add(self, member: str, record: dict[str, Any]) -> None:
        kind = str(record.get("kind", ""))
        if kind == "ready":
            # A member that comes again after a lost connection says everything again.
            self._kept[member] = [record]
            first = next(iter(self._of(member, "sample")), record)
            if first.get("attempt") != record.get("attempt"):
                self._recent.pop(member, None)
        elif kind in KEPT:
            kept = self._kept.setdefault(member, [])
            if len(kept) < MOST_KEPT:
                kept.append(record)
        else:
            # Each rank of a member has looks of its own.
            key = "%s %s" % (kind, record.get("r")) if kind == "looks" else kind
            self._of(member, key).append(record)

    def document(self) -> bytes:
        members = sorted(set(self._kept) | set(self._recent))
        body = {"members": {member: self._records(member) for member in members}}
        return json.dumps(body, separators=(",", ":")).encode("utf-8")

    def _of(self, member: str, kind: str) -> deque[dict[str, Any]]:
        kinds = self._recent.setdefault(member, {})
        return kinds.setdefault(kind, deque(maxlen=_MOST_RECENT))

    def _records(self, member: str) -> list[dict[str, Any]]:
        recent = [record for records in self._recent.get(member, {}).values() for record in records]
        return self._kept.get(member, []) + recent
