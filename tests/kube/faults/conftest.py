"""What all fault tests share: operators that start quickly, and pods that go Running."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kube.cluster.control_plane import ControlPlane
from kube.cluster.puppets import Puppets, puppets
from kube.faults.nursery import Nursery
from kube.operator import install


@pytest.fixture(scope="session", autouse=True)
def nothing_is_said_of_cut_connections() -> None:
    """The proxy cuts connections on purpose. Its errors would be formatted by its thread, and
    CPython 3.11 fails ("AST constructor recursion depth mismatch") when a traceback is formatted,
    which parses source, while pytest parses source in the main thread."""
    for name in ("aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@pytest.fixture(scope="session")
def nursery(control_plane: ControlPlane) -> Iterator[Nursery]:
    install(control_plane)
    made = Nursery(control_plane)
    yield made
    made.close()


@pytest.fixture(scope="module")
def strings(control_plane: ControlPlane) -> Iterator[Puppets]:
    with puppets(control_plane.admin) as made:
        yield made
