"""`moor plan`, `validate`, `schema`, `init`, `completion`: what starts nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring import frameworks
from support.moor import Moor, write_job

CLUSTER: dict[str, Any] = {
    "apiVersion": "mooring.dev/v1",
    "kind": "Cluster",
    "nodes": [
        {"namePrefix": "cpu", "count": 3, "cpus": 4, "memory": "16Gi"},
        {
            "name": "big",
            "cpus": 32,
            "sockets": 2,
            "smt": 2,
            "memory": "128Gi",
            "taints": [{"key": "team", "value": "ads", "effect": "NoSchedule"}],
        },
    ],
}


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(CLUSTER))
    return path


def job(tmp_path: Path, **changes: Any) -> Path:
    spec: dict[str, Any] = {
        "framework": "tensorflow",
        "command": ["python", "train.py"],
        "roles": {
            "chief": {},
            "ps": {"replicas": 2, "resources": {"cpu": 1}},
            "worker": {"replicas": 2, "resources": {"cpu": 2, "memory": "4Gi"}},
        },
    }
    return write_job(tmp_path, name="plan-me", **{**spec, **changes})


def test_a_plan_says_where_and_why_not_elsewhere(moor: Moor, tmp_path: Path, cluster: Path) -> None:
    answer = moor("plan", job(tmp_path), "--cluster", cluster, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    plan = json.loads(answer.stdout)
    assert {entry["member"] for entry in plan["members"]} == {
        "chief-0",
        "ps-0",
        "ps-1",
        "worker-0",
        "worker-1",
    }
    for entry in plan["members"]:
        verdicts = {verdict["node"]: verdict for verdict in entry["nodes"]}
        assert set(verdicts) == {"cpu-0", "cpu-1", "cpu-2", "big"}
        assert verdicts["big"]["refused"][0].startswith("tainted")
        assert verdicts[entry["node"]]["scores"]
    table = moor("plan", job(tmp_path), "--cluster", cluster).stdout
    assert "tainted" in table
    assert moor.runs() == []


def test_a_refusal_is_one_sentence(moor: Moor, tmp_path: Path, cluster: Path) -> None:
    roles = {"ps": {}, "worker": {"replicas": 5, "resources": {"cpu": 3, "memory": "6Gi"}}}
    answer = moor("plan", job(tmp_path, roles=roles), "--cluster", cluster)
    assert answer.returncode == 2
    # Three nodes of 4 CPUs take one worker each; the big one would, but for its taint.
    assert (
        "0/4 nodes can take worker-3 (needs 3 cpu, 6Gi): 3 insufficient cpu, 1 tainted; "
        "4 of 6 members placed" in answer.stderr
    )


def test_isolating_needs_two_nodes(moor: Moor, tmp_path: Path) -> None:
    answer = moor(
        "plan", job(tmp_path, placement={"preset": "isolate"}), "--set", "roles.ps.replicas=1"
    )
    assert answer.returncode == 2
    assert "apart" in answer.stderr or "insufficient" in answer.stderr


def test_every_framework_has_a_starter_that_validates(moor: Moor, tmp_path: Path) -> None:
    for name in frameworks.names():
        folder = tmp_path / name
        assert moor("init", name, "-d", folder).returncode == 0
        checked = moor("validate", folder / "job.yaml")
        assert checked.returncode == 0, checked.stderr
        lines = (folder / "job.yaml").read_text().splitlines()
        assert any(line.lstrip().startswith("#") for line in lines)
        again = moor("init", name, "-d", folder)
        assert again.returncode == 2
        assert "--force" in again.stderr


def test_all_files_are_checked_and_all_problems_told(moor: Moor, tmp_path: Path) -> None:
    good = job(tmp_path)
    bad = write_job(tmp_path, name="bad", framework="nope", roles={"w": {"replicas": -1}}, x=1)
    answer = moor("validate", good, bad)
    assert answer.returncode == 2
    assert "plan-me.yaml: ok" in answer.stdout
    assert "spec.x" in answer.stderr
    assert "spec.roles.w.replicas" in answer.stderr


def test_the_schema_accepts_what_validates(moor: Moor) -> None:
    schema = json.loads(moor("schema").stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "framework" in json.dumps(schema)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(moor: Moor, shell: str) -> None:
    answer = moor("completion", shell)
    assert answer.returncode == 0
    assert "_MOOR_COMPLETE" in answer.stdout


def test_run_names_are_completed(moor: Moor, tmp_path: Path) -> None:
    path = write_job(tmp_path, framework="indexed", command=["true"], roles={"worker": {}})
    assert moor("run", path).returncode == 0
    words = {"_MOOR_COMPLETE": "bash_complete", "COMP_WORDS": "moor report ", "COMP_CWORD": "2"}
    answer = moor(env={**os.environ, **words})
    assert moor.only_run().info.id in answer.stdout
