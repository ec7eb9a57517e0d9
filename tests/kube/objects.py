"""Objects that many tests create."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube.cluster.client import Json


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(
    name: str,
    command: Sequence[str] = (),
    image: str = "mooring.test/python:1",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod within the `restricted` Pod Security Standard; `spec` adds to its spec."""
    container: Json = {
        "name": "main",
        "image": image,
        "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if command:
        container["command"] = list(command)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        },
    }
