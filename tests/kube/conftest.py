"""A real Kubernetes for the tests here.

Where it cannot be had the tests are skipped with the reason; with CI=true they fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from kube.cluster.binaries import ALL, CONTROL_PLANE, REAL_NODE, MissingProgram, find
from kube.cluster.control_plane import ControlPlane
from kube.cluster.control_plane import control_plane as run_control_plane
from kube.cluster.real_node import RealNode, RealNodes
from kube.cluster.real_node import real_nodes as run_real_nodes
from kube.operator import Jobs, OperatorProcess
from kube.operator import operator as run_operator
from kube.scenarios import Stage
from kube.scenarios import stage as make_stage

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kube)
            if isinstance(item, pytest.Function) and "can_be_a_node" in item.fixturenames:
                item.add_marker(pytest.mark.real_node)


def give_up(reason: str) -> NoReturn:
    message = f"no Kubernetes for this test: {reason}"
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(message)
    pytest.skip(message)


def require(*programs: str) -> None:
    """Gives the test up unless these programs are here."""
    try:
        missing = find().missing(*programs)
    except MissingProgram as problem:
        give_up(str(problem))
    if missing:
        give_up(f"{find().folder} has no {', '.join(missing)}")


@pytest.fixture(autouse=True)
def _programs(request: pytest.FixtureRequest) -> None:
    """`@pytest.mark.programs("kubemark")`: what the test needs beyond an API server."""
    for marker in request.node.iter_markers("programs"):
        unknown = set(marker.args) - set(ALL)
        assert not unknown, unknown
        require(*marker.args)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One for the whole session: leave nothing in it that another test could meet."""
    require("etcd", "kube-apiserver")
    with run_control_plane() as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own. A real node that the test used is left without pods."""
    name = control_plane.create_namespace()
    yield name
    control_plane.delete_namespace(name)
    if "real_node" in request.fixturenames:
        node: RealNode = request.getfixturevalue("real_node")
        node.wait_empty()


@pytest.fixture(scope="session")
def can_be_a_node() -> None:
    """Gives the test up unless this machine can be a node."""
    require(*CONTROL_PLANE, *REAL_NODE)
    if os.geteuid() != 0:
        give_up("a real node needs root")


@pytest.fixture(scope="session")
def real_nodes(can_be_a_node: None, control_plane: ControlPlane) -> Iterator[RealNodes]:
    """The network on which real nodes can be started: `with real_nodes.node(...) as node`."""
    with run_real_nodes(control_plane) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def real_node(real_nodes: RealNodes) -> Iterator[RealNode]:
    """This machine as the node `real`, with the static CPU manager.

    It is gone after the module: a gang of another test, meant for fake nodes, would go there too.
    """
    with real_nodes.node("real") as node:
        yield node


@pytest.fixture
def operator(control_plane: ControlPlane, namespace: str) -> Iterator[OperatorProcess]:
    """A running operator for the jobs of the test's namespace."""
    with run_operator(control_plane, namespace) as process:
        yield process


@pytest.fixture
def jobs(control_plane: ControlPlane, namespace: str) -> Jobs:
    """The jobs of the test's namespace."""
    return Jobs(control_plane, namespace)


@pytest.fixture(scope="session")
def standing_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The namespace whose jobs one operator looks after for the whole session."""
    name = control_plane.create_namespace()
    with run_operator(control_plane, name):
        yield name
    control_plane.delete_namespace(name)


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, standing_namespace: str) -> Iterator[Stage]:
    """Where scenarios are played: a standing operator, and fake nodes that the test brings."""
    with make_stage(control_plane, standing_namespace) as made:
        yield made
