"""Append-only JSON lines: the one format for events and samples.

A line is written by a single write(2) on an O_APPEND descriptor, so that writers do not mix
and a crash tears at most the last line; readers skip a torn line instead of failing.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
Line = dict[str, JsonValue]

#: One read of a tail; a line longer than this is given up rather than kept in memory for ever.
_CHUNK_BYTES = 1 << 20
#: Halves of surrogate pairs, and numbers that may be too large or none at all.
_ODD = re.compile(r"\\u[dD]|NaN|Infinity|[0-9][eE]\+?[0-9]{2}|[0-9]{19}")
#: Bytes, nanoseconds and steps of any machine are below.
_LARGEST = 1 << 62


class Journal:
    """Appends lines to one file. `close` may be called twice.

    A line that a full disk took only in part raises OSError, and never runs into the next one.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._torn = False

    def append(self, line: Mapping[str, JsonValue]) -> None:
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        # Half of a surrogate pair, as `\\udc1b`: that is how JSON itself writes it.
        data = text.encode(errors="backslashreplace") + b"\n"
        written = os.write(self._fd, b"\n" + data if self._torn else data)
        whole = len(data) + self._torn
        self._torn = written < whole
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Tail:
    """Reads what has been appended to a file since the last call, whole lines only."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self._partial = b""

    def read_text(self) -> list[str]:
        """The next lines, of a megabyte or so; empty at the end of the file."""
        while data := self._read_chunk():
            self._offset += len(data)
            *whole, self._partial = (self._partial + data).split(b"\n")
            if len(self._partial) > _CHUNK_BYTES:
                self._partial = b""
            if whole:
                return [line.decode("utf-8", "replace") for line in whole]
        return []

    def _read_chunk(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                return file.read(_CHUNK_BYTES)
        except FileNotFoundError:
            return b""

    def read(self) -> list[Line]:
        return [line for text in self.read_text() if (line := parse_line(text)) is not None]


def read_lines(path: Path) -> Iterator[Line]:
    """All whole lines of a journal; none if it does not exist."""
    try:
        file = path.open("r", encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    with file:
        for text in file:
            line = parse_line(text)
            if line is not None:
                yield line


def parse_line(text: str) -> Line | None:
    """None for what is no record."""
    try:
        value = json.loads(text)
        odd = _ODD.search(text) is not None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return {_sane_text(key): _sane(below) for key, below in value.items()} if odd else value


def _sane(value: JsonValue) -> JsonValue:
    """Nothing that cannot be counted with, printed or written again."""
    if isinstance(value, str):
        return _sane_text(value)
    if isinstance(value, int | float):
        return value if -_LARGEST <= value <= _LARGEST else None
    if isinstance(value, list):
        return [_sane(below) for below in value]
    if isinstance(value, dict):
        return {_sane_text(key): _sane(below) for key, below in value.items()}
    return value


def _sane_text(text: str) -> str:
    """Half of a surrogate pair is no text."""
    return text.encode(errors="replace").decode()
