"""Hollow nodes: kubemark, the kubelet's own code with a runtime that only pretends.

Pods on them go Running and end when deleted. Each needs some 70 MB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kube.cluster.bed import free_ports, need
from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import remove_nodes
from support.waiting import until

# Every kubemark listens on /tmp/kubelet_remote.sock: it gets a /tmp of its own, and sees the bed's
# folder and the programs, which may be in /tmp, through folders that exist everywhere.
SCRIPT = """set -e
mount --bind "$1" /mnt
mount --bind "$2" /srv
mount -t tmpfs none /tmp
shift 2
exec "$@"
"""
NO_CLOUD = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}


@contextmanager
def hollow_nodes(plane: ControlPlane, count: int, prefix: str = "hollow") -> Iterator[list[str]]:
    """So many nodes, `PREFIX-00` and on, Ready, while the block runs."""
    need("unshare", "mount")
    names = [f"{prefix}-{index:02d}" for index in range(count)]
    ports = iter(free_ports(2 * count))
    for name in names:
        _start(plane, name, next(ports), next(ports))
    try:
        until(lambda: _ready(plane, names), f"{count} hollow nodes Ready", 60 + 2 * count)
        yield names
    finally:
        for name in names:
            plane.bed.stop(name)
        remove_nodes(plane.admin, names)


def _start(plane: ControlPlane, name: str, port: int, read_only_port: int) -> None:
    config = plane.kubeconfig.relative_to(plane.bed.folder)
    unshare = ["unshare", "--mount"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    command: list[str | Path] = [
        *(*unshare, "sh", "-c", SCRIPT, "sh"),
        plane.bed.folder,
        plane.programs.path("kubemark").parent,
        *("/srv/kubemark", "--morph=kubelet", f"--name={name}"),
        *(f"--kubeconfig=/mnt/{config}", f"--kubelet-port={port}"),
        f"--kubelet-read-only-port={read_only_port}",
    ]
    plane.bed.start(name, command, {**os.environ, **NO_CLOUD})


def _ready(plane: ControlPlane, names: list[str]) -> bool:
    for name in names:
        plane.bed.check(name)
    nodes = {node["metadata"]["name"]: node for node in plane.admin.items("/api/v1/nodes")}
    return all(name in nodes and is_ready(nodes[name]) for name in names)


def is_ready(node: Json) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node.get("status", {}).get("conditions", [])
    )
