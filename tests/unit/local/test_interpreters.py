"""Which Python `python` means, and what is known of it without importing anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mooring.backends.local import interpreters
from mooring.backends.local.interpreters import ask, glance, in_shell, of_job
from mooring.model.errors import BadInput


def make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def make_environment(folder: Path, name: str = "python") -> Path:
    python = make_program(folder / "bin" / name)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return python


def environ(*folders: Path, **variables: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, folders))
    return {"PATH": path, **{name: str(value) for name, value in variables.items()}}


def test_the_first_python_of_the_path(tmp_path: Path) -> None:
    python = make_program(tmp_path / "a" / "python")
    make_program(tmp_path / "b" / "python")
    chosen = in_shell(environ(tmp_path / "a", tmp_path / "b"))
    assert (chosen.path, chosen.origin) == (str(python), interpreters.ON_PATH)
    assert chosen.activation(environ(tmp_path / "a")) == {}


def test_an_active_environment_is_used_although_the_path_leads_elsewhere(tmp_path: Path) -> None:
    """As after `sudo`, which keeps variables and has a PATH of its own."""
    make_program(tmp_path / "system" / "python")
    python = make_environment(tmp_path / "venv")
    env = environ(tmp_path / "system", VIRTUAL_ENV=tmp_path / "venv")
    chosen = in_shell(env)
    assert (chosen.path, chosen.origin) == (str(python), interpreters.ACTIVE)
    assert chosen.activation(env) == {
        "PATH": f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{tmp_path / 'system'}",
        "VIRTUAL_ENV": str(tmp_path / "venv"),
    }


def test_of_two_environments_the_one_that_the_shell_would_run(tmp_path: Path) -> None:
    """A variable may be left from an environment that another has replaced."""
    make_environment(tmp_path / "old")
    new = make_program(tmp_path / "conda" / "bin" / "python")
    (tmp_path / "conda" / "conda-meta").mkdir()
    env = environ(
        new.parent,
        tmp_path / "old" / "bin",
        VIRTUAL_ENV=tmp_path / "old",
        CONDA_PREFIX=new.parents[1],
    )
    chosen = in_shell(env)
    assert (chosen.path, chosen.origin) == (str(new), interpreters.ACTIVE)
    assert chosen.activation(env) == {}


def test_a_conda_prefix_is_an_environment(tmp_path: Path) -> None:
    python = make_program(tmp_path / "conda" / "bin" / "python")
    (tmp_path / "conda" / "conda-meta").mkdir()
    chosen = of_job("conda", tmp_path, "job.yaml")
    assert chosen.path == str(python)
    assert chosen.activation(environ())["CONDA_PREFIX"] == str(tmp_path / "conda")


def test_a_stale_variable_is_passed_over(tmp_path: Path) -> None:
    python = make_program(tmp_path / "a" / "python")
    chosen = in_shell(environ(tmp_path / "a", VIRTUAL_ENV=tmp_path / "gone"))
    assert chosen.path == str(python)


def test_without_a_python_there_is_python3_and_then_our_own(tmp_path: Path) -> None:
    python3 = make_program(tmp_path / "a" / "python3")
    chosen = in_shell(environ(tmp_path / "a"))
    assert (chosen.path, chosen.origin) == (str(python3), interpreters.ONLY_PYTHON3)
    chosen = in_shell(environ(tmp_path))
    assert (chosen.path, chosen.origin) == (sys.executable, interpreters.OWN)


def test_what_may_not_be_looked_at_is_not_there(tmp_path: Path) -> None:
    """Asking for a name that is too long fails as asking for one in another user's home does."""
    python = make_program(tmp_path / "a" / "python")
    hidden = tmp_path / ("x" * 300)
    chosen = in_shell(environ(tmp_path / "a", hidden, VIRTUAL_ENV=hidden, CONDA_PREFIX=hidden))
    assert chosen.path == str(python)
    for given in (str(hidden), "~no-such-user/venv"):
        with pytest.raises(BadInput, match=r"spec\.python"):
            of_job(given, tmp_path, "job.yaml")


@pytest.mark.parametrize("given", ["venv", "./venv", "venv/bin/python", "../jobs/venv", "{}/venv"])
def test_the_jobs_python_is_relative_to_its_file(tmp_path: Path, given: str) -> None:
    folder = tmp_path / "jobs"
    python = make_environment(folder / "venv")
    chosen = of_job(given.format(folder), folder, "job.yaml")
    assert (chosen.path, chosen.environment) == (str(python), str(folder / "venv"))


def test_a_link_of_an_environment_stays_a_link(tmp_path: Path) -> None:
    """Resolved it would be the interpreter that the environment was made from."""
    make_program(tmp_path / "base" / "python3")
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(tmp_path / "base" / "python3")
    assert of_job("venv", tmp_path, "job.yaml").path == str(python)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("gone", "does not exist"),
        ("empty", "without bin/python"),
        ("plain", "not executable"),
    ],
)
def test_a_python_that_cannot_be_used_is_refused_by_field(
    tmp_path: Path, given: str, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "plain").write_text("")
    with pytest.raises(BadInput) as caught:
        of_job(given, tmp_path, "job.yaml")
    assert "spec.python" in str(caught.value)
    assert said in str(caught.value)


def test_an_interpreter_answers_without_importing(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text("raise SystemExit('imported')")
    answer = ask(
        sys.executable,
        ["engine", "json", "no_such_module"],
        folder=str(tmp_path),
        environ=os.environ,
        cwd=tmp_path,
    )
    assert answer is not None
    assert answer.version == ".".join(map(str, sys.version_info[:3]))
    assert answer.modules == {"engine", "json"}


def test_modules_are_looked_for_as_the_program_would(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "engine.py").touch()
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "lib")}
    found = ask(sys.executable, ["engine"], environ=env, cwd=tmp_path)
    without = ask(sys.executable, ["engine"], options="E", environ=env, cwd=tmp_path)
    assert found is not None
    assert without is not None
    assert (found.modules, without.modules) == ({"engine"}, frozenset())


def test_an_environment_that_has_what_is_needed_is_not_started(tmp_path: Path) -> None:
    python = make_environment(tmp_path)
    config = tmp_path / "pyvenv.cfg"
    config.write_text("home = /usr/bin\nversion = 3.12.4\n")
    package = tmp_path / "lib" / "python3.12" / "site-packages" / "torch"
    package.mkdir(parents=True)
    chosen = of_job(str(python), tmp_path, "job.yaml")
    assert glance(chosen, frozenset({"torch"})) is None
    (package / "__init__.py").touch()
    answer = glance(chosen, frozenset({"torch"}))
    assert answer is not None
    assert (answer.version, answer.modules) == ("3.12.4", {"torch"})
    assert glance(chosen, frozenset({"torch", "mooring"})) is None
    # An interpreter that came after the file may have another version.
    os.utime(config, (0, 0))
    assert glance(chosen, frozenset()) is None


def test_who_does_not_answer_is_unknown(tmp_path: Path) -> None:
    assert ask("/bin/true", ["x"], environ=os.environ, cwd=tmp_path) is None
    assert ask(str(tmp_path / "gone"), ["x"], environ=os.environ, cwd=tmp_path) is None
