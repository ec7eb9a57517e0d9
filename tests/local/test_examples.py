"""Every example, for real: its framework, its processes, the right result, nothing left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mooring.bodies.local import netns
from support.moor import Moor, leftovers

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAIN: tuple[str, ...] = ()
VIRTUAL = ("--nodes", "2")
NODES = [
    pytest.param(PLAIN, id="plain"),
    pytest.param(
        VIRTUAL,
        id="virtual-nodes",
        marks=pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not())),
    ),
]
pytestmark = pytest.mark.framework


@pytest.fixture(params=NODES)
def nodes(request: pytest.FixtureRequest) -> tuple[str, ...]:
    options: tuple[str, ...] = request.param
    return options


def run(tmp_path: Path, example: str, nodes: tuple[str, ...], *more: str) -> tuple[Moor, str]:
    moor = Moor(tmp_path / "home")
    answer = moor("run", EXAMPLES / example / "job.yaml", *nodes, *more, timeout_s=300)
    logs = moor("logs", "last").stdout
    assert answer.returncode == 0, answer.stdout + answer.stderr + logs
    assert leftovers(moor.only_run()) == []
    return moor, logs


def test_tensorflow_parameter_servers_train_wide_and_deep(
    tmp_path: Path, nodes: tuple[str, ...]
) -> None:
    moor, _ = run(tmp_path, "wide-deep", nodes)
    report = moor.report()
    assert report["phase"] == "Succeeded"
    assert report["last_loss"] < 0.9 * report["first_loss"]
    assert report["examples_per_s"] > 0
    servers = {server["member"]: server["share"] for server in report["servers"]}
    # Tables are partitioned, so both servers carry bytes; round-robin would be 7 : 1.
    assert set(servers) == {"ps-0", "ps-1"}
    assert min(servers.values()) > 0.25
    members = {member["member"]: member for member in report["members"]}
    assert set(members) == {"chief-0", "ps-0", "ps-1", "worker-0", "worker-1"}
    assert members["chief-0"]["exit_code"] == 0
    for member in members.values():
        assert member["cpu_s"] > 1
        assert member["received_bytes"] > 0
        assert member["context_switches_voluntary"] > 0
        held = _cpus(member["cpus_held"])
        assert held
        assert _cpus(member["cpus_used"]) <= held
    variables = json.loads(moor("variables", "last", "-o", "json").stdout)
    assert variables["variables"][0]["name"] == "embedding"
    assert set(variables["variables"][0]["servers"]) == {0, 1}
    assert not variables["variables"][0]["pulled_whole"]
    # What would be without cutting is worse by far than what is.
    assert variables["placements"][0]["imbalance"] > 1.3 > variables["now"]
    flows = {(flow["opened_by"], flow["peer"]) for flow in report["flows"]}
    assert {("worker-0", "ps-1"), ("worker-1", "ps-0")} <= flows
    if nodes:
        assert {member["node"] for member in members.values()} == {"node-0", "node-1"}
        assert all(node["received_bytes"] > 1_000_000 for node in report["nodes"])


@pytest.mark.slow
def test_the_plain_and_the_fast_variant_learn_the_same(tmp_path: Path) -> None:
    held_out = []
    for script, job in (("plain.py", "plain.yaml"), ("train.py", "job.yaml")):
        moor = Moor(tmp_path / script)
        command = f"command=[python, {script}, --rows, '20000', --steps, '240', --judge, '20']"
        path = EXAMPLES / "wide-deep" / job
        answer = moor("run", path, "--set", command, timeout_s=300)
        logs = moor("logs", "last").stdout
        assert answer.returncode == 0, answer.stdout + answer.stderr + logs
        [(loss, right)] = re.findall(r"held out: loss (\S+) accuracy (\S+)", logs)
        assert float(right) > 0.7
        held_out.append(float(loss))
        warned = [line for line in logs.splitlines() if "pulls the whole table" in line]
        assert warned == []
    # Workers take turns by chance: two runs of one variant differ by up to 2 %.
    assert held_out[1] == pytest.approx(held_out[0], rel=0.05)


def test_tensorflow_all_reduce(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    moor, logs = run(tmp_path, "tf-allreduce", nodes)
    report = moor.report()
    assert report["last_loss"] < 0.1 * report["first_loss"]
    sums = re.findall(r"checksum (\S+)", logs)
    assert len(sums) == 2
    assert len(set(sums)) == 1


def test_pytorch_ddp_two_members_with_two_processes(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    moor, logs = run(tmp_path, "pytorch-ddp", nodes)
    report = moor.report()
    assert report["last_loss"] < 0.1 * report["first_loss"]
    ranks = sorted(int(rank) for rank in re.findall(r"rank (\d) of 4", logs))
    assert ranks == [0, 1, 2, 3]
    assert logs.count("parameters equal True") == 4


def test_deepfm_shares_one_table_between_ranks(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    command = "command=[python, train.py, --steps, '60', --rows, '20000']"
    moor, logs = run(tmp_path, "deepfm", nodes, "--set", command)
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


def test_resnet_sums_gradients(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    command = "command=[python, train.py, --steps, '30']"
    moor, logs = run(tmp_path, "resnet", nodes, "--set", command)
    report = moor.report()
    assert report["last_loss"] < 0.8 * report["first_loss"]
    assert len(set(re.findall(r"checksum (\S+)", logs))) == 1
    assert logs.count("checksum") == 2


def test_mpi_sums_over_ranks_without_ssh(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    moor, logs = run(tmp_path, "mpi-allreduce", nodes)
    found = re.findall(r"rank (\d) of 4 in (worker-\d): sum (\d+)", logs)
    # 1 + 2 + 3 + 4 = 10; two ranks run in the slot of each worker.
    assert sorted(found) == [
        ("0", "worker-0", "10"),
        ("1", "worker-0", "10"),
        ("2", "worker-1", "10"),
        ("3", "worker-1", "10"),
    ]
    assert moor.report()["phase"] == "Succeeded"


def test_indexed_sees_every_index_once(tmp_path: Path, nodes: tuple[str, ...]) -> None:
    results = tmp_path / "results"
    command = f"command=[python, work.py, --output, {results}]"
    moor, _ = run(tmp_path, "indexed", nodes, "--set", command)
    written = [json.loads(path.read_text()) for path in sorted(results.iterdir())]
    assert sorted(entry["index"] for entry in written) == [0, 1, 2, 3]
    assert moor.report()["phase"] == "Succeeded"


def _cpus(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1)) if part else set()
    return found
