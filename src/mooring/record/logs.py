"""Members' logs: lines of `TIME STREAM LOCAL_RANK TEXT`, as the launcher writes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FIELDS = 4


class LogLine(NamedTuple):
    """Times are UTC and of one width, so that lines of all members sort by time as they are."""

    at: str
    member: str
    text: str


def parse_log_line(line: str, member: str) -> LogLine:
    fields = line.split(" ", _FIELDS - 1)
    return LogLine(fields[0], member, fields[3] if len(fields) == _FIELDS else "")


def read_log(path: Path, member: str, last: int | None = None) -> Iterator[LogLine]:
    """The lines of one member, or only its last ones; none if it has printed nothing."""
    try:
        file = path.open("r", encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    with file:
        for line in file if last is None else deque(file, maxlen=last):
            yield parse_log_line(line.rstrip("\n"), member)
