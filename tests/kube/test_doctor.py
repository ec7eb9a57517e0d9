"""`moor doctor` about a cluster as a whole: gangs of others that hold cards and wait for more."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.objects import pod, pods_path
from kube.operator import Jobs, OperatorProcess, training_job
from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.kubeconfig import load_access
from mooring.backends.kubernetes.client.jobs import find_job
from mooring.doctor import Diagnosis, diagnose_cluster
from mooring.doctor.findings.gang_half_started import LONG_S
from mooring.doctor.read_gangs import read_gangs
from mooring.doctor.read_job import diagnose_job
from support.moor import Moor
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

GPU = "nvidia.com/gpu"
NAME = "training.kubeflow.org/job-name"


@pytest.fixture(scope="module")
def two_cards_each(control_plane: ControlPlane) -> Iterator[list[str]]:
    with fake_nodes(control_plane.admin, 2, NodeShape(gpus=2), "gpu") as names:
        yield names


def start(plane: ControlPlane, namespace: str, job: str, members: int, cards: int) -> None:
    """One pod after the other, as an operator without gangs makes them."""
    for index in range(members):
        amount = {GPU: str(cards), "cpu": "1", "memory": "1Gi"}
        made = pod(f"{job}-{index}", requests=amount, limits=amount, labels={NAME: job})
        plane.admin.create(pods_path(namespace), made)


def settled(plane: ControlPlane, namespace: str, job: str, placed: int, waiting: int) -> None:
    def counts() -> bool:
        pods = plane.admin.items(pods_path(namespace), labelSelector=f"{NAME}={job}")
        seen = [one for one in pods if one["spec"].get("nodeName")]
        refused = [
            one
            for one in pods
            for condition in one["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        return (len(seen), len(refused)) == (placed, waiting)

    until(counts, f"{job} has {placed} placed and {waiting} waiting", 60)


def look(plane: ControlPlane, namespace: str, later_s: float) -> Diagnosis:
    """As it will look so much later."""

    async def ask() -> Diagnosis:
        async with Client(load_access(None, plane.kubeconfig)) as client:
            return diagnose_cluster(await read_gangs(client, namespace, time.time() + later_s))

    return asyncio.run(ask())


def test_a_half_started_gang_is_named_once_it_has_waited(
    control_plane: ControlPlane, namespace: str, two_cards_each: list[str], tmp_path: Path
) -> None:
    start(control_plane, namespace, "greedy", 3, 2)
    settled(control_plane, namespace, "greedy", 2, 1)
    assert look(control_plane, namespace, 0).findings == ()
    [finding] = look(control_plane, namespace, LONG_S).findings
    assert finding.id == "gang-half-started"
    assert f"{namespace}/greedy: 2 of 3 pods have a node and hold 4 GPUs" in finding.found.says
    assert {figure.what: figure.value for figure in finding.found.evidence}["on"] == ", ".join(
        two_cards_each
    )
    answer = Moor(tmp_path)(
        "doctor", "--json", "--kubeconfig", control_plane.kubeconfig, "-n", namespace
    )
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert (document["of"], document["findings"]) == (namespace, [])
    assert document["checked"] == [
        {
            "id": "gang-half-started",
            "title": "A half-started gang holds GPUs",
            "findings": 0,
            "answer": "excluded",
            "unknown": "",
        }
    ]


def test_a_job_that_waits_for_cards_which_others_hold_for_nothing(
    control_plane: ControlPlane,
    namespace: str,
    two_cards_each: list[str],
    operator: OperatorProcess,
    jobs: Jobs,
) -> None:
    start(control_plane, namespace, "greedy", 3, 2)
    settled(control_plane, namespace, "greedy", 2, 1)
    jobs.create(training_job("patient", gpu=1))
    until(lambda: jobs.status("patient").get("message"), "the queue has said why", 60)

    async def ask() -> Diagnosis:
        async with Client(load_access(None, control_plane.kubeconfig)) as client:
            view = await find_job(client, "patient", namespace)
            return await diagnose_job(client, view, time.time() + LONG_S)

    found = asyncio.run(ask())
    assert [one.id for one in found.findings] == ["job-pending", "gang-half-started"]
    assert f"{namespace}/greedy" in found.findings[1].found.says
    assert operator.defects == []


def test_a_gang_that_is_whole_is_left_alone(
    control_plane: ControlPlane, namespace: str, two_cards_each: list[str]
) -> None:
    start(control_plane, namespace, "modest", 2, 1)
    settled(control_plane, namespace, "modest", 2, 0)
    assert look(control_plane, namespace, 10 * LONG_S).findings == ()
