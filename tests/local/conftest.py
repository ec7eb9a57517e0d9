"""Launchers for the tests here: packed once, each test's ended with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import Launchers

from mooring.bodies.local.pack import build_launcher


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_launcher(tmp_path_factory.mktemp("launcher") / "launcher.pyz")


@pytest.fixture
def launchers(archive: Path, tmp_path: Path) -> Iterator[Launchers]:
    launchers = Launchers(archive, tmp_path)
    yield launchers
    launchers.close()
