"""How a member's own interpreter comes to run what the launcher's archive carries, without a
framework: real Python processes with the archive's folder on their path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.backends.local.pack import build_launcher


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"{build_launcher(tmp_path_factory.mktemp('archive') / 'launcher.pyz')}/inside"


def python(
    code: str, *path: str | Path, wanted: str | None = "{}"
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    if wanted is not None:
        env["MOORING_INSIDE"] = wanted
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )


def test_it_starts_from_the_archive_and_brings_nothing_else(inside: str) -> None:
    code = (
        "import sys; print('mooring_inside' in sys.modules, "
        "[n for n in sys.modules if n.startswith(('mooring.', 'tensorflow', 'moorlaunch'))])"
    )
    done = python(code, inside)
    assert (done.stdout, done.stderr) == ("True []\n", "")


def test_it_does_nothing_where_it_is_not_wanted(inside: str) -> None:
    done = python("import sys; print('mooring_inside' in sys.modules)", inside, wanted=None)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_another_sitecustomize_still_runs(inside: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the image\\'s own')")
    assert python("print('program')", inside, tmp_path).stdout == "the image's own\nprogram\n"


@pytest.mark.parametrize("wanted", ["nonsense", "[]", "7"])
def test_nothing_keeps_the_program_from_running(inside: str, wanted: str) -> None:
    done = python("print('program')", inside, wanted=wanted)
    assert done.returncode == 0
    assert done.stdout == "program\n"


def test_a_module_is_changed_once_it_has_run(inside: str, tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("value = 1")
    code = """
from importlib.util import find_spec
from mooring_inside.imports import after
import sys
after({"pack.one": lambda module: setattr(module, "value", module.value + 1)})
assert "pack" not in sys.modules
find_spec("pack.one")  # asking is not importing
from pack import one
print(one.value, type(one.__loader__).__name__, one.__spec__.loader is one.__loader__)
"""
    assert python(code, inside, tmp_path).stdout == "2 SourceFileLoader True\n"


def test_a_module_that_is_not_as_expected_stays_as_it_is(inside: str, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("value = 1")
    code = """
import os
os.environ["MOORING_MEMBER"] = "chief-0"
from mooring_inside import telling
from mooring_inside.imports import after
after({"plain": lambda module: module.Missing.call})
import plain
print(plain.value)
telling.begin()
"""
    lines = python(code, inside, tmp_path).stdout.splitlines()
    assert lines[0] == "1"
    assert "could not look into plain, which is not as expected: AttributeError" in lines[1]


def test_nothing_is_said_before_there_are_parameter_servers(inside: str) -> None:
    """A program whose output another one reads gets no lines of ours in between."""
    code = """
import os
os.environ["MOORING_MEMBER"] = "chief-0"
from mooring_inside import guard, telling
guard.attempt("something", lambda: 1 / 0)
print("result")
telling.saw("keras-3"), telling.saw("keras-3")
telling.begin()
"""
    lines = python(code, inside).stdout.splitlines()
    assert lines[0] == "result"
    assert [json.loads(line.partition("::mooring:: ")[2]) for line in lines[1:]] == [
        {"program": {"note": "could not look into something: ZeroDivisionError: division by zero"}},
        {"program": {"trait": "keras-3"}},
    ]
