"""The queue on disk: one SQLite file, one writer.

Every change of jobs is one transaction together with the events that tell of it, so that whoever
reads after a crash sees both or neither. A file that is no longer what was written is `Damaged`:
whoever opens it sets it aside and begins anew (`recovery`).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mooring.backends.local.queue.entry import EntryState, QueueEntry
from mooring.model.errors import MooringError
from mooring.record.journal import JsonValue

#: Of the tables. A file of a later version is refused, not taken for something else.
SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    phase TEXT NOT NULL,
    ended_s REAL,
    entry TEXT NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_name ON jobs (name, number);
CREATE TABLE events (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    kind TEXT NOT NULL,
    job TEXT NOT NULL,
    event TEXT NOT NULL
);
CREATE INDEX events_by_job ON events (job, place);
"""
#: Of the journal of events; the oldest go first.
MOST_EVENTS = 100_000
_TRIM_EVERY = 1000
_ENTRIES = TypeAdapter(QueueEntry)
_BUSY_TIMEOUT_S = 10.0
_Read = TypeVar("_Read")


class Damaged(MooringError):
    """The file is there and is not what was written."""


class StoreFull(MooringError):
    """The disk took nothing more; what was to be written is not there."""


@dataclass(frozen=True)
class Event:
    """Something that happened; `place` is its place in the journal."""

    place: int
    at_s: float
    kind: str
    job: str
    fields: dict[str, JsonValue]


@dataclass(frozen=True)
class NewEvent:
    """Something that has just happened, to be written with what it changed."""

    kind: str
    job: str = ""
    fields: dict[str, JsonValue] | None = None


