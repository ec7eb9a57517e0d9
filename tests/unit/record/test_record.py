"""Run directories: append-only, readable after a crash, found again by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.model.errors import BadInput
from mooring.model.status import Phase
from mooring.record import (
    Tail,
    create_run,
    find_run,
    holding_runs,
    list_runs,
    logs,
    runs,
)
from mooring.record.locks import NumberedLocks, exclusive
from mooring.record.logs import LogLine, LogTail, NewLines
from mooring.record.process_mark import is_alive
from mooring.report.finish import read_report
from mooring.wire import Journal
from mooring.wire.events import NotesLost, PhaseChanged


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make(job: str, directory: Path | None = None) -> str:
    run = create_run(job, directory=directory, virtual_nodes=0, source="", version="0")
    return run.info.id


def test_a_tail_gives_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.read_text() == []
    path.write_bytes(b"one\ntw")
    assert tail.read_text() == ["one"]
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert tail.read_text() == ["two", "three"]
    assert tail.read_text() == []


def test_a_run_is_found_by_id_beginning_job_path_and_last(tmp_path: Path) -> None:
    first, second = make("one"), make("two", tmp_path / "kept")
    assert [run.info.id for run in list_runs()] == [first, second]
    assert find_run("last").info.id == second
    assert find_run("two").info.id == second
    assert find_run(first).info.id == first
    assert find_run(first[:-2]).info.id == first
    assert find_run(str(tmp_path / "kept")).info.id == second


def test_the_latest_run_of_a_job_is_meant_by_its_name() -> None:
    make("same")
    latest = make("same")
    assert find_run("same").info.id == latest


@pytest.mark.parametrize("name", ["nothing", "./nowhere", ""])
def test_an_unknown_run_is_bad_input(name: str) -> None:
    make("one")
    make("two")
    with pytest.raises(BadInput):
        find_run(name)


def test_an_ambiguous_beginning_names_the_candidates() -> None:
    first, second = make("deep-a"), make("deep-b")
    with pytest.raises(BadInput, match="several runs begin") as caught:
        find_run("deep")
    assert first in str(caught.value)
    assert second in str(caught.value)


def test_a_run_does_not_overwrite_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine").touch()
    with pytest.raises(BadInput, match="empty folder"):
        make("one", tmp_path / "kept")
    assert list_runs() == []


def test_an_unreadable_run_directory_is_passed_over(home: Path) -> None:
    make("one")
    (home / "runs" / "broken").mkdir()
    (home / "runs" / "broken" / "run.json").write_text('{"id": 1')
    assert len(list_runs()) == 1


def test_a_process_is_known_by_its_start_too() -> None:
    run = create_run("me", directory=None, virtual_nodes=0, source="", version="0")
    assert run.alive()
    boot, namespace, ticks = run.info.pid_mark.split("/")
    assert not is_alive(os.getpid(), f"{boot}/{namespace}/{int(ticks) + 1}")


def test_numbered_locks_exclude_each_other_within_one_process(tmp_path: Path) -> None:
    first, second = NumberedLocks(tmp_path / "l"), NumberedLocks(tmp_path / "l")
    assert first.take(7)
    assert not first.take(7)
    assert not second.take(7)
    assert second.take(8)
    first.release(7)
    assert second.take(7)
    second.close()
    assert first.take(8)
    first.close()


def log_text(count: int, first: int = 0) -> str:
    return "".join(f"2026-01-01T00:00:00.000000Z out 0 line {n}\n" for n in range(first, count))


def test_a_log_is_followed_and_what_was_left_out_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.log"
    tail = LogTail(path, "worker-0")
    assert tail.read(10) == NewLines([])
    path.write_text(log_text(3) + "2026-01-01T00:00:00.000000Z err 0 half")
    assert [line.text for line in tail.read(10).lines] == ["line 0", "line 1", "line 2"]
    with path.open("a") as file:
        file.write(" a line\n")
    assert tail.read(10).lines == [
        LogLine("2026-01-01T00:00:00.000000Z", "worker-0", "half a line", "err")
    ]
    with path.open("a") as file:
        file.write(log_text(1000))
    found = tail.read(2)
    assert [line.text for line in found.lines] == ["line 998", "line 999"]
    assert (found.skipped, found.exact) == (998, True)
    with path.open("a") as file:
        file.write("2026-01-01T00:00:00.000000Z err 0 no data\n" + log_text(1000))
    found = tail.read(2)
    assert [line.text for line in found.lines] == ["no data", "line 998", "line 999"]
    assert found.skipped == 998
    assert tail.waiting_bytes() == 0


@pytest.mark.parametrize("counted", [1 << 30, 1 << 20])
def test_of_a_long_log_only_the_end_is_taken_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: int
) -> None:
    monkeypatch.setattr(logs, "_COUNTED_BYTES", counted)
    path = tmp_path / "worker-0.log"
    count = 100_000
    path.write_text(log_text(count))
    found = LogTail(path, "worker-0").read(10**9)
    assert found.lines[-1].text == f"line {count - 1}"
    assert sum(len(line.text) for line in found.lines) < 1 << 20
    assert found.exact is (counted > path.stat().st_size)
    assert found.skipped + len(found.lines) == pytest.approx(count, rel=0.05)
    if found.exact:
        assert found.skipped + len(found.lines) == count


@pytest.mark.parametrize(("asked", "texts"), [(0, []), (2, ["line 1", "line 2"]), (9, None)])
def test_a_log_can_be_followed_from_its_last_lines(
    tmp_path: Path, asked: int, texts: list[str] | None
) -> None:
    path = tmp_path / "worker-0.log"
    path.write_text(log_text(3))
    tail = LogTail(path, "worker-0")
    tail.start_at_last(asked)
    everything = ["line 0", "line 1", "line 2"]
    expected = everything if texts is None else texts
    assert [line.text for line in tail.read(100).lines] == expected


def test_runs_hold_something_until_they_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make("a"), make("b")
    assert {run.info.id for run in holding_runs()} == {first, second}
    find_run(first).released_file.touch()
    assert [run.info.id for run in holding_runs()] == [second]
    monkeypatch.setattr(runs, "is_alive", lambda pid, mark: False)
    assert holding_runs() == []
    assert {run.info.id for run in list_runs()} == {first, second}


def test_the_time_of_a_lock_is_that_of_letting_go(tmp_path: Path) -> None:
    """Whoever looks while it is held, and remembers this time, has to look again afterwards."""
    lock = tmp_path / "plan"
    lock.touch()
    os.utime(lock, (1, 1))
    with exclusive(lock):
        assert lock.stat().st_mtime == 1
    assert lock.stat().st_mtime > 1


def test_entries_that_a_full_disk_did_not_take_are_told() -> None:
    run = find_run(make("full"))
    journal = Journal(run.events_file)
    journal.append(NotesLost(1.0, 7))
    journal.append(PhaseChanged(1.0, Phase.SUCCEEDED))
    journal.close()
    report = read_report(run)
    assert report.phase == "Succeeded"
    assert "7 entries of the run's own record were lost: the disk was full" in report.notes
