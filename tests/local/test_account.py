"""The account of real runs: programs whose names say nothing, with a cause that is known."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import strange_programs as programs

from mooring.account import Account, Activity, RankAccount
from mooring.doctor.read_run import read_run
from support.moor import Moor, write_job

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: virtual nodes")


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def account(moor: Moor, folder: Path, text: str, *more: str, **spec: Any) -> Account:
    (folder / "x.py").write_text(text.replace("SECONDS", "8").replace("STEPS)", "150)"))
    given = {"framework": "indexed", "command": [sys.executable, "x.py"], "roles": {"worker": {}}}
    known = {name: value for name, value in {**given, **spec}.items() if value is not None}
    path = write_job(folder, **known)
    answer = moor("run", path, *more, cwd=folder)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = read_run(moor.only_run()).account
    assert found.ranks, found.note
    for one in found.ranks:
        assert sum(one.parts.values()) == pytest.approx(1.0, abs=1e-6)
    return found


def only(found: Account) -> RankAccount:
    [rank] = found.ranks
    assert rank.adds_up, rank.parts
    return rank


def test_a_sleep_is_as_long_as_the_program_says(moor: Moor, tmp_path: Path) -> None:
    rank = only(account(moor, tmp_path, programs.SLEEPER))
    assert rank.step_s is not None
    # 30 ms; on a busy machine a sleeper wakes late.
    assert 0.024 < rank.share(Activity.SLEEP) * rank.step_s < 0.05
    sleeps = max(rank.functions, key=lambda one: one.by.get(Activity.SLEEP, 0.0))
    assert sleeps.place == "x.py:9 b()"
    text = moor("doctor", "last").stdout.splitlines()
    assert text[0].startswith("Where a step's time goes")
    assert any(line.startswith("  sleeping") for line in text)


def test_an_own_function_is_named_with_its_share(moor: Moor, tmp_path: Path) -> None:
    rank = only(account(moor, tmp_path, programs.OWN_FUNCTION))
    assert rank.functions[0].function == "score"
    assert rank.functions[0].share > 0.75
    assert rank.share(Activity.OWN, Activity.CPU_WAIT) > 0.85
    assert rank.share(Activity.FRAMEWORK) < 0.05


def test_waiting_for_a_thread_that_makes_the_data(moor: Moor, tmp_path: Path) -> None:
    rank = only(account(moor, tmp_path, programs.PRODUCER_THREAD))
    assert rank.share(Activity.INPUT) > 0.8
    assert (rank.functions[0].function, rank.functions[0].thread) == ("u", "thread")


def test_writing_to_a_disk(moor: Moor, tmp_path: Path) -> None:
    rank = only(account(moor, tmp_path, programs.DISK))
    assert rank.share(Activity.DISK, Activity.OWN, Activity.CPU_WAIT) > 0.85
    assert rank.functions[0].function == "y"


@pytest.mark.framework
def test_ranks_of_mpi_wait_for_the_one_that_sleeps(moor: Moor, tmp_path: Path) -> None:
    roles = {
        "launcher": {"command": ["mpirun", sys.executable, "x.py"]},
        "worker": {"replicas": 2},
    }
    found = account(
        moor, tmp_path, programs.MPI_ONE_SLOW, framework="mpi", command=None, roles=roles
    )
    slow, quick = found.of("worker-1"), found.of("worker-0")
    assert slow is not None
    assert quick is not None
    assert slow.share(Activity.SLEEP) > 0.6
    assert quick.share(Activity.OTHERS) > 0.6
    assert quick.spins > 0.5, "Open MPI polls"
    assert (quick.waits[0].member, quick.waits[0].doing) == ("worker-1", Activity.SLEEP)
    assert found.slowest == slow


@pytest.mark.framework
def test_ranks_of_ddp_wait_for_the_one_that_sleeps(moor: Moor, tmp_path: Path) -> None:
    env = {"LATE": "0.06", "STEPS": "120"}
    roles = {"worker": {"replicas": 2}}
    found = account(moor, tmp_path, programs.DDP, framework="pytorch", roles=roles, env=env)
    slow, quick = found.of("worker-1"), found.of("worker-0")
    assert slow is not None
    assert quick is not None
    assert slow.share(Activity.SLEEP) > 0.5
    assert quick.share(Activity.OTHERS) > 0.4
    [first, *_] = quick.waits
    assert (first.member, first.doing) == ("worker-1", Activity.SLEEP)
    assert first.line is not None
    assert first.line.function == "g"


@as_root
@pytest.mark.root
@pytest.mark.framework
def test_a_full_card_is_the_network(moor: Moor, tmp_path: Path) -> None:
    """262,000 weights are 1 MB each way and step: 0.4 s at 20 Mbit/s."""
    env = {"WIDE": "1000", "STEPS": "30"}
    roles = {"worker": {"replicas": 2, "resources": {"cpu": "500m"}}}
    found = account(
        moor, tmp_path, programs.DDP, "--nodes", "2", "--nic-mbps", "20",
        framework="pytorch", roles=roles, env=env,
    )  # fmt: skip
    for rank in found.ranks:
        assert rank.share(Activity.NETWORK) > 0.6, rank.parts
        assert rank.network is not None
        assert rank.network.limit_mbps == 20
        assert rank.network.full > 0.5


@pytest.mark.framework
def test_a_loader_process_is_input_with_its_line(moor: Moor, tmp_path: Path) -> None:
    rank = only(account(moor, tmp_path, programs.LOADER))
    assert rank.share(Activity.INPUT) > 0.5
    assert rank.loaders >= 1
    assert ("__getitem__", "process") in [
        (one.function.rpartition(".")[2], one.thread) for one in rank.functions
    ]


def test_turned_off_there_is_none_and_it_says_so(moor: Moor, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(programs.SLEEPER.replace("SECONDS", "2"))
    command = [sys.executable, "x.py"]
    path = write_job(tmp_path, framework="indexed", command=command, roles={"worker": {}})
    assert moor("run", path, "--no-stacks", cwd=tmp_path).returncode == 0
    assert read_run(moor.only_run()).account.ranks == ()
    text = moor("doctor", "last").stdout
    assert text.startswith("No account of a step: the run was started with --no-stacks.")