class Store:
    """The open file. All calls come from one thread.

    `mend` is called when a reader finds it damaged; it is to write it anew (`begin_anew`), and the
    reader reads again.
    """

    def __init__(self, path: Path) -> None:
        """Open or make it. Raises Damaged, or MooringError if it cannot be used at all."""
        self._path = path
        self._since_trim = 0
        self.mend: Callable[[Damaged], None] | None = None
        self.is_new = False
        """Nothing was in it when it was opened."""
        self._open()

    def begin_anew(self) -> Path:
        """Set the file aside and go on with an empty one; where the old one is now."""
        self.close()
        kept = set_aside(self._path)
        self._open()
        return kept

    def _open(self) -> None:
        path = self._path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_TIMEOUT_S)
            path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._check()
        except sqlite3.DatabaseError as error:
            self.close()
            if is_damage(error):
                raise Damaged(f"{path}: {error}") from error
            raise MooringError(f"cannot open {path}: {error}") from error
        except (Damaged, MooringError):
            self.close()
            raise

    def _check(self) -> None:
        [version] = self._db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise MooringError(
                f"{self._path} is of a later version of Mooring (format {version}, this one has "
                f"{SCHEMA_VERSION}): use that one, or move the file away"
            )
        [verdict] = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise Damaged(f"{self._path}: {verdict}")
        self.is_new = version == 0
        if self.is_new:
            with self.transaction():
                for statement in _SCHEMA.strip().split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def close(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing. Raises Damaged or StoreFull."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._roll_back()
                raise
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error:
                self._roll_back()
                raise
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                raise Damaged(f"{self._path}: {error}") from error
            raise StoreFull(f"cannot write to {self._path}: {error}") from error

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    # -- jobs

    def next_number(self) -> int:
        """The number of the next job, never used before, also not by one that was removed."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name='jobs'").fetchone()
        return (row[0] if row else 0) + 1

    def reserve_numbers(self, last: int) -> None:
        """Give out none up to this one."""
        with self.transaction():
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = 'jobs'")
            self._db.execute("INSERT INTO sqlite_sequence VALUES ('jobs', ?)", (last,))

    def save(
        self, entries: Sequence[QueueEntry], events: Sequence[NewEvent], now_s: float
    ) -> list[Event]:
        """Write these jobs, new or changed, and what happened; the events with their places."""
        with self.transaction():
            for entry in entries:
                row = (
                    entry.number,
                    entry.id,
                    entry.name,
                    entry.state.value,
                    entry.phase.value,
                    entry.ended_s,
                    _ENTRIES.dump_json(entry).decode(),
                )
                self._db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            written = [self._append(event, now_s) for event in events]
        self._trim(len(written))
        return written

    def _append(self, event: NewEvent, now_s: float) -> Event:
        text = json.dumps(event.fields or {}, separators=(",", ":"))
        cursor = self._db.execute(
            "INSERT INTO events (at_s, kind, job, event) VALUES (?, ?, ?, ?)",
            (now_s, event.kind, event.job, text),
        )
        return Event(cursor.lastrowid or 0, now_s, event.kind, event.job, event.fields or {})

    def unfinished(self) -> list[QueueEntry]:
        """All jobs that have not ended, in the order of their numbers."""
        query = "SELECT entry FROM jobs WHERE state != ? ORDER BY number"
        return self._read(_entry, query, EntryState.ENDED)

    def find(self, job_id: str) -> QueueEntry | None:
        found = self._read(_entry, "SELECT entry FROM jobs WHERE id = ?", job_id)
        return found[0] if found else None

    def last_of_name(self, name: str) -> QueueEntry | None:
        query = "SELECT entry FROM jobs WHERE name = ? ORDER BY number DESC LIMIT 1"
        found = self._read(_entry, query, name)
        return found[0] if found else None

    def ended(
        self, *, before: int | None, limit: int, phase: str | None, name: str | None
    ) -> list[QueueEntry]:
        """Jobs that have ended, the latest first; those with a number below `before`."""
        where, values = ["state = 'ended'"], []
        for column, value in (("phase = ?", phase), ("name = ?", name), ("number < ?", before)):
            if value is not None:
                where.append(column)
                values.append(value)
        query = f"SELECT entry FROM jobs WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?"
        return self._read(_entry, query, *values, limit)

    def count_ended(self) -> int:
        return self._number("SELECT count(*) FROM jobs WHERE state = 'ended'")

    def oldest_ended(self, count: int) -> list[str]:
        """The ids of so many jobs that ended, those that were submitted first before others."""
        query = "SELECT id FROM jobs WHERE state = 'ended' ORDER BY number LIMIT ?"
        return self._read(lambda row: str(row[0]), query, count)

    def remove(self, ids: Iterable[str]) -> None:
        with self.transaction():
            for job_id in ids:
                self._db.execute("DELETE FROM jobs WHERE id = ? AND state = 'ended'", (job_id,))

    # -- events

    def events(self, after: int, limit: int, job: str | None = None) -> list[Event]:
        """Those behind this place of the journal, in their order."""
        query = "SELECT place, at_s, kind, job, event FROM events WHERE place > ?"
        values: list[object] = [after]
        if job is not None:
            query += " AND job = ?"
            values.append(job)
        return self._read(_event, f"{query} ORDER BY place LIMIT ?", *values, limit)

    def last_place(self) -> int:
        return self._number("SELECT coalesce(max(place), 0) FROM events")

    def first_place(self) -> int:
        return self._number("SELECT coalesce(min(place), 0) FROM events")

    def _trim(self, written: int) -> None:
        self._since_trim += written
        if self._since_trim >= _TRIM_EVERY:
            self._since_trim = 0
            oldest = self.last_place() - MOST_EVENTS
            with self.transaction():
                self._db.execute("DELETE FROM events WHERE place <= ?", (oldest,))

    def _number(self, query: str) -> int:
        [number] = self._read(lambda row: int(row[0]), query)
        return number

    def _read(self, of_row: Callable[[Any], _Read], query: str, *values: object) -> list[_Read]:
        """Raises StoreFull, or Damaged if nobody mends it."""
        try:
            return [of_row(row) for row in self._select(query, *values)]
        except Damaged as error:
            if self.mend is None:
                raise
            self.mend(error)
            return [of_row(row) for row in self._select(query, *values)]

    def _select(self, query: str, *values: object) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                raise Damaged(f"{self._path}: {error}") from error
            raise StoreFull(f"cannot read {self._path}: {error}") from error


def set_aside(path: Path) -> Path:
    """Move a damaged file away, with what SQLite keeps beside it; where it is now."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = path.with_name(f"{path.name}.damaged-{stamp}")
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(kept.with_name(kept.name + suffix))
    return kept


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is wrong, and not the disk full or somebody else at it."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    return primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _entry(row: Any) -> QueueEntry:
    try:
        return _ENTRIES.validate_json(row[0])
    except ValidationError as error:
        raise Damaged(f"a job's record makes no sense: {error.error_count()} fields") from error


def _event(row: Any) -> Event:
    try:
        return Event(row[0], row[1], row[2], row[3], json.loads(row[4]))
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged("an event's record makes no sense") from error
