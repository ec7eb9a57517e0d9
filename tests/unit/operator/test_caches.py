"""Which job a change of a pod concerns, and how soon."""

from __future__ import annotations

from typing import Any

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pod_manifest import Owner
from mooring.operator.caches import Caches


class Told:
    """Caches that no server fills, and whom they tell what."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.caches = Caches(
            Client(ClusterAccess("http://127.0.0.1:1")),
            namespaces=(),
            resync_s=600.0,
            ask_kubelets=False,
            concerned=lambda key: self.said.append("concerned"),
            moved=lambda key: self.said.append("moved"),
            bound=lambda key: self.said.append("bound"),
            room=lambda: self.said.append("room"),
            trouble=lambda: None,
        )

    def put(self, version: int, **changes: Any) -> list[str]:
        """What follows from this version of the pod."""
        self.said.clear()
        self.caches.pods.put(pod(version, **changes))
        return list(dict.fromkeys(self.said))


def pod(version: int, node: str = "", phase: str = "Pending", ip: str = "") -> dict[str, Any]:
    labels = {
        names.MANAGED_BY: names.MANAGER,
        names.JOB: "j",
        names.JOB_UID: "uid-1",
        names.ROLE: "worker",
        names.INDEX: "0",
        names.EPOCH: "0",
        names.ATTEMPT: "0",
    }
    return {
        "metadata": {
            "name": "j-worker-0",
            "namespace": "team",
            "uid": "pod-1",
            "resourceVersion": str(version),
            "labels": labels,
            "ownerReferences": [Owner("j", "team", "uid-1").reference()],
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "podIP": ip},
    }


def test_a_pod_that_was_bound_can_wait() -> None:
    told = Told()
    assert told.put(1) == ["moved"]
    assert told.put(2, node="n-1") == ["bound"]
    assert told.put(3, node="n-1", phase="Running") == ["moved"]
    assert told.put(4, node="n-1", phase="Failed") == ["moved", "room"]


def test_a_pod_that_was_bound_and_runs_already_cannot() -> None:
    told = Told()
    told.put(1)
    assert told.put(2, node="n-1", phase="Running") == ["moved"]


def test_what_is_not_looked_at_concerns_nobody() -> None:
    told = Told()
    told.put(1, node="n-1")
    assert told.put(2, node="n-1", ip="10.0.0.1") == []


def test_a_pod_whose_labels_were_taken_off_is_no_longer_a_member() -> None:
    told = Told()
    told.put(1)
    bare = pod(2)
    bare["metadata"]["labels"] = {}
    told.caches.pods.put(bare)
    told.caches.pods.remove(("team", "j-worker-0"), "pod-1")
    assert told.caches._pods_of == {}
