"""Gangs in which one member does not arrive: it is named, its stack is kept, the job acts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mooring.doctor import diagnose_run
from mooring.doctor.read_run import read_run
from mooring.model.status import Phase
from mooring.stacks import find_tool
from mooring.wire import read_journal
from mooring.wire.events import PhaseChanged, StallNoted
from support.moor import Moor, write_job

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
with_tool = pytest.mark.skipif(find_tool() is None, reason="py-spy is not installed")

#: Two processes that take turns by a file each; worker-1 stops in epoch 0 and goes on in epoch 1.
STOPPING = """
import os, pathlib, signal, sys, time
me, other = (pathlib.Path(sys.argv[1]) / name for name in sys.argv[2].split(","))
start = int(os.environ["MOORING_EPOCH"])
for step in range(20):
    if step == 10 and start == 0 and me.name == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    me.write_text(f"{start} {step}")
    while True:
        told = other.read_text().split() if other.exists() else []
        if len(told) == 2 and [int(one) for one in told] >= [start, step]:
            break
        time.sleep(0.01)
    print("step", step, flush=True)
"""

DDP = """
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def fetch():
    time.sleep(1e6)

def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    for step in range(1000):
        if step == 20 and dist.get_rank() == 1:
            fetch()
        model(torch.randn(4, 8)).sum().backward()
        print("step", step, flush=True)
        time.sleep(0.05)

main()
"""
STEPS = {"source": "regex", "pattern": r"step (?P<step>\d+)"}


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


@with_tool
@pytest.mark.framework
def test_a_rank_that_sleeps_is_named_and_the_job_fails(moor: Moor, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DDP)
    path = write_job(
        tmp_path,
        framework="pytorch",
        command=[sys.executable, "train.py"],
        roles={"worker": {"replicas": 2}},
        stepMetrics=STEPS,
        failurePolicy={"stallTimeout": "4s", "onStall": "fail"},
    )
    answer = moor("run", path)
    assert answer.returncode == 1
    assert "worker-1 has not arrived: it sleeps in fetch (train.py:8)" in answer.stdout
    assert "worker-0 waits in backward, main (train.py:16)" in answer.stdout
    run = moor.only_run()
    kept = run.stall_file.read_text()
    assert "fetch (" in kept
    assert "_engine_run_backward (" in kept
    found = {one.id: one.found for one in diagnose_run(read_run(run)).findings}
    assert found["hang"].members == ("worker-1",)
    assert not {"straggler", "end-late"} & set(found)
    assert str(run.stall_file) in moor("doctor", "last").stdout


def test_a_stopped_member_is_named_without_stacks_and_the_gang_restarts(
    moor: Moor, tmp_path: Path
) -> None:
    (tmp_path / "turns.py").write_text(STOPPING)
    places = tmp_path / "places"
    places.mkdir()
    command = [sys.executable, "turns.py", str(places)]
    path = write_job(
        tmp_path,
        framework="indexed",
        roles={
            "first": {"replicas": 1, "command": [*command, "0,1"]},
            "second": {"replicas": 1, "command": [*command, "1,0"]},
        },
        stepMetrics=STEPS,
        gracePeriod="1s",
        failurePolicy={"stallTimeout": "2s", "onStall": "restart", "maxRestarts": 1},
    )
    answer = moor("run", path, "--no-stacks")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    [stall] = read_journal(moor.only_run().events_file, StallNoted)
    assert stall.hang
    assert stall.missing == ("second-0",)
    assert "is stopped (SIGSTOP)" in stall.says
    assert "started with --no-stacks" in moor.only_run().stall_file.read_text()
    phases = read_journal(moor.only_run().events_file, PhaseChanged)
    assert [one.reason for one in phases if one.phase is Phase.RESTARTING] == [stall.says]
    # It went on to its end: nothing to find.
    assert "hang" not in {one.id for one in diagnose_run(read_run(moor.only_run())).findings}
