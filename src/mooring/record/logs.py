"""Members' logs: lines of `TIME STREAM LOCAL_RANK TEXT`, as the launcher writes them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_FIELDS = 4
#: Of what is new in a log at most this is taken into memory; lines before it are only counted.
_WINDOW_BYTES = 1 << 20
#: Lines are counted in at most so many bytes at a time; in more than that they are estimated.
_COUNTED_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
_NEAR_BYTES = 4096
_ERRORS = 30
_LONGEST_RANK = 6


class LogLine(NamedTuple):
    """Times are UTC and of one width: they sort as they are. Lines of one read share a time, so
    sort by `at` alone, which keeps their order. `stream` is `out` or `err`, `rank` the local one.
    """

    at: str
    member: str
    text: str
    stream: str = "out"
    rank: int = 0


class NewLines(NamedTuple):
    """What a log has grown by: the last lines of it, and how many before them were left out."""

    lines: list[LogLine]
    skipped: int = 0
    exact: bool = True


def parse_log_line(line: str, member: str) -> LogLine:
    fields = line.split(" ", _FIELDS - 1)
    if len(fields) < _FIELDS:
        return LogLine(fields[0], member, "")
    rank = int(fields[2]) if fields[2].isdecimal() and len(fields[2]) <= _LONGEST_RANK else 0
    return LogLine(fields[0], member, fields[3], fields[1], rank)


def read_log(path: Path, member: str, last: int | None = None) -> Iterator[LogLine]:
    """The lines of one member, or only its last ones; none if it has printed nothing."""
    try:
        file = path.open("r", encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    with file:
        for line in file if last is None else deque(file, maxlen=last):
            yield parse_log_line(line.rstrip("\n"), member)


class LogTail:
    """Reads what is appended to one member's log, at a bounded cost however much that is.

    The file is the buffer: what is not read yet takes no memory.
    """

    def __init__(self, path: Path, member: str) -> None:
        self.member = member
        self.offset = 0
        self._path = path

    def start_at_last(self, lines: int) -> None:
        """Leave out all but the last `lines` of what is there now, without counting it."""
        try:
            with self._path.open("rb") as file:
                end = _end_of_last_line(file)
                begin = max(0, end - _WINDOW_BYTES)
                file.seek(begin)
                data = file.read(end - begin)
        except FileNotFoundError:
            return
        kept = data.splitlines(keepends=True)[-lines:] if lines else []
        self.offset = end - sum(map(len, kept))

    def waiting_bytes(self) -> int:
        """How much there is that was not read yet."""
        try:
            return max(0, self._path.stat().st_size - self.offset)
        except FileNotFoundError:
            return 0

    def read(self, most: int) -> NewLines:
        """The last `most` whole lines since the previous call, and some of standard error before
        them; the others count as skipped.
        """
        try:
            with self._path.open("rb") as file:
                end = _end_of_last_line(file)
                if end <= self.offset:
                    return NewLines([])
                begin, skipped, exact = self._skip(file, end - _WINDOW_BYTES)
                file.seek(begin)
                data = file.read(end - begin)
        except FileNotFoundError:
            return NewLines([])
        self.offset = end
        lines = data.decode("utf-8", "replace").split("\n")[:-1]
        cut = max(0, len(lines) - most)
        # What a program says on standard error while it floods standard output is no flood.
        errors = [line for line in lines[:cut] if line.split(" ", 2)[1:2] == ["err"]][-_ERRORS:]
        kept = [parse_log_line(line, self.member) for line in [*errors, *lines[cut:]]]
        return NewLines(kept, skipped + len(lines) - len(kept), exact)

    def _skip(self, file: BinaryIO, target: int) -> tuple[int, int, bool]:
        """The first line that begins at `target` or later, and how many lines come before it."""
        at = self.offset
        if target <= at:
            return at, 0, True
        file.seek(at)
        counted = 0
        while at < target and at - self.offset < _COUNTED_BYTES:
            chunk = file.read(min(_CHUNK_BYTES, target - at))
            counted += chunk.count(b"\n")
            at += len(chunk)
        exact = at >= target
        if not exact:
            counted = counted * (target - self.offset) // (at - self.offset)
        file.seek(target)
        rest = file.readline()
        return target + len(rest), counted + 1, exact


def _end_of_last_line(file: BinaryIO) -> int:
    """Where the last whole line ends; a line that is being written is left for later."""
    end = file.seek(0, os.SEEK_END)
    # Most often the last byte ends a line: look at little first.
    for window in (_NEAR_BYTES, _WINDOW_BYTES):
        begin = max(0, end - window)
        file.seek(begin)
        newline = file.read(end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
    return 0
