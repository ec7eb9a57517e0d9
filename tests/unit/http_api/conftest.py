"""A served API with a state home of its own, and runs that look as if they had ended."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.served import Served, served


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Short: it holds a socket."""
    folder = Path(tempfile.mkdtemp(prefix="moor-"))
    monkeypatch.setenv("MOORING_HOME", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def api(home: Path) -> Iterator[Served]:
    with served(home) as api:
        yield api
