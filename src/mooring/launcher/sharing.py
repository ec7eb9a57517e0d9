"""What of a member's journal the first member hears: enough to say why the job is slow.

In pods the journals stay with their members. The first one keeps the last minutes of everybody, so
that one question answers for the gang. Samples are passed on every few seconds and steps summed up
between them; a gang of hundreds then costs its first member some lines a second.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

EVERY_S = 5.0
#: Records that are passed on as they are, and again when the connection was lost.
KEPT = frozenset(["ready", "variables"])
#: Of the bytes to each peer, there are as many as members.
_LEFT_OUT = frozenset(["peers"])


class Sharing:
    """Follows a journal; `pass_on` gets what is worth it."""

    def __init__(self, pass_on: Callable[[dict[str, Any]], None]) -> None:
        self._pass_on = pass_on
        self._last_s = 0.0
        self._step: dict[str, Any] = {}

    def __call__(self, record: dict[str, Any]) -> None:
        kind = record["kind"]
        if kind in KEPT:
            self._pass_on(record)
        elif kind == "step":
            self._add(record)
        elif kind == "sample" and record["t"] - self._last_s >= EVERY_S:
            self._last_s = record["t"]
            self._pass_on({key: record[key] for key in record if key not in _LEFT_OUT})
            if self._step:
                self._pass_on(self._step)
                self._step = {}

    def _add(self, record: dict[str, Any]) -> None:
        """Ranks of one member step together: only the first one's count as steps."""
        before = self._step
        self._step = dict(record, examples=_sum(before, record, "examples"))
        if record.get("r"):
            self._step.update({key: before[key] for key in ("r", "step", "n") if key in before})
        else:
            self._step["n"] = _sum(before, record, "n")


def _sum(before: dict[str, Any], record: dict[str, Any], key: str) -> int:
    return (before.get(key) or 0) + (record.get(key) or 0)
