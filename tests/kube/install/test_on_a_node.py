"""What `moor install` prints runs on a real node: two replicas, and their webhook."""

from __future__ import annotations

from typing import Any

import pytest

from kube.cluster.client import ApiError
from kube.cluster.control_plane import ControlPlane
from kube.cluster.real_node import real_nodes
from kube.install.objects import JOBS, install_on, refused_by_webhook, small, stored
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.root]

OWN = "/api/v1/namespaces/mooring-system"
DEPLOYMENT = "/apis/apps/v1/namespaces/mooring-system/deployments/mooring-operator"


def ready_replicas(plane: ControlPlane) -> int:
    ready: int = plane.admin.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0)
    return ready


def told(plane: ControlPlane) -> str:
    """How the operator's pods stand, for a test that waited in vain."""
    pods = plane.admin.items(f"{OWN}/pods")
    parts = [f"{one['metadata']['name']}: {one['status']}" for one in pods]
    for one in pods:
        try:
            parts.append(plane.admin.text(f"{OWN}/pods/{one['metadata']['name']}/log"))
        except ApiError as error:
            parts.append(str(error))
    return "\n".join(parts)


@pytest.mark.usefixtures("can_be_a_node")
def test_two_replicas_become_ready_and_refuse_a_bad_job(plane: ControlPlane) -> None:
    with real_nodes(plane) as nodes, nodes.node("real"):
        try:
            until(lambda: ready_replicas(plane) == 2, "two replicas are ready", 120)
            until(lambda: refused_by_webhook(plane), "a bad job is refused", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{told(plane)}") from None
        with stored(plane, small()):
            status: dict[str, Any] = until(
                lambda: plane.admin.get(f"{JOBS}/demo").get("status"), "the leader looks at it", 60
            )
        assert status["phase"]
        lease = "/apis/coordination.k8s.io/v1/namespaces/mooring-system/leases/mooring-operator"
        holder = plane.admin.get(lease)["spec"]["holderIdentity"]
        names = [one["metadata"]["name"] for one in plane.admin.items(f"{OWN}/pods")]
        assert any(holder.startswith(name) for name in names)
        plane.admin.delete(DEPLOYMENT)
        until(lambda: not plane.admin.items(f"{OWN}/pods"), "the operator's pods are gone", 60)
    install_on(plane)
