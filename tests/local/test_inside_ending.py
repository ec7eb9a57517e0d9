"""A chief ends when its program does, also if a worker has stopped answering; and keeps its exit
code, its output and its atexit handlers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.framework, pytest.mark.slow]
PROGRAM = Path(__file__).parent / "stopped_worker.py"
#: Without what is tested it does not end at all.
_PATIENCE_S = 180


def test_a_program_ends_although_a_worker_does_not_answer(archive: Path) -> None:
    env = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": f"{archive}/inside",
        "MOORING_INSIDE": "{}",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "7"],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    assert done.returncode == 7
    assert done.stdout.splitlines() == ["weight 2.0", "returned", "flushed at exit"]
