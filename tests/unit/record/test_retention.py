"""Old runs go, by age and number; live ones, other people's files and other folders never do."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.clean import clean
from mooring.cli.pin import pin
from mooring.model.errors import BadInput
from mooring.record import RunRecord, create_run, list_runs
from mooring.record import runs as run_directories
from mooring.record.made import FILES, IN_FOLDERS, MARK, note_copies
from mooring.record.retention import (
    EndedRun,
    KeptRuns,
    beyond,
    ended_runs,
    forget_missing,
    remove,
    size_of,
    to_remove,
)

NOBODY = 2**22 + 1  # more than a process id can be
DAY_S = 86400


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make(job: str, *, days_ago: float = 0, live: bool = False, at: Path | None = None) -> RunRecord:
    run = create_run(job, directory=at, virtual_nodes=0, source="", version="0")
    if not live:
        run = rewrite(run, pid=NOBODY)
        run.released_file.touch()
        os.utime(run.released_file, times=(ago := run.info.created_s - DAY_S * days_ago, ago))
    (run.root / "members" / "worker-0").mkdir()
    (run.root / "logs" / "worker-0.log").write_text("x" * 100_000)
    return run


def rewrite(run: RunRecord, **changed: object) -> RunRecord:
    info = replace(run.info, **changed)  # type: ignore[arg-type]
    (run.root / "run.json").write_text(json.dumps(asdict(info)))
    return RunRecord(info, run.root)


def ask(*arguments: str) -> list[str]:
    done = CliRunner().invoke(clean, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output.splitlines()


def jobs() -> list[str]:
    return sorted(run.info.job for run in list_runs())


@given(
    st.lists(st.floats(0, 100), max_size=20).map(sorted),
    st.none() | st.floats(0, 100),
    st.none() | st.integers(0, 25),
)
def test_what_goes_is_old_and_not_among_the_last(
    ends: list[float], older_than_s: float | None, keep: int | None
) -> None:
    ended = [EndedRun(None, end_s) for end_s in ends]  # type: ignore[arg-type]
    gone = to_remove(ended, 100.0, older_than_s, keep)
    assert gone == ended[: len(gone)]  # the oldest
    assert keep is None or len(ended) - len(gone) >= min(keep, len(ended))
    stays = ended[len(gone) :]
    for each in gone:
        assert older_than_s is None or 100.0 - each.ended_s > older_than_s
    for each in stays:
        young = older_than_s is not None and 100.0 - each.ended_s <= older_than_s
        assert young or (keep is not None and each in ended[max(0, len(ended) - keep) :])


def test_by_age_and_by_number(home: Path) -> None:
    for days_ago in (1, 5, 10, 20, 30):
        make(f"d{days_ago}", days_ago=days_ago)
    make("alive", days_ago=50, live=True)
    dry = ask("--older-than", "7d", "--keep", "4", "--dry-run")
    assert len(dry) == 2 and dry[0].startswith("would remove") and "d30-" in dry[0]
    assert dry[1].startswith("would remove 1 run, would free 1")
    assert len(jobs()) == 6
    said = ask("--older-than", "7d", "--keep", "4")
    assert said[-1].startswith("removed 1 run, freed 1") and said[-1].endswith("4 ended runs stay")
    assert jobs() == ["alive", "d1", "d10", "d20", "d5"]
    ask("--older-than", "7d")
    assert jobs() == ["alive", "d1", "d5"]
    ask("--keep", "1")
    assert jobs() == ["alive", "d1"]
    assert ask("--keep", "1")[-1].startswith("removed 0 runs, freed 0 B")
    assert sorted(path.name for path in home.iterdir()) == ["runs"]


def test_a_run_that_lives_or_may_live_elsewhere_stays() -> None:
    make("live", live=True)
    there = rewrite(make("there", live=True), host="another-machine", pid=NOBODY)
    program = rewrite(make("program", live=True), stops_by_signal=False)
    assert ended_runs() == []
    there.released_file.touch()
    program.released_file.touch()
    assert [each.run.info.job for each in ended_runs()] == ["there"]
    program.report_file.write_text("{}")
    assert {each.run.info.job for each in ended_runs()} == {"there", "program"}


def test_elsewhere_only_what_the_run_wrote_goes(tmp_path: Path, home: Path) -> None:
    kept = make("kept", days_ago=9, at=tmp_path / "mine")
    (kept.root / "notes.txt").write_text("precious")
    empty = make("empty", days_ago=9, at=tmp_path / "other")
    said = ask("--keep", "0")
    assert any("stays: notes.txt" in line for line in said)
    assert [path.name for path in kept.root.iterdir()] == ["notes.txt"]
    assert not empty.root.exists()
    assert list((home / "runs").iterdir()) == []


def test_what_others_put_among_its_own_stays(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "worker-0.jsonl").write_text("not Mooring's")
    run = make("kept", days_ago=9, at=tmp_path / "mine")
    (run.files_dir / "data").mkdir(parents=True)
    for name in ("train.py", "data/table", "settings"):
        (run.files_dir / name).write_text(name)
    note_copies(run)
    stays = ["bin/tool", "files/data/checkpoint", "files/settings", "logs/tensorboard"]
    (run.root / "bin").mkdir()
    (run.root / "bin" / "tool").write_text("mine")
    (run.files_dir / "data" / "checkpoint").write_text("trained for a week")
    (run.files_dir / "settings").write_text("changed by the program")
    (run.root / "logs" / "tensorboard").mkdir()
    (run.root / "logs" / "tensorboard" / "events").write_text("mine")
    (run.root / "samples").rmdir()
    (run.root / "samples").symlink_to(precious)
    [said, _] = ask("--runs", "--dry-run")[-2:]
    assert said.endswith(f"stays: {', '.join([*stays, 'samples'])}")
    ask("--runs")
    left = {path.relative_to(run.root).as_posix() for path in run.root.rglob("*")}
    assert {*stays, "logs/tensorboard/events", "samples"} <= left
    assert not {"run.json", "files/train.py", "files/data/table", "logs/worker-0.log"} & left
    assert (precious / "worker-0.jsonl").exists()


def test_a_folder_with_another_mark_is_left_alone(tmp_path: Path, home: Path) -> None:
    run = make("mine", days_ago=9, at=tmp_path / "mine")
    other = make("other", days_ago=9, at=tmp_path / "other")
    link = home / "runs" / run.info.id
    link.unlink()
    link.symlink_to(other.root)
    removed = remove(EndedRun(run, 0.0), dry_run=False)
    assert removed.freed_bytes == 0 and "another run's mark" in removed.stays[0]
    assert (run.root / "logs").exists() and (other.root / "logs").exists()


def test_links_to_nowhere_are_forgotten(tmp_path: Path, home: Path) -> None:
    run = make("gone", at=tmp_path / "mine")
    (home / "runs" / run.info.id).unlink()
    (home / "runs" / "lost").symlink_to(tmp_path / "nothing")
    assert [path.name for path in forget_missing(dry_run=True)] == ["lost"]
    forget_missing(dry_run=False)
    assert list((home / "runs").iterdir()) == []


@pytest.mark.parametrize("age", ["", "7", "d", "-1d", "1y", "7d ", "1e9d", "7dd"])
def test_a_wrong_age_is_refused(age: str) -> None:
    with pytest.raises(BadInput, match=r"--older-than: found .* 7d or 4w"):
        ask("--older-than", age)


def test_all_that_a_run_writes_is_known() -> None:
    """Else it would stay behind in a directory that the user chose."""
    listed = [line.split("/")[0].split()[0] for line in documented()]
    assert len(listed) > 10 and set(listed) <= {*FILES, *IN_FOLDERS, MARK}


def documented() -> list[str]:
    assert run_directories.__doc__ is not None
    return [line for line in run_directories.__doc__.splitlines()[2:] if line.strip()]


def test_what_a_service_keeps_is_within_each_of_its_limits(home: Path) -> None:
    for days_ago in (1, 5, 10, 20, 30):
        make(f"d{days_ago}", days_ago=days_ago)
    ended = ended_runs()
    now_s = time.time()

    def gone(**limits: float) -> list[str]:
        chosen = beyond(ended, KeptRuns(**limits), now_s)  # type: ignore[arg-type]
        return [each.run.info.job for each in chosen]

    assert gone() == []
    assert gone(most_runs=3) == ["d30", "d20"]
    assert gone(most_age_s=7 * 86400) == ["d30", "d20", "d10"]
    assert gone(most_runs=3, most_age_s=7 * 86400) == ["d30", "d20", "d10"]
    one = size_of(ended[0].run.root)
    assert gone(most_bytes=2 * one + one // 2) == ["d30", "d20", "d10"]
    assert gone(most_bytes=0) == ["d30", "d20", "d10", "d5", "d1"]


def test_a_pinned_run_stays_and_counts(home: Path) -> None:
    for days_ago in (1, 5, 10):
        make(f"d{days_ago}", days_ago=days_ago)
    name = next(run.info.id for run in list_runs() if run.info.job == "d10")
    said = CliRunner().invoke(pin, [name])
    assert said.output == f"{name} is pinned\n"
    kept = KeptRuns(most_runs=1)
    assert [each.run.info.job for each in beyond(ended_runs(), kept, time.time())] == ["d5"]
    ask("--keep", "0")
    assert jobs() == ["d10"]
    CliRunner().invoke(pin, ["--off", name])
    ask("--keep", "0")
    assert jobs() == []
