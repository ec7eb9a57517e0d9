"""Files that grow by lines, read while they grow; and what JSON documents consist of."""

from __future__ import annotations

import json
import re
from pathlib import Path

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
Line = dict[str, JsonValue]

#: One read of a tail; a line longer than this is given up rather than kept in memory for ever.
_CHUNK_BYTES = 1 << 20
#: Halves of surrogate pairs, and numbers that may be too large or none at all.
_ODD = re.compile(r"\\u[dD]|NaN|Infinity|[0-9][eE]\+?[0-9]{2}|[0-9]{19}")
#: Bytes, nanoseconds and steps of any machine are below.
_LARGEST = 1 << 62


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


def parse_line(text: str) -> Line | None:
    """The JSON object in a line, for those who pass it on as it is; None if there is none."""
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
