"""Manifests in the style of the projects' own examples, and the jobs that become of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.manifests import MANIFESTS


@pytest.fixture(params=MANIFESTS, ids=lambda path: path.stem)
def manifest(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path
