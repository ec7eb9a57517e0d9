"""The operator serves the webhook behind its Service."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import psutil
import pytest

from kube.cluster.control_plane import ControlPlane
from kube.install.objects import JOBS, install_on, refused_by_webhook, small, stored
from mooring.operator.serving import open_port
from support.waiting import until


def own_address() -> str:
    """An address of this machine that an Endpoints object may hold: not a loopback one."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not ip_address(one.address).is_loopback:
                return one.address
    pytest.skip("this machine has no address but loopback")


@contextmanager
def endpoints(plane: ControlPlane, port: int) -> Iterator[None]:
    """The Service leads to this machine."""
    own = "/api/v1/namespaces/mooring-system"
    # Without a selector nobody else writes its endpoints.
    plane.admin.patch(f"{own}/services/mooring-webhook", {"spec": {"selector": None}})
    plane.admin.delete(f"{own}/endpoints/mooring-webhook", missing_ok=True)
    subset = {"addresses": [{"ip": own_address()}], "ports": [{"name": "webhook", "port": port}]}
    made = {"metadata": {"name": "mooring-webhook"}, "subsets": [subset]}
    plane.admin.create(f"{own}/endpoints", made)
    try:
        yield
    finally:
        install_on(plane)


def test_the_operator_serves_the_webhook_behind_its_service(plane: ControlPlane) -> None:
    """`moor operator` with its own account."""
    since = plane.audit.position()
    with open_port(0) as probe:
        port = probe.getsockname()[1]
    account = plane.kubeconfig_for_service_account("mooring-system", "mooring-operator")
    with endpoints(plane, port):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mooring", "operator", f"--kubeconfig={account}"),
                *("--operator-namespace=mooring-system", "--image=mooring:test"),
                *("--metrics-port=0", f"--webhook-port={port}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            until(lambda: refused_by_webhook(plane), "the operator refuses a bad job", 60)
            with stored(plane, small()):
                until(
                    lambda: plane.admin.get(f"{JOBS}/demo").get("status", {}).get("phase"),
                    "the operator looks at a good one",
                    60,
                )
            process.terminate()
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    user = "system:serviceaccount:mooring-system:mooring-operator"
    asked = list(plane.audit.entries(since=since, user=user))
    assert {"leases", "nodes", "pods", "pools", "trainingjobs"} <= {one.resource for one in asked}
    assert [one for one in asked if one.code == 403] == []
