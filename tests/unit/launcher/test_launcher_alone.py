"""The launcher runs where Mooring is not installed: old Pythons, one file, nothing else."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mooring
from mooring.backends.local.pack import build_launcher, copy_launcher

SOURCES = sorted((Path(mooring.__file__).parent / "launcher").glob("*.py"))


def imported(path: Path) -> set[str]:
    """The first name of every absolute import."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_only_the_standard_library_is_imported() -> None:
    foreign = {path.name: imported(path) - sys.stdlib_module_names for path in SOURCES}
    assert {name: names for name, names in foreign.items() if names} == {}


def test_the_sources_are_python_38() -> None:
    for path in SOURCES:
        ast.parse(path.read_text(), feature_version=(3, 8))


def test_no_function_newer_than_python_38_is_used() -> None:
    beside = Path(sys.executable).with_name("vermin")
    vermin = str(beside) if beside.exists() else shutil.which("vermin")
    if vermin is None:
        pytest.skip("vermin is not installed")
    checked = subprocess.run(
        [vermin, "-t=3.8-", "--no-tips", *map(str, SOURCES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_the_archive_is_the_same_however_it_was_compiled(tmp_path: Path) -> None:
    build = (
        "import sys; from pathlib import Path; "
        "from mooring.backends.local.pack import build_launcher; build_launcher(Path(sys.argv[1]))"
    )
    archives = []
    # The second run finds the byte code that the first one cached; hash seeds differ as well.
    for number in range(2):
        target = tmp_path / f"{number}.pyz"
        cache = f"pycache_prefix={tmp_path / 'cache'}"
        subprocess.run(
            [sys.executable, "-X", cache, "-c", build, str(target)],
            env={"PYTHONHASHSEED": str(number + 1)},
            check=True,
        )
        archives.append(target.read_bytes())
    assert list((tmp_path / "cache").rglob("*.pyc"))
    assert archives[0] == archives[1]


def test_the_archive_is_executable_and_holds_no_path_of_this_machine(tmp_path: Path) -> None:
    path = build_launcher(tmp_path / "launcher.pyz")
    assert path.stat().st_mode & 0o111 == 0o111
    assert path.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    assert str(SOURCES[0].parent).encode() not in path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert "moorlaunch/main.py" in archive.namelist()


def test_the_archive_is_packed_once_and_taken_from_there(tmp_path: Path) -> None:
    cache = tmp_path / "home" / "cache"
    first = copy_launcher(tmp_path / "first.pyz", cache)
    [kept] = cache.iterdir()
    assert first.read_bytes() == kept.read_bytes()
    assert first.read_bytes() == build_launcher(tmp_path / "packed.pyz").read_bytes()
    assert first.stat().st_mode & 0o111 == 0o111
    packed_at = kept.stat().st_mtime_ns
    second = copy_launcher(tmp_path / "second.pyz", cache)
    assert second.read_bytes() == first.read_bytes()
    assert [(path, path.stat().st_mtime_ns) for path in cache.iterdir()] == [(kept, packed_at)]


def test_archives_of_other_versions_are_forgotten_in_time(tmp_path: Path) -> None:
    for number in range(9):
        old = tmp_path / f"launcher-{number}.pyz"
        old.touch()
        os.utime(old, (number, number))
    copy_launcher(tmp_path / "target.pyz", tmp_path)
    kept = sorted(path.name for path in tmp_path.glob("launcher-?.pyz"))
    assert kept == ["launcher-6.pyz", "launcher-7.pyz", "launcher-8.pyz"]


def test_a_cache_that_cannot_be_written_costs_the_packing_only(tmp_path: Path) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file")
    launcher = copy_launcher(tmp_path / "launcher.pyz", in_the_way)
    with zipfile.ZipFile(launcher) as archive:
        assert "moorlaunch/main.py" in archive.namelist()


def test_what_it_loads_before_the_processes_run_is_little(tmp_path: Path) -> None:
    """A gang starts many launchers at once; each of these costs several milliseconds."""
    path = build_launcher(tmp_path / "launcher.pyz")
    probe = (
        f"import sys; sys.path.insert(0, {str(path)!r})\n"
        "import moorlaunch.run, moorlaunch.contract\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", probe], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"argparse", "subprocess", "typing", "dataclasses", "socket", "threading", "logging"}
    assert heavy & set(loaded) == set()
