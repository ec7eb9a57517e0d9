"""The queue's file: what is written is read, also by the next process, or is said to be damaged."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from mooring.backends.local.queue.documents import PromisedPlan, PromisedSlot, SupervisorName
from mooring.backends.local.queue.entry import EntryState, QueueEntry
from mooring.backends.local.queue.store import (
    MOST_EVENTS,
    Damaged,
    NewEvent,
    Store,
    StoreFull,
    set_aside,
)
from mooring.model.errors import MooringError
from mooring.model.status import Phase

SLOT = PromisedSlot(role="worker", index=3, node="n", cpus=(0, 1), gpus=(2,), exclusive=True)
ENTRY = QueueEntry(
    1,
    "nap-1",
    "nap",
    "/folder",
    "nap.yaml",
    100.5,
    members=4,
    priority="high",
    state=EntryState.RUNNING,
    plan=PromisedPlan(slots=(SLOT,), number=2),
    supervisor=SupervisorName(pid=7, mark="boot/1/2"),
    reason="Grüße\n\x00",
)


def another(number: int, **fields: object) -> QueueEntry:
    return replace(ENTRY, number=number, id=f"nap-{number}", **fields)  # type: ignore[arg-type]


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite3"
    store = Store(path)
    store.save([ENTRY], [], 1.0)
    store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Store(path)
    assert again.unfinished() == [ENTRY]
    assert again.find("nap-1") == ENTRY
    assert again.find("nap-2") is None


def test_numbers_are_never_given_twice(tmp_path: Path) -> None:
    store = Store(tmp_path / "q")
    assert store.next_number() == 1
    store.save([another(5, state=EntryState.ENDED)], [], 1.0)
    store.remove(["nap-5"])
    assert store.find("nap-5") is None
    assert store.next_number() == 6
    store.reserve_numbers(41)
    assert store.next_number() == 42


def test_a_job_that_has_not_ended_is_not_removed(tmp_path: Path) -> None:
    store = Store(tmp_path / "q")
    store.save([ENTRY], [], 1.0)
    store.remove([ENTRY.id])
    assert store.find(ENTRY.id) == ENTRY


def test_ended_jobs_are_paged_from_the_latest(tmp_path: Path) -> None:
    store = Store(tmp_path / "q")
    entries = [
        another(
            number,
            state=EntryState.ENDED,
            phase=Phase.FAILED if number % 2 else Phase.SUCCEEDED,
            ended_s=float(number),
        )
        for number in range(1, 8)
    ]
    store.save([*entries, another(8)], [], 1.0)

    def numbers(before: int | None, phase: str | None = None) -> list[int]:
        found = store.ended(before=before, limit=3, phase=phase, name=None)
        return [entry.number for entry in found]

    assert numbers(None) == [7, 6, 5]
    assert numbers(5) == [4, 3, 2]
    assert numbers(None, "Succeeded") == [6, 4, 2]
    assert store.count_ended() == 7


def test_events_are_read_behind_a_place(tmp_path: Path) -> None:
    store = Store(tmp_path / "q")
    written = store.save([], [NewEvent("a", "x"), NewEvent("b", "y", {"n": 1})], 5.0)
    assert [event.place for event in written] == [1, 2]
    assert store.events(0, 10) == written
    assert store.events(1, 10) == written[1:]
    assert store.events(0, 10, job="x") == written[:1]
    assert (store.first_place(), store.last_place()) == (1, 2)


def test_the_journal_of_events_is_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path / "q")
    for _ in range(MOST_EVENTS // 2000 + 2):
        store.save([], [NewEvent("a")] * 2000, 1.0)
    assert store.last_place() - store.first_place() < MOST_EVENTS + 2000


def test_a_change_and_its_events_are_written_together(tmp_path: Path) -> None:
    store = Store(tmp_path / "q")
    bad = NewEvent("a", fields={"no": object()})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        store.save([ENTRY], [bad], 1.0)
    assert store.unfinished() == []
    store.save([ENTRY], [NewEvent("a")], 1.0)
    assert store.last_place() == 1


@pytest.mark.parametrize("torn", ["header", "page", "record"])
def test_a_torn_file_is_damaged_not_empty(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "q"
    store = Store(path)
    store.save([another(number, reason="x" * 500) for number in range(1, 40)], [], 1.0)
    store.close()
    if torn == "record":
        database = sqlite3.connect(path)
        database.execute("UPDATE jobs SET entry = '{\"number\": 1}' WHERE number = 3")
        database.commit()
        database.close()
        with pytest.raises(Damaged):
            Store(path).unfinished()
        return
    data = bytearray(path.read_bytes())
    start = 0 if torn == "header" else 4096 * 3
    data[start : start + 2000] = b"\xa5" * 2000
    path.write_bytes(data)
    with pytest.raises(Damaged):
        Store(path).unfinished()


def test_a_damaged_file_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(Damaged):
        Store(path)
    kept = set_aside(path)
    assert kept.read_bytes().startswith(b"no database")
    assert Store(path).unfinished() == []


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q"
    Store(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(MooringError, match="later version"):
        Store(path)


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "q"
    store = Store(path)
    store.save([ENTRY], [], 1.0)
    store._db.execute("PRAGMA max_page_count=12")
    with pytest.raises(StoreFull):
        store.save([another(n, reason="x" * 5000) for n in range(2, 40)], [NewEvent("a")], 1.0)
    assert store.unfinished() == [ENTRY]
    store._db.execute("PRAGMA max_page_count=10000")
    store.save([another(2)], [NewEvent("a")], 1.0)
    assert len(store.unfinished()) == 2
