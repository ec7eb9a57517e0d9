"""Jobs that want the same room: gangs, priorities, pools, strangers, and nodes that go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube.cluster.client import Json
from kube.cluster.fake_nodes import MARK, NodeShape
from kube.objects import pod, pods_path
from kube.operator import training_job
from kube.scenarios import Stage
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

POOLS = "/apis/mooring.dev/v1/pools"


@pytest.fixture(autouse=True)
def nothing_left(stage: Stage) -> Iterator[None]:
    yield
    stage.clear()


def waits_for(stage: Stage, name: str, words: str) -> Json:
    return stage.status_when(
        name,
        lambda now: now.get("phase") == "Queued" and words in now.get("message", ""),
        f"waits, saying '{words}'",
    )


def test_gangs_that_together_want_too_much_do_not_block_each_other(stage: Stage) -> None:
    """Three nodes with four GPUs, four jobs of four workers with one GPU: pod by pod, each job
    might get three of its four and wait for ever."""
    names = [f"gang-{letter}" for letter in "abcd"]
    with stage.nodes(3, NodeShape(cpus=16, gpus=4)):
        for name in names:
            stage.submit(training_job(name, {"worker": 4}, gpu=1))
        until(
            lambda: sorted(map(stage.jobs.phase, names)) == ["Queued", *["Running"] * 3],
            "three run and one waits",
            60,
        )
        [last] = [name for name in names if stage.jobs.phase(name) == "Queued"]
        waits_for(stage, last, "0 of its 12 gpu free")
        assert stage.jobs.pods(last) == []
        first = next(name for name in names if name != last)
        stage.finish(first)
        stage.jobs.wait_phase(last, "Running")
        assert len(stage.members(last)) == 4


def test_a_more_important_gang_takes_the_place_of_a_whole_one(stage: Stage) -> None:
    with stage.nodes(2, NodeShape(cpus=2)):
        stage.run(training_job("humble", {"worker": 4}, priority="low"))
        stage.run(training_job("proud", {"worker": 2}, priority="high"))
        status = waits_for(stage, "humble", "")
        assert status["epoch"] == 1
        assert stage.jobs.pods("humble") == []
        stage.finish("proud")
        stage.jobs.wait_phase("humble", "Running")


def test_a_pool_gets_back_what_it_is_guaranteed(stage: Stage) -> None:
    for name in ("ads", "maps"):
        body = {
            "apiVersion": "mooring.dev/v1",
            "kind": "Pool",
            "metadata": {"name": name},
            "spec": {"guaranteed": {"cpu": 2}},
        }
        stage.admin.create(POOLS, body)
    try:
        with stage.nodes(2, NodeShape(cpus=2)):
            stage.run(training_job("own", {"worker": 2}, pool="maps"))
            stage.run(training_job("borrows", {"worker": 2}, pool="maps"))
            stage.run(training_job("reclaims", {"worker": 2}, pool="ads"))
            phases = {name: stage.jobs.phase(name) for name in ("own", "borrows")}
            assert sorted(phases.values()) == ["Queued", "Running"]
            assert stage.jobs.status("reclaims")["pool"] == "ads"
    finally:
        for name in ("ads", "maps"):
            stage.admin.delete(f"{POOLS}/{name}")


def test_a_stranger_that_takes_the_room_sends_the_gang_back(stage: Stage) -> None:
    """The node turns a member away that was bound to it: something took the room meanwhile."""
    with stage.nodes(2, NodeShape(cpus=1)):
        stage.strings.hold(stage.namespace, "late-worker-1")
        stage.submit(training_job("late"))
        until(lambda: stage.members("late").get("worker-1"), "it is bound", 30)
        stage.strings.turn_away(stage.namespace, "late-worker-1")
        status = stage.status_when(
            "late", lambda now: now.get("record", {}).get("takenBack") == 1, "taken back"
        )
        assert status["reason"] == "TakenBack"
        assert "turned worker-1 away" in status["message"]
        stage.strings.release_all()
        # It waits before it tries again, and then runs with a new epoch.
        assert stage.jobs.wait_phase("late", "Running")["status"]["epoch"] == 1


def test_a_pod_that_cannot_be_bound_sends_the_gang_back(stage: Stage) -> None:
    """A stranger that asks for nothing the brain counts (all of a node's pods) is in the way."""
    with stage.nodes(1, NodeShape(cpus=8, pods=2)):
        for name in ("stranger-a", "stranger-b"):
            body = pod(name, nodeSelector={MARK: "true"})
            stage.admin.create(pods_path(stage.namespace), body)
        until(lambda: _bound(stage, "stranger-a") and _bound(stage, "stranger-b"), "they are there")
        stage.submit(training_job("tight", {"worker": 1}, kubernetes={"bindTimeout": "1s"}))
        # In its own words: before kube-scheduler has looked there is only a time limit to tell of.
        stage.status_when("tight", _told, "says that it is for want of pods")
        for name in ("stranger-a", "stranger-b"):
            stage.admin.delete(f"{pods_path(stage.namespace)}/{name}", grace_s=0)
        stage.jobs.wait_phase("tight", "Running")


def _bound(stage: Stage, name: str) -> bool:
    return bool(stage.admin.get(f"{pods_path(stage.namespace)}/{name}")["spec"].get("nodeName"))


def _told(now: Json) -> bool:
    waits = now.get("phase") in ("Queued", "Releasing")
    return waits and "too many pods" in str(now.get("message")).lower()


def test_a_gang_leaves_a_node_that_is_gone(stage: Stage) -> None:
    policy = {"restart": "gang", "backoff": {"initial": 0, "max": 0}}
    with stage.nodes(3, NodeShape(cpus=1)):
        stage.run(training_job("moves", failurePolicy=policy))
        lost = stage.members("moves")["worker-0"]
        stage.admin.delete(f"/api/v1/nodes/{lost}")
        # Nobody is there to end the pod: the cluster's pod collector, in the end.
        path = f"{pods_path(stage.namespace)}/moves-worker-0"
        stage.admin.delete(path, grace_s=0, missing_ok=True)
        stage.status_when(
            "moves", lambda now: now["phase"] == "Running" and now["epoch"] > 0, "runs elsewhere"
        )
        assert lost not in stage.members("moves").values()


def test_a_node_that_is_not_ready_gets_nobody(stage: Stage) -> None:
    with stage.nodes(1, NodeShape(cpus=4)) as [node]:
        condition = {"type": "Ready", "status": "False", "reason": "Down"}
        path = f"/api/v1/nodes/{node}/status"
        stage.admin.patch(path, {"status": {"conditions": [condition]}})
        stage.submit(training_job("patient"))
        waits_for(stage, "patient", "1 node is not ready.")
        ready = {"type": "Ready", "status": "True", "reason": "Up"}
        stage.admin.patch(path, {"status": {"conditions": [ready]}})
        stage.jobs.wait_phase("patient", "Running")


def test_a_pod_of_somebody_else_with_a_members_name_is_left_alone(stage: Stage) -> None:
    with stage.nodes(1, NodeShape(cpus=4)):
        body = pod("taken-worker-1", nodeSelector={MARK: "true"})
        stage.admin.create(pods_path(stage.namespace), body)
        before = _uid(stage, pods_path(stage.namespace), "taken-worker-1")
        stage.submit(training_job("taken"))
        status = stage.status_when("taken", lambda now: now.get("reason") == "TakenBack", "told")
        assert "a pod named taken-worker-1, not Mooring's, is in the way" in status["message"]
        assert _uid(stage, pods_path(stage.namespace), "taken-worker-1") == before
        stage.admin.delete(f"{pods_path(stage.namespace)}/taken-worker-1", grace_s=0)
        stage.jobs.wait_phase("taken", "Running")


def test_a_service_of_somebody_else_with_the_jobs_name_is_left_alone(stage: Stage) -> None:
    services = f"/api/v1/namespaces/{stage.namespace}/services"
    body = {"metadata": {"name": "shop"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    stage.admin.create(services, body)
    with stage.nodes(1, NodeShape(cpus=4)):
        stage.submit(training_job("shop"))
        status = stage.status_when("shop", lambda now: now.get("reason") == "TakenBack", "told")
        assert "a service named shop, not Mooring's, is in the way" in status["message"]
        assert stage.admin.get(f"{services}/shop")["spec"]["selector"] == {"a": "b"}
        assert stage.jobs.pods("shop") == []
        stage.admin.delete(f"{services}/shop")
        stage.jobs.wait_phase("shop", "Running")


def _uid(stage: Stage, path: str, name: str) -> Any:
    return stage.admin.get(f"{path}/{name}")["metadata"]["uid"]
