"""Members that share CPUs divide them: their threads together are no more than the CPUs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.record import RunRecord
from mooring.wire import read_journal
from mooring.wire.members import Ready
from support.moor import Moor, write_job
from support.waiting import until

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
#: In one write: mpirun passes on what its ranks print as it comes.
SAY = "import os; os.write(1, b'threads ' + os.environb[b'OMP_NUM_THREADS'] + b'\\n')"


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def job_of(folder: Path, name: str, code: str = SAY, **worker: Any) -> Path:
    roles = {"worker": {"replicas": 2, **worker}}
    return write_job(folder, name=name, framework="pytorch", command=python(code), roles=roles)


def threads(run: RunRecord) -> list[int]:
    """Of each member, as its launcher says."""
    ready = [next(read_journal(run.sample_file(f"worker-{at}"), Ready)) for at in (0, 1)]
    return [record.budget.threads or 0 for record in ready]


def test_a_default_job_divides_the_machine(moor: Moor, tmp_path: Path) -> None:
    assert moor("run", job_of(tmp_path, "default")).returncode == 0
    wanted = max(1, CPUS // 2)
    assert threads(moor.only_run()) == [wanted, wanted]
    assert moor("logs", "last").stdout.count(f"threads {wanted}") == 2


def test_processes_of_members_count(moor: Moor, tmp_path: Path) -> None:
    assert moor("run", job_of(tmp_path, "ranks", processes=2)).returncode == 0
    wanted = max(1, CPUS // 4)
    assert threads(moor.only_run()) == [wanted, wanted]


def test_another_run_on_the_machine_counts(moor: Moor, tmp_path: Path) -> None:
    waits = "import time; print('up', flush=True); time.sleep(600)"
    with moor.started("run", job_of(tmp_path, "first", waits)):
        until(
            lambda: moor.runs() and len(list(moor.only_run().root.glob("logs/*.log"))) == 2,
            "both members of the first run print",
        )
        first = moor.only_run()
        assert moor("run", job_of(tmp_path, "second")).returncode == 0
        [second] = [run for run in moor.runs() if run.info.id != first.info.id]
        wanted = max(1, CPUS // 4)
        assert threads(second) == [wanted, wanted]
        assert moor("stop", first.info.id).returncode == 0


@pytest.mark.framework
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
def test_ranks_of_mpi_divide_and_mpirun_takes_no_part(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        framework="mpi",
        roles={
            "launcher": {"replicas": 1, "command": ["mpirun", *python(SAY)]},
            "worker": {"replicas": 2},
        },
    )
    answer = moor("run", job)
    assert answer.returncode == 0, answer.stdout
    wanted = max(1, CPUS // 2)
    assert threads(moor.only_run()) == [wanted, wanted]
    assert moor("logs", "last").stdout.count(f"threads {wanted}") == 2
