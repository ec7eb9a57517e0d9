"""As much of Volcano as its users need: the definition of PodGroups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kube.cluster.control_plane import ControlPlane
from support.waiting import until

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POD_GROUPS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def groups_path(namespace: str) -> str:
    return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"


@contextmanager
def pod_groups(plane: ControlPlane) -> Iterator[None]:
    """The cluster has PodGroups while the block runs."""
    plane.admin.create(_DEFINITIONS, _POD_GROUPS)
    try:
        until(
            lambda: plane.kubectl("get", "podgroups", "-A").returncode == 0,
            "PodGroups are served",
            60,
        )
        yield
    finally:
        plane.admin.delete(f"{_DEFINITIONS}/podgroups.scheduling.volcano.sh")
