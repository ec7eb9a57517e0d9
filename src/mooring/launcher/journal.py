"""The sample file: append-only JSON lines, each one write(2), so that a reader sees whole lines.

A disk that fills up loses lines, never the training. A member that cannot even say that it is up
is another matter: nobody would ever see it.
"""

from __future__ import annotations

import json
import os
import time

from .append import AppendFile, Spare
from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


#: Of the records' format, which `mooring.wire` describes.
VERSION = 2


class AttemptJournal:
    """Writes the records of one attempt of one member; `trouble` is why the last is missing."""

    def __init__(self, path: str, epoch: int, attempt: int) -> None:
        self._path = path
        self._file = AppendFile(path)
        folder, name = os.path.split(path)
        self._spare = Spare(os.path.join(folder, ".%s.spare" % name[: -len(".jsonl")]))
        #: Records that are missing, because the disk was full.
        self.lost = 0
        self._epoch = epoch
        self._attempt = attempt
        self.trouble = ""
        self._insisted: list[dict[str, Any]] = []
        self._follower: Callable[[dict[str, Any]], None] | None = None

    def follow(self, follower: Callable[[dict[str, Any]], None]) -> None:
        """Hands over every record from here on, and first those that were insisted on before."""
        self._follower = follower
        for record in self._insisted:
            follower(record)

    def write(self, kind: str, fields: dict[str, Any], t: float | None = None) -> dict[str, Any]:
        record: dict[str, Any] = {
            "t": round(time.time() if t is None else t, 6),
            "kind": kind,
            "v": VERSION,
            "epoch": self._epoch,
            "attempt": self._attempt,
        }
        record.update(fields)
        line = json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
        _, why = self._file.append(line)
        self.lost += 1 if why else 0
        self.trouble = "sample file %s: %s" % (self._path, why) if why else ""
        if self._follower is not None:
            self._follower(record)
        return record

    def last(self, kind: str, fields: dict[str, Any]) -> None:
        """Writes the last record, for which room was kept, and in it how many are missing."""
        self._spare.give()
        self.write(kind, dict(fields, lost_records=self.lost) if self.lost else fields)

    def insist(self, kind: str, fields: dict[str, Any]) -> None:
        """Writes a record without which the member must not go on."""
        self._insisted.append(self.write(kind, fields))
        if self.trouble:
            raise LaunchError(self.trouble)
