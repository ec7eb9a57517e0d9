"""Ranks of workers on one machine: neighbours to Open MPI, each in the slot of its own worker."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from support.moor import Moor, leftovers, write_job

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

#: In one write: mpirun passes on what its ranks print as it comes.
SAY = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
near = world.Split_type(MPI.COMM_TYPE_SHARED).size
words = [world.rank, near, os.environ["MOORING_MEMBER"], os.environ["SAID"], os.isatty(1)]
os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""
DIES = """
import os, signal, time
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(600)
"""


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def job_of(folder: Path, code: str, *options: str, **worker: int) -> Path:
    command = ["mpirun", *options, sys.executable, "-c", code]
    roles = {"launcher": {"command": command}, "worker": {"replicas": 2, **worker}}
    return write_job(folder, framework="mpi", roles=roles)


def said(moor: Moor) -> list[tuple[str, ...]]:
    """Of each rank: its rank, how many are near, its member, SAID, whether on a terminal."""
    text = moor("logs", "last").stdout
    return sorted(re.findall(r"(\d) (\d) (worker-\d) (\w+) (True|False)", text))


def test_they_share_memory_and_have_their_own_members(moor: Moor, tmp_path: Path) -> None:
    answer = moor("run", job_of(tmp_path, SAY, "-x", "SAID=so"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert said(moor) == [
        ("0", "2", "worker-0", "so", "True"),
        ("1", "2", "worker-1", "so", "True"),
    ]
    assert leftovers(moor.only_run()) == []


def test_processes_of_a_worker_stay_together(moor: Moor, tmp_path: Path) -> None:
    answer = moor("run", job_of(tmp_path, SAY, "-x", "SAID=so", processes=2))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert [rank[:3] for rank in said(moor)] == [
        ("0", "4", "worker-0"),
        ("1", "4", "worker-0"),
        ("2", "4", "worker-1"),
        ("3", "4", "worker-1"),
    ]


def test_more_ranks_than_slots_begin_again_at_the_first(moor: Moor, tmp_path: Path) -> None:
    options = ("-x", "SAID=so", "--oversubscribe", "-np", "3")
    answer = moor("run", job_of(tmp_path, SAY, *options))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert [member for _, _, member, *_ in said(moor)] == ["worker-0", "worker-1", "worker-0"]


def test_a_rank_that_is_killed_ends_the_job_with_its_signal(moor: Moor, tmp_path: Path) -> None:
    answer = moor("run", job_of(tmp_path, DIES))
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "rank 1" in answer.stdout + answer.stderr
    assert "signal 11" in answer.stdout + answer.stderr
    assert leftovers(moor.only_run()) == []
