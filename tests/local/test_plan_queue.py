"""`moor plan` with several jobs and `moor explain`, as their users meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.moor import Moor, write_job

GPU_NODES = {"namePrefix": "gpu", "count": 3, "cpus": 16, "memory": "64Gi", "gpus": {"count": 4}}


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def cluster(tmp_path: Path, **more: Any) -> Path:
    path = tmp_path / "cluster.yaml"
    document = {"apiVersion": "mooring.dev/v1", "kind": "Cluster", "nodes": [GPU_NODES], **more}
    path.write_text(yaml.safe_dump(document))
    return path


def job(tmp_path: Path, name: str, **spec: Any) -> Path:
    worker = {"replicas": 4, "resources": {"cpu": 2, "memory": "8Gi", "gpu": 1}}
    return write_job(
        tmp_path,
        name=name,
        framework="pytorch",
        command=["python", "train.py"],
        roles={"worker": worker},
        **spec,
    )


def test_the_fourth_of_four_jobs_waits_and_is_told_why(moor: Moor, tmp_path: Path) -> None:
    jobs = [job(tmp_path, f"team-{number}") for number in range(4)]
    answer = moor("plan", *jobs, "--cluster", cluster(tmp_path), "-o", "json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert [each["decision"] for each in document["decisions"]] == ["admit"] * 3 + ["wait"]
    assert "0 of its 12 gpu free" in document["waiting"]["team-3"]
    assert [plan["job"] for plan in document["plans"]] == ["team-0", "team-1", "team-2"]
    for plan in document["plans"]:
        # Packed: the four devices of one node.
        assert len({member["node"] for member in plan["members"]}) == 1


def test_who_has_to_give_way_is_told(moor: Moor, tmp_path: Path) -> None:
    jobs = [job(tmp_path, f"low-{number}") for number in range(3)]
    jobs.append(job(tmp_path, "urgent", priority=9))
    answer = moor("plan", *jobs, "--cluster", cluster(tmp_path))
    assert answer.returncode == 0, answer.stderr
    assert "give way to urgent: priority 9 is above 0" in answer.stdout
    assert "urgent is admitted with 4 members" in answer.stdout


def test_pools_of_the_cluster_file_bound_their_jobs(moor: Moor, tmp_path: Path) -> None:
    pools = [{"name": "ads", "guaranteed": {"gpu": 4}, "cap": {"gpu": 4}}]
    nodes = cluster(tmp_path, pools=pools)
    jobs = [job(tmp_path, f"ad-{number}", pool="ads") for number in range(2)]
    answer = moor("plan", *jobs, "--cluster", nodes)
    assert "ad-1 waits" in answer.stdout
    assert "pool ads" in answer.stdout
    lost = moor("plan", job(tmp_path, "lost", pool="nlp"), "--cluster", nodes)
    assert lost.returncode == 2
    assert "spec.pool" in lost.stderr
    assert "ads" in lost.stderr


def test_two_jobs_of_one_name_are_refused(moor: Moor, tmp_path: Path) -> None:
    path = job(tmp_path, "same")
    answer = moor("plan", path, path, "--cluster", cluster(tmp_path))
    assert answer.returncode == 2
    assert "metadata.name" in answer.stderr


def test_explain_lists_every_node_and_its_scores(moor: Moor, tmp_path: Path) -> None:
    answer = moor(
        "explain", job(tmp_path, "why"), "worker-1", "--cluster", cluster(tmp_path), "-o", "json"
    )
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["member"] == "worker-1"
    assert {node["node"] for node in document["nodes"]} == {"gpu-0", "gpu-1", "gpu-2"}
    totals = {node["node"]: sum(node["scores"].values()) for node in document["nodes"]}
    assert totals[document["node"]] == max(totals.values())


def test_explain_says_what_would_have_to_change(moor: Moor, tmp_path: Path) -> None:
    answer = moor(
        "explain",
        job(tmp_path, "big"),
        "--cluster",
        cluster(tmp_path),
        "--set",
        "roles.worker.replicas=14",
    )
    assert answer.returncode == 2
    assert "roles.worker.replicas: 12 instead of 14" in answer.stdout
    assert "1 more node like gpu-0" in answer.stdout
    unknown = moor("explain", job(tmp_path, "big"), "ps-0", "--cluster", cluster(tmp_path))
    assert unknown.returncode == 2
    assert "MEMBER" in unknown.stderr


def test_an_unknown_profile_is_bad_input(moor: Moor, tmp_path: Path) -> None:
    answer = moor("plan", job(tmp_path, "p"), "--cluster", cluster(tmp_path), "--profile", "nope")
    assert answer.returncode == 2
    assert "--profile" in answer.stderr
