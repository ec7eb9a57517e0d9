"""For all tests: one training engine a process, and a stream that dies says in which test.

TensorFlow and PyTorch's CUDA build bring an LLVM each; a process that has loaded both dies of a
segmentation fault, without a word about the test. So the second one cannot be imported here, and
tests marked `own_process` run in a child that has imported neither.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.engines import OneEngine

_IN_CHILD = "MOORING_TESTS_IN_CHILD"
#: `make test` names a file here; it exists as long as a test runs, and holds the test's name.
_RUNNING_FILE = "MOORING_TESTS_RUNNING_FILE"


def pytest_configure(config: pytest.Config) -> None:
    sys.meta_path.insert(0, OneEngine())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test marked `own_process` passes if it passes in a child."""
    if _IN_CHILD in os.environ or pyfuncitem.get_closest_marker("own_process") is None:
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", pyfuncitem.nodeid]
    done = subprocess.run(
        command,
        cwd=pyfuncitem.config.rootpath,
        env={**os.environ, _IN_CHILD: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"in a process of its own:\n{done.stdout}{done.stderr}", pytrace=False)
    return True


def pytest_runtest_logstart(nodeid: str) -> None:
    if (path := _running_file()) is not None:
        path.write_text(f"{nodeid}\n", encoding="utf-8")


def pytest_sessionfinish() -> None:
    if (path := _running_file()) is not None:
        path.unlink(missing_ok=True)


def _running_file() -> Path | None:
    """Of the process that was started by `make`, not of its children and workers."""
    path = os.environ.get(_RUNNING_FILE)
    aside = _IN_CHILD in os.environ or "PYTEST_XDIST_WORKER" in os.environ
    return Path(path) if path and not aside else None
