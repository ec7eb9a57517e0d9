"""Jobs that another scheduler places: the default one, Volcano, Kueue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube.cluster.fake_nodes import NodeShape
from kube.operator import training_job
from kube.scenarios import Stage
from kube.volcano import groups_path, pod_groups
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]


@pytest.fixture(scope="module", autouse=True)
def nodes(stage: Stage) -> Iterator[None]:
    with stage.nodes(4, NodeShape(cpus=4)):
        yield


@pytest.fixture(autouse=True)
def nothing_left(stage: Stage) -> Iterator[None]:
    yield
    stage.clear()


@pytest.fixture
def volcano(stage: Stage) -> Iterator[str]:
    """Where PodGroups are."""
    with pod_groups(stage.plane):
        yield groups_path(stage.namespace)


def test_the_default_scheduler_keeps_servers_and_workers_apart(stage: Stage) -> None:
    job = training_job("free", {"ps": 2, "worker": 4}, kubernetes={"scheduler": "default"})
    job["spec"] |= {"framework": "tensorflow", "placement": {"preset": "isolate"}}
    stage.run(job)
    found = stage.members("free")
    servers = {node for member, node in found.items() if member.startswith("ps")}
    workers = {node for member, node in found.items() if member.startswith("worker")}
    assert servers
    assert workers
    assert not servers & workers
    stage.finish("free", *(f"worker-{index}" for index in range(4)))
    stage.jobs.wait_phase("free", "Succeeded")


def test_volcano_gets_the_gang_as_a_group(stage: Stage, volcano: str) -> None:
    stage.submit(training_job("lava", kubernetes={"scheduler": "volcano", "queue": "research"}))
    until(lambda: len(stage.jobs.pods("lava")) == 2, "its pods are there", 30)
    group = stage.admin.get(f"{volcano}/lava")
    assert group["spec"] == {"minMember": 2, "queue": "research"}
    for pod in stage.jobs.pods("lava"):
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "lava"
        # No Volcano is here: it is bound as Volcano would do it.
        about = {"name": pod["metadata"]["name"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": "fake-000"}
        path = f"/api/v1/namespaces/{stage.namespace}/pods/{about['name']}/binding"
        stage.admin.create(path, {"metadata": about, "target": target})
    stage.jobs.wait_phase("lava", "Running")
    stage.delete("lava")
    until(lambda: stage.admin.items(volcano) == [], "the group is gone", 60)


def test_a_cluster_without_volcano_is_told_from_one_that_is_full(stage: Stage) -> None:
    stage.submit(training_job("lava", kubernetes={"scheduler": "volcano"}))
    status = stage.status_when("lava", lambda now: now.get("reason") == "TakenBack", "told")
    assert status["message"] == "the cluster has no PodGroups: Volcano is not installed there"
    assert stage.jobs.pods("lava") == []


def test_kueue_gets_queue_group_and_count(stage: Stage) -> None:
    stage.run(training_job("line", kubernetes={"scheduler": "kueue", "queue": "research"}))
    for pod in stage.jobs.pods("line"):
        labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        assert labels["kueue.x-k8s.io/queue-name"] == "research"
        assert labels["kueue.x-k8s.io/pod-group-name"] == "line-0"
        assert notes["kueue.x-k8s.io/pod-group-total-count"] == "2"
