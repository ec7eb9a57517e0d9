"""Journals: append-only JSON lines, the one format for events and samples.

A line is written by a single write(2) on an O_APPEND descriptor, so that writers do not mix and a
crash tears at most the last line. Readers pass over lines that are no records and kinds that they
do not know. A record of a newer version is refused: what it says is not taken for nothing.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from mooring.model.errors import BadInput
from mooring.record.journal import Tail
from mooring.wire.errors import NewerVersion, UnreadableRecord
from mooring.wire.record import Record
from mooring.wire.records import read_record, to_json

R = TypeVar("R", bound=Record)

_decode = json.JSONDecoder().decode
_CHUNK_BYTES = 1 << 20
#: A longer line is given up rather than kept in memory.
_LONGEST_LINE_BYTES = 1 << 20


class Journal:
    """Appends records to one file. `close` may be called twice.

    A line that a full disk took only in part raises OSError, and never runs into the next one.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._torn = False

    def append(self, record: Record) -> None:
        text = json.dumps(to_json(record), separators=(",", ":"), ensure_ascii=False)
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


class JournalTail:
    """Reads the records that were appended to a file since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tail = Tail(path)

    def read(self) -> list[Record]:
        """Those of the next megabyte or so; empty at the end of the file.

        Raises BadInput for a journal of a newer version.
        """
        while lines := self._tail.read_text():
            read = (_read_line(line, self._path) for line in lines)
            if records := [record for record in read if record is not None]:
                return records
        return []


def read_journal(path: Path, record_type: type[R]) -> Iterator[R]:
    """The records of one type, or of all for `Record`; none if there is no such file.

    Raises BadInput for a journal of a newer version.
    """
    # A line without the kind's name is passed over unread: most are.
    name = f'"{record_type.kind}"' if record_type.kind else ""
    for line in _lines(path):
        if name in line:
            record = _read_line(line, path)
            if isinstance(record, record_type):
                yield record


def _lines(path: Path) -> Iterator[str]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    begun = b""
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            whole, newline, rest = chunk.rpartition(b"\n")
            if newline:
                yield from (begun + whole).decode("utf-8", "replace").split("\n")
                begun = rest
            else:
                begun = begun + rest if len(begun) < _LONGEST_LINE_BYTES else b""
    if begun:
        yield begun.decode("utf-8", "replace")


def _read_line(line: str, path: Path) -> Record | None:
    """None for what is no record, such as a line that a crash has torn."""
    try:
        return read_record(_decode(line))
    except NewerVersion as error:
        raise newer_journal(str(path), error) from None
    except (UnreadableRecord, ValueError, RecursionError):
        return None


def newer_journal(source: str, error: NewerVersion) -> BadInput:
    return BadInput.at(
        source,
        "v",
        f"{error.version}, the version of a newer Mooring",
        f"up to {error.newest}: use the Mooring that made it, or a later one",
    )
