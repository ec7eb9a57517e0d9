"""Launchers for the tests here: packed once, each test's ended with it; and a library in place of
NVIDIA's.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import Launchers

from mooring.backends.local.pack import build_launcher


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_launcher(tmp_path_factory.mktemp("launcher") / "launcher.pyz")


@pytest.fixture
def launchers(archive: Path, tmp_path: Path) -> Iterator[Launchers]:
    launchers = Launchers(archive, tmp_path)
    yield launchers
    launchers.close()


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libnvidia-ml that answers what the environment says."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).parent / "nvml_stub.c"
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(command, check=True, timeout=60)
    return folder
