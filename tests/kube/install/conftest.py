"""One cluster for all tests here: what is installed is cluster-wide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube.cluster.client import Client
from kube.cluster.control_plane import ControlPlane, Options
from kube.cluster.control_plane import control_plane as run_control_plane
from kube.conftest import require
from kube.install.objects import install_on
from kube.install.serving import serving

#: There is no kube-proxy: the server goes to the endpoints of the webhook's Service itself.
FLAGS = {"kube-apiserver": ["--enable-aggregator-routing=true"]}


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """Mooring is installed in it. Tests leave it as they find it."""
    require("etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
    with run_control_plane(Options(flags=FLAGS)) as plane:
        install_on(plane)
        yield plane


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane) -> Iterator[None]:
    """The webhook as a replica serves it, with the rights of the operator's own account."""
    account = plane.kubeconfig_for_service_account("mooring-system", "mooring-operator")
    with serving(plane, Client(account)):
        yield
