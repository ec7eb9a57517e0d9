"""The sample file: append-only JSON lines, each one write(2), so that a reader sees whole lines.

A full disk loses lines, never the training: the next line that fits starts on a line of its own.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Journal:
    """Writes the records of one attempt of one member."""

    def __init__(self, path: str, epoch: int, attempt: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._epoch = epoch
        self._attempt = attempt
        self._torn = False

    def write(self, kind: str, fields: dict[str, Any], t: float | None = None) -> None:
        record: dict[str, Any] = {
            "t": round(time.time() if t is None else t, 6),
            "kind": kind,
            "epoch": self._epoch,
            "attempt": self._attempt,
        }
        record.update(fields)
        line = json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
        if self._torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError:
            return
        self._torn = written < len(line)
