"""Layouts of parameter servers and workers, bound by the real kube-scheduler as planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kube.cluster.client import Json
from kube.cluster.fake_nodes import NodeShape
from kube.operator import training_job
from kube.scenarios import Stage

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

SHAPE = NodeShape(cpus=16, memory_bytes=64 * 2**30)
LARGEST = 40


@pytest.fixture(scope="module", autouse=True)
def cluster(stage: Stage) -> Iterator[None]:
    with stage.nodes(LARGEST, SHAPE):
        for index in range(LARGEST):
            body = {"metadata": {"labels": {"scene": str(index)}}}
            stage.admin.patch(f"/api/v1/nodes/fake-{index:03d}", body)
        yield


@pytest.fixture(autouse=True)
def nothing_left(stage: Stage) -> Iterator[None]:
    yield
    stage.clear()


def scene(name: str, servers: int, workers: int, nodes: int, preset: str) -> Json:
    """Requests as in the field report: 2 CPUs a server, 0.3 a worker, 4 GiB each."""
    job = training_job(name)
    first = [{"key": "scene", "operator": "Lt", "values": [str(nodes)]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": first}]}
    job["spec"] |= {
        "framework": "tensorflow",
        "command": ["train"],
        "placement": {
            "preset": preset,
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
        },
        "roles": {
            "ps": {"replicas": servers, "resources": {"cpu": 2, "memory": "4Gi"}},
            "worker": {"replicas": workers, "resources": {"cpu": "300m", "memory": "4Gi"}},
        },
    }
    return job


def placed(stage: Stage, job: Json) -> dict[str, Counter[str]]:
    """Role -> node -> members there, as bound; checked against the plan in the status."""
    name = stage.submit(job)
    stage.jobs.wait_phase(name, "Running", deadline_s=120)
    bound = stage.members(name)
    planned: dict[str, Any] = stage.jobs.status(name)["placement"]
    assert bound == {
        f"{role}-{index}": node
        for role, listed in planned.items()
        for index, node in enumerate(listed)
    }
    found: dict[str, Counter[str]] = {"ps": Counter(), "worker": Counter()}
    for member, node in bound.items():
        found[member.rpartition("-")[0]][node] += 1
    return found


@pytest.mark.parametrize(("nodes", "workers", "servers"), [(1, 10, 1), (5, 50, 5), (20, 200, 20)])
def test_every_server_with_workers_has_a_parameter_server(
    stage: Stage, nodes: int, workers: int, servers: int
) -> None:
    found = placed(stage, scene("together", servers, workers, nodes, "colocate"))
    # On each node ten workers and one server.
    assert sorted(found["ps"].values()) == [1] * nodes
    assert sorted(found["worker"].values()) == [10] * nodes
    assert set(found["ps"]) == set(found["worker"])


@pytest.mark.parametrize(("nodes", "workers", "servers"), [(2, 10, 1), (10, 50, 5), (40, 200, 20)])
def test_servers_and_workers_are_kept_apart(
    stage: Stage, nodes: int, workers: int, servers: int
) -> None:
    found = placed(stage, scene("isolated", servers, workers, nodes, "isolate"))
    assert not set(found["ps"]) & set(found["worker"])
    assert sorted(found["ps"].values()) == [1] * servers
    # The other half of the nodes: ten workers each.
    assert sorted(found["worker"].values()) == [10] * (nodes // 2)


def test_parameter_servers_are_spread(stage: Stage) -> None:
    found = placed(stage, scene("spread", 4, 8, 4, "spread-ps"))
    assert sorted(found["ps"].values()) == [1, 1, 1, 1]
