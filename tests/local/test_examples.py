"""Every example, for real: its framework, its processes, the right result, nothing left behind.

They run on virtual nodes where this machine can, else as plain processes. Plain runs of the same
frameworks are in `test_starters.py` (PyTorch, MPI, indexed) and `test_imports.py` (several
processes a member); TensorFlow's all-reduce is in neither, and runs both ways here. Wide & Deep
with the parameter servers is in `test_doctor_frameworks.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mooring.backends.local import netns
from support.moor import Moor, leftovers

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAIN: tuple[str, ...] = ()
VIRTUAL = ("--nodes", "2")
NODES = PLAIN if netns.why_not() else VIRTUAL
BOTH = [
    pytest.param(PLAIN, id="plain"),
    pytest.param(
        VIRTUAL,
        id="virtual-nodes",
        marks=pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not())),
    ),
]
pytestmark = pytest.mark.framework


def run(
    tmp_path: Path, example: str, *more: str, nodes: tuple[str, ...] = NODES
) -> tuple[Moor, str]:
    moor = Moor(tmp_path / "home")
    answer = moor("run", EXAMPLES / example / "job.yaml", *nodes, *more, timeout_s=300)
    logs = moor("logs", "last").stdout
    assert answer.returncode == 0, answer.stdout + answer.stderr + logs
    assert leftovers(moor.only_run()) == []
    return moor, logs


@pytest.mark.slow
def test_the_plain_and_the_fast_variant_learn_the_same(tmp_path: Path) -> None:
    """With one worker: what is learned does not depend on whose turn it is."""
    held_out = []
    for script, job in (("plain.py", "plain.yaml"), ("train.py", "job.yaml")):
        moor = Moor(tmp_path / script)
        command = f"command=[python, {script}, --rows, '20000', --steps, '160', --judge, '20']"
        path = EXAMPLES / "wide-deep" / job
        one_worker = "roles.worker.replicas=1"
        answer = moor("run", path, "--set", command, "--set", one_worker, timeout_s=300)
        logs = moor("logs", "last").stdout
        assert answer.returncode == 0, answer.stdout + answer.stderr + logs
        [(loss, right)] = re.findall(r"held out: loss (\S+) accuracy (\S+)", logs)
        assert float(right) > 0.7
        held_out.append(float(loss))
        warned = [line for line in logs.splitlines() if "pulls the whole table" in line]
        assert warned == []
    # Not bit by bit: lazy Adam counts steps otherwise, and both start from numbers of their own.
    assert held_out[1] == pytest.approx(held_out[0], rel=0.05)


@pytest.mark.parametrize("nodes", BOTH)
def test_tensorflow_all_reduce(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    moor, logs = run(tmp_path, "tf-allreduce", nodes=nodes)
    report = moor.report()
    assert report["last_loss"] < 0.1 * report["first_loss"]
    sums = re.findall(r"checksum (\S+)", logs)
    assert len(sums) == 2
    assert len(set(sums)) == 1


def test_pytorch_ddp_two_members_with_two_processes(tmp_path: Path) -> None:
    moor, logs = run(tmp_path, "pytorch-ddp")
    report = moor.report()
    assert report["last_loss"] < 0.1 * report["first_loss"]
    ranks = sorted(int(rank) for rank in re.findall(r"rank (\d) of 4", logs))
    assert ranks == [0, 1, 2, 3]
    assert logs.count("parameters equal True") == 4


def test_deepfm_shares_one_table_between_ranks(tmp_path: Path) -> None:
    command = "command=[python, train.py, --steps, '60', --rows, '20000']"
    moor, logs = run(tmp_path, "deepfm", "--set", command)
    report = moor.report()
    assert report["last_loss"] < 0.95 * report["first_loss"]
    found = re.findall(r"rank (\d) of 2: held out loss (\S+) accuracy (\S+), (\d+) rows", logs)
    assert sorted((rank, rows) for rank, _, _, rows in found) == [("0", "10000"), ("1", "10000")]
    assert len({(loss, right) for _, loss, right, _ in found}) == 1
    listed = json.loads(moor("variables", "last", "-o", "json").stdout)
    assert [one["name"] for one in listed["variables"]] == ["table"]
    assert listed["holders"] == ["rank-0", "rank-1"]
    # Rows go by turns: each rank holds half of the table, and moves about half of the bytes.
    assert listed["servers"][0]["size_bytes"] == listed["servers"][1]["size_bytes"]
    assert listed["now"] < 1.2


def test_resnet_sums_gradients(tmp_path: Path) -> None:
    command = "command=[python, train.py, --steps, '30']"
    moor, logs = run(tmp_path, "resnet", "--set", command)
    report = moor.report()
    assert report["last_loss"] < 0.8 * report["first_loss"]
    assert len(set(re.findall(r"checksum (\S+)", logs))) == 1
    assert logs.count("checksum") == 2


def test_mpi_sums_over_ranks_without_ssh(tmp_path: Path) -> None:
    moor, logs = run(tmp_path, "mpi-allreduce")
    found = re.findall(r"rank (\d) of 4 in (worker-\d): sum (\d+)", logs)
    # 1 + 2 + 3 + 4 = 10; two ranks run in the slot of each worker.
    assert sorted(found) == [
        ("0", "worker-0", "10"),
        ("1", "worker-0", "10"),
        ("2", "worker-1", "10"),
        ("3", "worker-1", "10"),
    ]
    assert moor.report()["phase"] == "Succeeded"


def test_indexed_sees_every_index_once(tmp_path: Path) -> None:
    results = tmp_path / "results"
    command = f"command=[python, work.py, --output, {results}]"
    moor, _ = run(tmp_path, "indexed", "--set", command)
    written = [json.loads(path.read_text()) for path in sorted(results.iterdir())]
    assert sorted(entry["index"] for entry in written) == [0, 1, 2, 3]
    assert moor.report()["phase"] == "Succeeded"
