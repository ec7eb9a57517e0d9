"""What the roles of a job run here: answers that are shared between roles, names, commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.backends.local import interpreters
from mooring.backends.local.programs import Programs, look_at, program_name
from mooring.frameworks import expand
from mooring.model.errors import NotInstalled
from mooring.spec import TrainingJob


@pytest.fixture(autouse=True)
def no_glances(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the files of the tests' own environment tell is not what is tested here."""
    monkeypatch.setattr(interpreters, "glance", lambda *a: None)


def programs(folder: Path, framework: str, **spec: Any) -> Programs:
    spec = {"framework": framework, "python": sys.executable, **spec}
    job = TrainingJob.model_validate({"metadata": {"name": "j"}, "spec": spec})
    gang = expand(job)
    return look_at(job, gang, job_dir=folder, working_dir=folder, inherited=os.environ)


def test_one_answer_serves_every_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first role to ask does not run Python itself."""
    asked = []
    ask = interpreters.ask
    monkeypatch.setattr(interpreters, "ask", lambda *a, **k: (asked.append(a), ask(*a, **k))[1])
    (tmp_path / "train.py").write_text("import mooring\n")
    roles: dict[str, Any] = {"tool": {"command": ["sh", "-c", "true"]}}
    for role in ("one", "two"):
        roles[role] = {"replicas": 2, "command": ["python", "train.py"]}
    found = programs(tmp_path, "indexed", roles=roles)
    found.check()
    assert len(asked) == 1
    [note] = found.notes
    assert note.startswith(f"python: {sys.executable} (3.")


def test_commands_and_environment_of_members(tmp_path: Path) -> None:
    roles = {"launcher": {"command": ["mpirun", "python", "t.py"]}, "worker": {"replicas": 2}}
    (tmp_path / "t.py").write_text("print()")
    found = programs(tmp_path, "mpi", roles=roles)
    job = TrainingJob.model_validate(
        {"metadata": {"name": "j"}, "spec": {"framework": "mpi", "roles": roles}}
    )
    gang = found.put_into(expand(job))
    commands = {member.name: member.argv for member in gang.members}
    assert commands["launcher-0"] == ("mpirun", sys.executable, "t.py")
    assert commands["worker-1"] == ()
    assert len(found.notes) == 1
    assert list(found.hashes) == [str(tmp_path / "t.py")]


def test_all_that_is_missing_is_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "t.py").write_text("import mooring, mpi4py\n")
    nothing = interpreters.InterpreterInfo("3.9.1", frozenset({"pip"}), is_managed=False)
    monkeypatch.setattr(interpreters, "ask", lambda *a, **k: nothing)
    roles = {"launcher": {"command": ["mpirun", "python", "t.py"]}, "worker": {}}
    with pytest.raises(NotInstalled) as caught:
        programs(tmp_path, "mpi", roles=roles).check()
    said = str(caught.value)
    assert "mpirun is not on the PATH" in said
    assert f"t.py imports mpi4py and mooring, which are not in {sys.executable} (3.9.1" in said
    pip = f"{sys.executable} -m pip install mpi4py mooring"
    assert said.endswith(f"install:  apt-get install openmpi-bin && {pip}")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            interpreters.InterpreterInfo("3.12.1", frozenset({"pip"}), True),
            "-m venv .venv && . .venv/bin",
        ),
        (interpreters.InterpreterInfo("3.12.1", frozenset(), False), "-m ensurepip && "),
    ],
)
def test_the_line_works_where_pip_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: interpreters.InterpreterInfo, line: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(interpreters, "ask", lambda *a, **k: answer)
    (tmp_path / "t.py").write_text("import torch")
    found = programs(tmp_path, "pytorch", command=["python", "t.py"], roles={"worker": {}})
    assert line in found.said_of_missing


def test_an_interpreter_without_an_answer_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "ask", lambda *a, **k: None)
    (tmp_path / "t.py").write_text("import torch")
    found = programs(tmp_path, "pytorch", command=["python", "t.py"], roles={"worker": {}})
    found.check()
    assert found.notes == (f"python: {sys.executable} ({interpreters.OF_JOB})",)


def test_scripts_of_other_programs_are_known_by_their_hash(tmp_path: Path) -> None:
    for name in ("run.sh", "ddp.py", "prog"):
        (tmp_path / name).write_text(name)
    roles = {
        "a": {"command": ["sh", "run.sh", "gone.sh"]},
        "b": {"command": ["torchrun", "ddp.py"]},
        "c": {"command": ["./prog"]},
    }
    found = programs(tmp_path, "indexed", roles=roles)
    assert {Path(path).name for path in found.hashes} == {"run.sh", "ddp.py", "prog"}


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("python", "src/train.py", "x"), "train"),
        (("python", "-m", "pkg.fit"), "fit"),
        (("python", "-c", "pass"), "job"),
        (("torchrun", "--standalone", "ddp.py"), "ddp"),
        (("./prog",), "prog"),
    ],
)
def test_the_name_of_a_command(argv: tuple[str, ...], name: str) -> None:
    assert program_name(argv) == name
