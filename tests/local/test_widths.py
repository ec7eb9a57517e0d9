"""What commands print on narrow and wide terminals: nothing that is needed is cut."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from support.moor import Moor, write_job
from support.terminal import terminal
from support.waiting import until

ROLE = "fifteen-letters"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_names_states_and_figures_are_whole(tmp_path: Path, columns: int) -> None:
    moor = Moor(tmp_path / "home")
    job = write_job(
        tmp_path,
        name="a-long-name-of-a-job",
        framework="indexed",
        command=[sys.executable, "-S", "-c", "raise SystemExit(3)"],
        roles={ROLE: {"replicas": 2}},
    )
    assert moor("run", "-q", job).returncode == 1
    run = moor.only_run().info.id
    commands = (("ps", "-a"), ("report", run), ("plan", str(job)), ("explain", str(job)))
    moor_command = shlex.join([sys.executable, "-m", "mooring"])
    script = "; ".join(f"{moor_command} {shlex.join(command)}" for command in commands)
    with terminal(columns, 50, ["sh", "-c", script], moor.env) as window:
        until(lambda: window.exit_code() is not None, "all commands", 120)
        assert window.exit_code() == 0
        shown = window.everything()
    assert "…" not in shown
    lines = shown.splitlines()
    [row] = [line.split() for line in lines if line.startswith(run) and "0/2" in line]
    assert row[1] == "Failed"
    # No row goes on in a second line.
    assert not [line for line in lines if line.strip() in ("–", "–  –")]
    assert "exited with code 3" in " ".join(shown.split())
    # In the report, in each of its blocks, and in the plan.
    for index in range(2):
        rows = [line for line in lines if line.startswith(f"{ROLE}-{index} ")]
        assert len(rows) >= 2
    for name in ("CPUs held", "CPU %", "peak memory", "exit", "needs", "total", "room"):
        assert name in shown
