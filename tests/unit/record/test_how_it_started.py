"""What a run was started with, and what is different when it is repeated."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mooring.record import RunRecord, create_run
from mooring.record.start import Start, changes_since, read_start, write_start


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    return create_run("job", directory=None, virtual_nodes=0, source="", version="0")


def test_it_comes_back_as_it_was_written(run: RunRecord) -> None:
    start = Start("/x", 100, "/p", "3.11.7", "why", {"/a": "h"}, ("/e",), ("A",), {"B": "1"})
    write_start(run, start)
    assert read_start(run) == start


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"folder": 1', '{"nic_mbps": 3}'])
def test_a_record_that_cannot_be_read_is_none(run: RunRecord, text: str) -> None:
    run.start_file.write_text(text)
    assert read_start(run) is None


def test_fields_of_a_later_version_are_passed_over(run: RunRecord) -> None:
    run.start_file.write_text('{"folder": "/x", "later": 1}')
    assert read_start(run) == Start("/x")


def test_what_is_different_is_named(tmp_path: Path) -> None:
    same, other, gone = (tmp_path / name for name in ("same.py", "other.py", "gone.py"))
    same.write_text("1")
    other.write_text("2")
    start = Start(
        str(tmp_path),
        hashes={
            str(same): hashlib.sha256(b"1").hexdigest(),
            str(other): "before",
            str(gone): "before",
        },
        names=("TOKEN", "KEPT"),
        values={"OMP_NUM_THREADS": "4", "NCCL_DEBUG": "INFO", "TF_X": "1"},
    )
    now = {"KEPT": "x", "OMP_NUM_THREADS": "8", "TF_X": "1"}
    assert changes_since(start, now, with_programs=True) == [
        f"{other} has changed",
        f"{gone} is gone",
        "not set any more: NCCL_DEBUG, TOKEN",
        "OMP_NUM_THREADS was 4, is 8",
    ]
    assert len(changes_since(start, now, with_programs=False)) == 2
