"""The wheel on every Python that the package names, as a newcomer installs it.

Mooring is in an environment of its own (as `make install`, pipx and uv make it); the programs of
the job run in a Python that has nothing installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.pythons import SUPPORTED, find_python

ROOT = Path(__file__).parents[2]
UV = (sys.executable, "-m", "uv")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    [built] = folder.glob("*.whl")
    return built


def run(*command: str | Path, **options: object) -> str:
    answer = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, **options
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_the_oldest_is_the_one_that_is_required() -> None:
    assert f'requires-python = ">={SUPPORTED[0]}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("version", SUPPORTED)
def test_first_commands_work(version: str, wheel: Path, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    tool = tmp_path / "tool"
    run(*UV, "venv", "--quiet", "--no-python-downloads", "--python", python, tool)
    run(*UV, "pip", "install", "--quiet", "--python", tool, wheel)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python").symlink_to(python)
    env = {**os.environ, "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"}
    env["MOORING_HOME"] = str(tmp_path / "home")

    def moor(*words: str | Path) -> str:
        return run(tool / "bin" / "moor", *words, env=env, cwd=tmp_path)

    assert moor("--version").startswith("moor, version ")
    assert "next: moor run new/job.yaml" in moor("init", "indexed", "-d", "new")
    assert "new/job.yaml: ok: indexed" in moor("validate", "new/job.yaml")
    report = moor("run", "new/job.yaml", "--set", "roles.worker.replicas=2")
    assert "Succeeded  worker-0 and worker-1 exited with code 0" in report
    assert "500 steps" in report
    logs = moor("logs", "last")
    assert "index 0 of 2: 500 items" in logs
    assert "index 1 of 2: 500 items" in logs
    # The doctor looks at stacks without further installations.
    assert run(tool / "bin" / "py-spy", "--version")
