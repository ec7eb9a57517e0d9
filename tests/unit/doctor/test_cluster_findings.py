"""Which pods are one gang, and when a gang of others is half-started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mooring.backends.kubernetes.api.times import write_seconds
from mooring.doctor import Diagnosis, diagnose_cluster
from mooring.doctor.facts import ClusterFacts, GangFacts
from mooring.doctor.finding import Confidence
from mooring.doctor.read_gangs import gangs_of, read_gangs
from unit.kubeapi.fake_server import serving

NOW_S = 1_800_000_000.0
KUBEFLOW = "training.kubeflow.org/job-name"


def pod(
    node: str = "",
    gpus: int = 1,
    labels: Mapping[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    waited_s: float = 3600.0,
    **more: Any,
) -> dict[str, Any]:
    """A pod with a node, or one that the scheduler has found none for so long."""
    since = write_seconds(NOW_S - waited_s)
    meta: dict[str, Any] = {"namespace": "team", "labels": dict(labels or {}), **more}
    meta["creationTimestamp"] = write_seconds(NOW_S - 7200)
    if owner:
        meta["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    scheduled = {"type": "PodScheduled", "status": str(bool(node)), "lastTransitionTime": since}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": meta,
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "resources": {"requests": limits, "limits": limits}}],
        },
        "status": {"phase": "Running" if node else "Pending", "conditions": [scheduled]},
    }


def found(pods: Sequence[dict[str, Any]]) -> list[tuple[str, str, Confidence]]:
    facts = ClusterFacts("cluster", gangs_of(pods, NOW_S))
    return [
        (one.id, one.found.says, one.found.confidence) for one in diagnose_cluster(facts).findings
    ]


def test_a_gang_that_holds_cards_and_waits_for_more() -> None:
    labels = {KUBEFLOW: "bert", "job-name": "bert-worker"}
    owner = ("PyTorchJob", "bert")
    pods = [
        pod("gpu-1", 4, labels, owner),
        pod("gpu-2", 4, labels, owner),
        pod("", 4, labels, owner, waited_s=5400),
        pod("", 4, labels, owner, waited_s=60),
    ]
    says = (
        "PyTorchJob team/bert: 2 of 4 pods have a node and hold 8 GPUs; the others have waited "
        "for 1 h 30 min"
    )
    assert found(pods) == [("gang-half-started", says, Confidence.LIKELY)]


@pytest.mark.parametrize(
    "pods",
    [
        # Whole; not at all; not for long; without cards.
        [pod("n", labels={KUBEFLOW: "a"}), pod("n", labels={KUBEFLOW: "a"})],
        [pod(labels={KUBEFLOW: "a"}), pod(labels={KUBEFLOW: "a"})],
        [pod("n", labels={KUBEFLOW: "a"}), pod(labels={KUBEFLOW: "a"}, waited_s=299)],
        [pod("n", 0, {KUBEFLOW: "a"}), pod("", 0, {KUBEFLOW: "a"})],
        # Two jobs; one of each in two namespaces.
        [pod("n", labels={KUBEFLOW: "a"}), pod(labels={KUBEFLOW: "b"})],
        [pod("n", labels={KUBEFLOW: "a"}), pod(labels={KUBEFLOW: "a"}, namespace="other")],
        # A service with replicas; pods without an owner; Mooring's own.
        [pod("n", owner=("ReplicaSet", "web")), pod(owner=("ReplicaSet", "web"))],
        [pod("n"), pod()],
        [pod("n", labels={"mooring.dev/job": "a"}), pod(labels={"mooring.dev/job": "a"})],
        # The one that waits is on its way out.
        [
            pod("n", labels={KUBEFLOW: "a"}),
            pod(labels={KUBEFLOW: "a"}, deletionTimestamp="2026-01-01T00:00:00Z"),
        ],
    ],
)
def test_what_is_no_half_started_gang(pods: list[dict[str, Any]]) -> None:
    assert found(pods) == []


@pytest.mark.parametrize(
    ("labels", "owner", "notes", "kind", "together"),
    [
        ({"volcano.sh/job-name": "x"}, ("Job", "x"), {}, "Job.batch.volcano.sh", True),
        ({"ray.io/cluster": "x"}, ("RayCluster", "x"), {}, "RayCluster", True),
        ({"ray.io/cluster": "x"}, None, {}, "RayCluster", True),
        ({"jobset.sigs.k8s.io/jobset-name": "x", "job-name": "x-0"}, None, {}, "JobSet", True),
        ({"job-name": "x"}, ("Job", "x"), {}, "Job", False),
        ({"batch.kubernetes.io/job-name": "x"}, ("Job", "x"), {}, "Job", False),
        (
            {"job-name": "x"},
            ("Job", "x"),
            {"batch.kubernetes.io/job-completion-index": "0"},
            "Job",
            True,
        ),
        ({}, ("MPIJob", "x"), {}, "MPIJob", True),
    ],
)
def test_whose_pods_they_are(
    labels: dict[str, str],
    owner: tuple[str, str] | None,
    notes: dict[str, str],
    kind: str,
    together: bool,
) -> None:
    made = {"labels": labels, "owner": owner, "annotations": notes}
    [gang] = gangs_of([pod("n-2", 2, **made), pod("n-1", 1, **made), pod(**made)], NOW_S)
    assert gang == GangFacts(
        "team", "x", kind, 2, 1, gpus=3, nodes=("n-1", "n-2"), waited_s=3600.0, together=together
    )


def test_pods_that_are_not_shown_are_no_answer() -> None:
    async def ask() -> Diagnosis:
        async with serving() as (server, client):
            server.refuse_list(403, "Forbidden")
            return diagnose_cluster(await read_gangs(client, "team", NOW_S))

    answer = asyncio.run(ask())
    [checked] = answer.checked
    assert (answer.of, answer.findings, checked.id) == ("team", (), "gang-half-started")
    assert "not shown to this user" in checked.unknown
    assert "said 403" in checked.unknown


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"metadata": None, "spec": [], "status": "?"},
        {"metadata": {"labels": ["job-name"], "ownerReferences": {"kind": "MPIJob"}}},
        {"metadata": {"labels": {"job-name": 3}, "ownerReferences": [None, {"controller": True}]}},
        {"metadata": {"labels": {"job-name": "x"}}, "spec": {"nodeName": 7, "containers": 3}},
        {"metadata": {"labels": {"job-name": "x"}}, "status": {"conditions": [{"type": 1}, 2]}},
    ],
)
def test_pods_of_any_shape(told: dict[str, Any]) -> None:
    assert len(gangs_of([told, told], NOW_S)) <= 1
