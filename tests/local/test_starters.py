"""What `moor init` writes trains as it is: the first thing that a newcomer runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.moor import Moor


@pytest.mark.framework
@pytest.mark.parametrize("framework", ["tensorflow", "pytorch", "mpi", "indexed"])
def test_what_init_writes_trains(tmp_path: Path, framework: str) -> None:
    moor = Moor(tmp_path / "home")
    assert moor("init", framework, "-d", tmp_path / "new").returncode == 0
    answer = moor("run", tmp_path / "new" / "job.yaml", timeout_s=300)
    assert answer.returncode == 0, answer.stdout + moor("logs", "last").stdout
    report = moor.report()
    assert report["phase"] == "Succeeded"
    assert report["steps"] > 0
