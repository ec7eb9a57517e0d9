"""Wide & Deep on real TensorFlow: what the report says of it, and the doctor.

As it is shipped, on virtual nodes where this machine can: nothing is wrong. And as plain processes
with the table whole on one of the two servers: the doctor says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.backends.local import netns
from mooring.doctor import Finding, diagnose_run
from mooring.doctor.read_run import read_run
from support.moor import Moor, leftovers, write_job

EXAMPLE = Path(__file__).parents[2] / "examples" / "wide-deep" / "job.yaml"
NODES = () if netns.why_not() else ("--nodes", "2")
pytestmark = [pytest.mark.framework, pytest.mark.slow]
#: What other programs do on the machine meanwhile is none of a test's.
OTHERS = "machine-busy"


def run(moor: Moor, *options: str) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Its report, of which every run is to show as much, and what the doctor finds."""
    answer = moor("run", EXAMPLE, *options, timeout_s=300)
    assert answer.returncode == 0, answer.stdout + answer.stderr + moor("logs", "last").stdout
    assert leftovers(moor.only_run()) == []
    report = moor.report()
    assert report["phase"] == "Succeeded"
    assert report["examples_per_s"] > 0
    assert {server["member"] for server in report["servers"]} == {"ps-0", "ps-1"}
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
    flows = {(flow["opened_by"], flow["peer"]) for flow in report["flows"]}
    assert {("worker-0", "ps-1"), ("worker-1", "ps-0")} <= flows
    return report, tuple(diagnose_run(read_run(moor.only_run())).findings)


def test_as_it_is_shipped(tmp_path: Path) -> None:
    """But for half of the steps."""
    moor = Moor(tmp_path / "home")
    report, found = run(moor, *NODES, "--set", "command=[python, train.py, --steps, '600']")
    assert report["last_loss"] < 0.9 * report["first_loss"]
    # Tables are partitioned, so both servers carry bytes; round-robin would be 7 : 1.
    assert min(server["share"] for server in report["servers"]) > 0.25
    variables = json.loads(moor("variables", "last", "-o", "json").stdout)
    assert variables["variables"][0]["name"] == "embedding"
    assert set(variables["variables"][0]["servers"]) == {0, 1}
    assert not variables["variables"][0]["pulled_whole"]
    # What would be without cutting is worse by far than what is.
    assert variables["placements"][0]["imbalance"] > 1.3 > variables["now"]
    if NODES:
        assert {member["node"] for member in report["members"]} == {"node-0", "node-1"}
        assert all(node["received_bytes"] > 1_000_000 for node in report["nodes"])
    assert [finding.id for finding in found if finding.id != OTHERS] == []


def test_a_table_whole_on_one_server(tmp_path: Path) -> None:
    placement = ("--set", "variables.placement=round-robin")
    command = ("--set", "command=[python, train.py, --steps, '240']")
    _, found = run(Moor(tmp_path / "home"), *placement, *command)
    assert [finding.id for finding in found if finding.id != OTHERS] == ["ps-hot"]
    [hot] = [finding for finding in found if finding.id == "ps-hot"]
    [change] = hot.found.remedy.changes
    assert str(change) == "spec.variables.placement: partitioned"


def _cpus(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1)) if part else set()
    return found


@pytest.mark.parametrize(
    ("roles", "strategy"),
    [
        ({"chief": {}, "ps": {}, "worker": {}}, "ParameterServerStrategy"),
        ({"worker": {"replicas": 2}}, "MultiWorkerMirroredStrategy"),
    ],
)
def test_fit_of_keras_3_is_named(tmp_path: Path, roles: dict[str, object], strategy: str) -> None:
    """The errors are those of the versions that requirements/run.lock names."""
    moor = Moor(tmp_path / "home")
    job = write_job(
        tmp_path,
        framework="tensorflow",
        strategy="parameter-server" if "ps" in roles else "all-reduce",
        command=["python", str(Path(__file__).parent / "fit_of_keras.py")],
        roles=roles,
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
        timeLimit="5m",
    )
    answer = moor("run", job, timeout_s=400)
    assert answer.returncode != 0
    found = diagnose_run(read_run(moor.only_run())).findings
    assert found[0].id == "keras-fit"
    assert found[0].found.says.endswith(f"Keras 3 has no fit under {strategy}")
