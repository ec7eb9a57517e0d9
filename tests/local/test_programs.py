"""Which Python runs a job, and what it lacks: said before anything starts, and never wrongly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.moor import Moor, write_job

WHERE = "import sys; print('prefix', sys.prefix)\n"


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing in it."""
    folder = tmp_path_factory.mktemp("environments") / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def job(folder: Path, script: str, **spec: Any) -> Path:
    (folder / "train.py").write_text(script)
    base = {"framework": "pytorch", "command": ["python", "train.py"], "roles": {"worker": {}}}
    return write_job(folder, **{**base, **spec})


def test_the_jobs_python_runs_it_and_is_said(moor: Moor, tmp_path: Path, bare: Path) -> None:
    (tmp_path / "venv").symlink_to(bare)
    path = job(tmp_path, WHERE, python="venv", framework="indexed")
    answer = moor("run", path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    version = ".".join(map(str, sys.version_info[:3]))
    said = f"python: {tmp_path}/venv/bin/python ({version}, the job's python)"
    assert f"· {said}" in answer.stdout
    assert moor("logs", "last").stdout == f"worker-0 | prefix {tmp_path}/venv\n"
    assert said in moor.report()["notes"]
    assert said in moor("plan", path, env={"COLUMNS": "300"}).stdout
    # Programs of the environment are found too, as if it were active.
    shell = moor("run", path, "--set", 'command=[sh, -c, "command -v python; echo $VIRTUAL_ENV"]')
    assert shell.returncode == 0
    logs = moor("logs", "last").stdout
    assert f"| {tmp_path}/venv/bin/python\n" in logs
    assert f"| {tmp_path}/venv\n" in logs


def test_an_active_environment_runs_it_though_the_path_has_none(
    moor: Moor, tmp_path: Path, bare: Path
) -> None:
    """Debian has no `python`: the job failed with 127 there."""
    path = job(tmp_path, WHERE, framework="indexed")
    empty = tmp_path / "empty"
    empty.mkdir()
    answer = moor("run", path, env={"PATH": str(empty), "VIRTUAL_ENV": str(bare)})
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "active environment)" in answer.stdout
    assert moor("logs", "last").stdout == f"worker-0 | prefix {bare}\n"
    without = {**moor.env, "PATH": str(empty)}
    without.pop("VIRTUAL_ENV", None)
    without.pop("CONDA_PREFIX", None)
    command = [sys.executable, "-m", "mooring", "run", str(path)]
    own = subprocess.run(command, env=without, capture_output=True, text=True, check=False)
    assert own.returncode == 0, own.stdout + own.stderr
    assert f"python: {sys.executable} (" in own.stdout
    assert "the one that runs moor" in own.stdout


def test_a_bad_python_is_refused_by_its_field(moor: Moor, tmp_path: Path) -> None:
    for command in ("run", "plan"):
        answer = moor(command, job(tmp_path, WHERE, python="nowhere"))
        assert answer.returncode == 2
        assert "spec.python: found 'nowhere', which does not exist" in answer.stderr
    assert moor.runs() == []


@pytest.mark.parametrize(
    ("framework", "module", "command"),
    [
        ("pytorch", "torch", ["python", "train.py"]),
        ("tensorflow", "tensorflow", ["python", "-u", "train.py"]),
        ("mpi", "mpi4py", ["mpirun", "python", "train.py"]),
        ("indexed", "mooring", ["python", "train.py"]),
    ],
)
def test_a_missing_engine_is_named_with_what_installs_it(
    moor: Moor, tmp_path: Path, bare: Path, framework: str, module: str, command: list[str]
) -> None:
    roles: dict[str, Any] = {"worker": {}}
    more: dict[str, Any] = {"roles": roles, "command": command}
    if framework == "mpi":
        more = {"roles": {"launcher": {"command": command}, **roles}}
        (tmp_path / "mpirun").write_text("#!/bin/sh\n")
        (tmp_path / "mpirun").chmod(0o755)
    if framework == "tensorflow":
        more["strategy"] = "all-reduce"
    script = f"import os\nimport {module}\n"
    path = job(tmp_path, script, framework=framework, python=str(bare), **more)
    search = {"PATH": f"{tmp_path}{os.pathsep}{moor.env['PATH']}"}
    answer = moor("run", path, env=search)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert f"not installed: train.py imports {module}, which is not in {bare}" in answer.stderr
    assert f"{bare}/bin/python" in answer.stderr.partition("install:")[2]
    # With uv on the PATH, of an environment that has no pip: `uv pip install --python … torch`.
    assert re.search(rf"pip install (--python \S+ )?{module}\n", answer.stderr)
    assert moor.runs() == []
    planned = moor("plan", path, env={**search, "COLUMNS": "300"})
    assert planned.returncode == 0
    assert f"not installed: train.py imports {module}" in planned.stdout


@pytest.mark.parametrize(
    ("script", "spec"),
    [
        ("print('no engine')", {}),
        ("try:\n    import torch\nexcept ImportError:\n    print('without')", {}),
        ("import sys, types\nsys.modules['torch'] = types.ModuleType('t')\nimport torch", {}),
        ("import torch", {"env": {"PYTHONPATH": "lib"}}),
        ("import torch", {"command": ["sh", "-c", "test -e train.py"]}),
        ("import torch", {"command": ["env", "PYTHONPATH=lib", "python", "train.py"]}),
    ],
)
def test_what_can_run_is_not_refused(
    moor: Moor, tmp_path: Path, bare: Path, script: str, spec: dict[str, Any]
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "torch.py").touch()
    answer = moor("run", job(tmp_path, script, python=str(bare), **spec))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_look_can_be_left_out(moor: Moor, tmp_path: Path, bare: Path) -> None:
    answer = moor("run", job(tmp_path, "import torch", python=str(bare)), "--no-check")
    assert answer.returncode == 1
    assert "No module named 'torch'" in answer.stdout


def test_a_launcher_that_is_missing_is_named(moor: Moor, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for command, said in ((["mpirun", "./x"], "openmpi"), (["torchrun", "x.py"], "torch")):
        answer = moor("run", "--", *command, env={"PATH": str(empty)})
        assert answer.returncode == 2
        assert f"not installed: {command[0]} is not on the PATH" in answer.stderr
        assert said in answer.stderr.partition("install:")[2]
    assert moor.runs() == []


def test_init_says_what_is_missing(moor: Moor, tmp_path: Path, bare: Path) -> None:
    path = f"{bare / 'bin'}{os.pathsep}{os.environ['PATH']}"
    answer = moor("init", "pytorch", "-d", tmp_path / "new", env={"PATH": path})
    assert answer.returncode == 0
    before, _, after = answer.stdout.partition("not installed: ")
    assert "wrote" in before
    assert "train.py imports torch, which is not in" in after
    assert after.rstrip().splitlines()[-1].startswith("next: moor run")
