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
    head = {"apiVersion": "mooring.dev/v1", "kind": "Cluster"}
    document = {**head, "nodes": [GPU_NODES], **more}
    path.write_text(yaml.safe_dump(document))
    return path


def job(tmp_path: Path, name: str, **spec: Any) -> Path:
    worker = {"replicas": 4, "resources": {"cpu": 2, "memory": "8Gi", "gpu": 1}}
    settings = {"roles": {"worker": worker}, **spec}
    return write_job(
        tmp_path, name=name, framework="pytorch", command=["python", "train.py"], **settings
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


def test_a_priority_may_be_the_name_of_a_class(moor: Moor, tmp_path: Path) -> None:
    jobs = [job(tmp_path, f"low-{number}") for number in range(3)]
    described = cluster(tmp_path, priorityClasses={"nightly": -9, "high": 7})
    named = moor("plan", *jobs, job(tmp_path, "now", priority="high"), "--cluster", described)
    assert "give way to now: priority 7 is above 0" in named.stdout
    wrong = moor("plan", *jobs, job(tmp_path, "now", priority="hihg"), "--cluster", described)
    assert wrong.returncode == 2
    assert "spec.priority: found 'hihg'" in wrong.stderr
    assert "did you mean 'high'? (one of: low, normal, high, urgent, nightly)" in wrong.stderr


def test_a_job_that_must_not_be_preempted_is_not(moor: Moor, tmp_path: Path) -> None:
    jobs = [job(tmp_path, f"firm-{number}", preemptible=False) for number in range(3)]
    answer = moor("plan", *jobs, job(tmp_path, "now", priority=9), "--cluster", cluster(tmp_path))
    assert "now waits" in answer.stdout
    assert "give way" not in answer.stdout


def test_an_elastic_job_starts_smaller_and_shrinks_first(moor: Moor, tmp_path: Path) -> None:
    # 12 GPUs: two jobs of 4, then 4 of 6 members of the elastic one; the last asks for 2 of them
    jobs = [job(tmp_path, f"whole-{number}") for number in range(2)]
    six = {"worker": {"replicas": 6, "resources": {"cpu": 2, "gpu": 1}}}
    two = {"worker": {"replicas": 2, "resources": {"cpu": 2, "gpu": 1}}}
    jobs.append(job(tmp_path, "elastic", roles=six, minAvailable=2))
    jobs.append(job(tmp_path, "now", roles=two, priority=9))
    answer = moor("plan", *jobs, "--cluster", cluster(tmp_path))
    assert "elastic is admitted with 4 members" in answer.stdout
    assert "2 of 4 members of elastic give way to now" in answer.stdout
    elastic = answer.stdout.split("elastic: 2 members on")[1].split("\n\n")[1]
    assert elastic.count("waits") == 4
    arguments = (jobs[2], "worker-5", *with_each(jobs[:2]), "--cluster", cluster(tmp_path))
    explained = moor("explain", *arguments)
    assert "elastic runs with 4 of 6 members: worker-5 has no place" in explained.stdout


def test_who_ends_in_time_may_start_before_the_head(moor: Moor, tmp_path: Path) -> None:
    twelve = {"worker": {"replicas": 12, "resources": {"gpu": 1}}}
    jobs = [
        job(tmp_path, "first", expectedDuration="1h"),
        job(tmp_path, "head", roles=twelve),
        job(tmp_path, "short", expectedDuration="10m"),
        job(tmp_path, "long", expectedDuration="2h"),
    ]
    answer = moor("plan", *jobs, "--cluster", cluster(tmp_path))
    assert "short is admitted" in answer.stdout
    assert "long waits behind head" in answer.stdout


def test_a_foreign_profile_names_what_has_no_counterpart(moor: Moor, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"kind": "Policy", "predicates": [{"name": "NoSuchPredicate"}]}')
    for command in ("plan", "explain"):
        arguments = (job(tmp_path, "a"), "--cluster", cluster(tmp_path), "--profile", policy)
        answer = moor(command, *arguments)
        assert answer.returncode == 0, answer.stderr
        assert "note: predicates[0]: NoSuchPredicate has no counterpart" in answer.stderr


def test_nodes_of_an_idle_pool_go_to_one_that_is_short(moor: Moor, tmp_path: Path) -> None:
    nodes = [
        {**GPU_NODES, "namePrefix": f"gpu-{pool}-{number}", "count": 1, "pool": pool}
        for number, pool in enumerate(("vision", "ads", "ads"))
    ]
    pools = [{"name": "vision"}, {"name": "ads"}]
    described = cluster(tmp_path, nodes=nodes, pools=pools, moveGroups={"delay": "10m"})
    jobs = [job(tmp_path, f"vision-{number}", pool="vision") for number in range(2)]
    answer = moor("plan", *jobs, "--cluster", described)
    assert answer.returncode == 0, answer.stderr
    assert (
        "nodes gpu-ads-1-* move from pool ads to pool vision: vision has been short for 600 s "
        "(it wants 200% of its guarantee), ads wants 0% of what it keeps." in answer.stdout
    )
    document = json.loads(moor("plan", *jobs, "--cluster", described, "-o", "json").stdout)
    assert document["decisions"][-1]["decision"] == "move"
    assert document["decisions"][-1]["to"] == "vision"


def test_a_cap_limits_only_what_it_names(moor: Moor, tmp_path: Path) -> None:
    # CPUs are divided, because ads is guaranteed some; the cap of vision speaks of GPUs alone.
    pools = [
        {"name": "vision", "cap": {"gpu": 4}},
        {"name": "ads", "guaranteed": {"cpu": 8, "gpu": 4}},
    ]
    jobs = [job(tmp_path, f"vision-{number}", pool="vision") for number in range(2)]
    answer = moor("plan", *jobs, "--cluster", cluster(tmp_path, pools=pools))
    assert "vision-0 is admitted" in answer.stdout
    assert "the pool has 0 of its 4 gpu left" in answer.stdout


def with_each(jobs: list[Path]) -> list[str]:
    return [part for path in jobs for part in ("--with", str(path))]


def test_explain_among_others_says_what_it_waits_for(moor: Moor, tmp_path: Path) -> None:
    before = [job(tmp_path, f"team-{number}") for number in range(3)]
    last, described = job(tmp_path, "last"), cluster(tmp_path)
    plan = moor("plan", *before, last, "--cluster", described)
    assert (
        "last waits; worker-0:\n  gpu-0, gpu-1, gpu-2: insufficient gpu (has 0 free)" in plan.stdout
    )
    assert "what would help: moor explain" in plan.stdout
    answer = moor("explain", last, *with_each(before), "--cluster", described)
    assert answer.returncode == 0, answer.stderr
    assert "last waits for 8 cpu, 32Gi, 4 gpu" in answer.stdout
    said = answer.stdout.split("with any one of these:\n")[1].splitlines()
    assert said == [
        "  team-0 has ended",
        "  team-1 has ended",
        "  team-2 has ended",
        "  priority: 1 instead of 0 (at the cost of others)",
        "  1 more node like gpu-0 (16 cpu, 64Gi, 4 gpu)",
    ]
    document = json.loads(moor("plan", *before, last, "--cluster", described, "-o", "json").stdout)
    assert document["refused"]["last"]["member"] == "worker-0"
    assert set(document["refused"]["last"]["nodes"]) == {"gpu-0", "gpu-1", "gpu-2"}


def test_explain_of_a_job_that_runs_beside_others(moor: Moor, tmp_path: Path) -> None:
    before = [job(tmp_path, "first")]
    arguments = (job(tmp_path, "second"), "worker-1", *with_each(before))
    answer = moor("explain", *arguments, "--cluster", cluster(tmp_path), "-o", "json")
    document = json.loads(answer.stdout)
    assert (document["node"], document["refused"]) == ("gpu-1", None)
    nodes = {each["node"]: each for each in document["nodes"]}
    assert nodes["gpu-0"]["refused"] == ["insufficient gpu (has 0 free)"]
    assert nodes["gpu-1"]["scores"]


def test_a_pool_that_is_full_is_explained(moor: Moor, tmp_path: Path) -> None:
    pools = [{"name": "vision", "cap": {"gpu": 4}}, {"name": "ads"}]
    described = cluster(tmp_path, pools=pools)
    before = [job(tmp_path, "first", pool="vision")]
    second = job(tmp_path, "second", pool="vision")
    answer = moor("explain", second, *with_each(before), "--cluster", described)
    assert "the pool has 0 of its 4 gpu left" in answer.stdout
    assert "  first has ended\n" in answer.stdout
    assert "  pool: ads instead of vision\n" in answer.stdout
    # It is the pool that is full, not the cluster: no number of nodes would help.
    assert "more node" not in answer.stdout


def test_who_would_end_in_time_is_told_so(moor: Moor, tmp_path: Path) -> None:
    twelve = {"worker": {"replicas": 12, "resources": {"gpu": 1}}}
    before = [job(tmp_path, "first", expectedDuration="1h"), job(tmp_path, "head", roles=twelve)]
    answer = moor(
        "explain", job(tmp_path, "long"), *with_each(before), "--cluster", cluster(tmp_path)
    )
    # first starts at 0 and ends at 3600; this one arrives at 2.
    assert "  expectedDuration: 59m58s (it ends before others start)\n" in answer.stdout


def test_what_a_job_says_about_nodes_is_among_the_changes(moor: Moor, tmp_path: Path) -> None:
    lost = job(tmp_path, "lost", placement={"nodeName": "gpu-9"})
    answer = moor("explain", lost, "--cluster", cluster(tmp_path))
    assert answer.returncode == 2
    assert "another node is asked for (gpu-9)" in answer.stdout
    assert answer.stdout.endswith("with any one of these:\n  no nodeName\n")


def test_a_profile_is_written_for_kube_scheduler(moor: Moor, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("{name: mine, scores: {balanced: 30, tight: 5}}")
    answer = moor("profile", own, "-o", "kubernetes")
    assert answer.returncode == 0, answer.stderr
    written = yaml.safe_load(answer.stdout)
    assert written["kind"] == "KubeSchedulerConfiguration"
    assert written["profiles"][0]["plugins"]["score"]["enabled"] == [
        {"name": "NodeResourcesBalancedAllocation", "weight": 3}
    ]
    assert "note: scores.tight: kube-scheduler has no such rule" in answer.stderr
    again = tmp_path / "again.yaml"
    again.write_text(answer.stdout)
    shown = yaml.safe_load(moor("profile", again).stdout)
    assert shown == {"name": "mine", "scores": {"balanced": 30.0}}
