"""Nodes that are objects only: the scheduler binds pods to them, and nobody runs those."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kube.cluster.client import Client, Json

MARK = "mooring.dev/fake-node"
WRITERS = 8


@dataclass(frozen=True)
class NodeShape:
    """What a node has, and what it says about itself."""

    cpus: float = 8
    memory_bytes: int = 32 * 2**30
    gpus: int = 0
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    extended: Mapping[str, int] = field(default_factory=dict)
    """Further resources by their full names."""

    def node(self, name: str) -> Json:
        amounts = {
            "cpu": f"{round(self.cpus * 1000)}m",
            "memory": str(self.memory_bytes),
            "ephemeral-storage": str(100 * 2**30),
            "pods": str(self.pods),
            **({"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}),
            **{key: str(value) for key, value in self.extended.items()},
        }
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", MARK: "true"}
        conditions = [{"type": "Ready", "status": "True", "reason": "Fake"}]
        spec: dict[str, Any] = {"taints": [dict(taint) for taint in self.taints]}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**labels, **self.labels}},
            "spec": spec,
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
        }


PLAIN = NodeShape()


@contextmanager
def fake_nodes(
    client: Client, count: int, shape: NodeShape = PLAIN, prefix: str = "fake"
) -> Iterator[list[str]]:
    """So many nodes, `PREFIX-000` and on, while the block runs; their pods go with them."""
    names = [f"{prefix}-{index:03d}" for index in range(count)]
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda name: add_node(client, name, shape), names))
    try:
        yield names
    finally:
        remove_nodes(client, names)


def add_node(client: Client, name: str, shape: NodeShape = PLAIN) -> None:
    # A node is Ready once created: the server keeps the status of a created node, and the taint
    # `not-ready` that admission adds goes only when a controller sees the condition.
    client.create("/api/v1/nodes", shape.node(name))


def remove_nodes(client: Client, names: Collection[str]) -> None:
    """With their pods, which nobody else would end."""
    paths = [f"/api/v1/nodes/{name}" for name in names]
    for pod in client.items("/api/v1/pods"):
        about = pod["metadata"]
        if pod["spec"].get("nodeName") in names:
            paths.append(f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}")
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda path: client.delete(path, grace_s=0, missing_ok=True), paths))
