"""What a real run has written goes with it, wherever its user put it."""

from __future__ import annotations

from pathlib import Path

from support.moor import Moor, write_job


def test_nothing_is_left_of_a_run_that_was_kept_elsewhere(tmp_path: Path) -> None:
    moor = Moor(tmp_path / "home")
    job = write_job(tmp_path, framework="indexed", command=["true"], roles={"worker": {}})
    mine = tmp_path / "mine"
    assert moor("run", job, "-o", mine).returncode == 0
    assert moor("run", job).returncode == 0
    assert (mine / "report.json").exists() and len(moor.runs()) == 2
    dry = moor("clean", "--keep", "0", "--dry-run")
    assert "would remove 2 runs" in dry.stdout and len(moor.runs()) == 2
    done = moor("clean", "--keep", "0")
    assert done.returncode == 0 and "removed 2 runs" in done.stdout
    assert not mine.exists()
    assert list((moor.home / "runs").iterdir()) == []
    assert not (moor.home / "trash").exists()
