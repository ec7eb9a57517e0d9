"""The programs that the doctor is judged on start, train and end."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
_PROGRAMS = sorted(
    path.stem for path in (_BENCHMARKS / "strangers/programs").glob("*.py") if path.stem != "kit"
)
_PLAIN = [program for program in _PROGRAMS if program.startswith("numpy_")]
_OF_FRAMEWORKS = ["ddp_loader", "mpi_master"]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Benchmarks are programs: their modules are found from their own folder, not installed."""
    monkeypatch.setattr(sys, "path", [str(_BENCHMARKS), *sys.path])
    names = ("moored", "strangers_catalogue", "strangers_runs")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    loaded = {name: importlib.import_module(name) for name in names}
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    return loaded


@pytest.mark.parametrize(
    "program",
    [*_PLAIN, *(pytest.param(name, marks=pytest.mark.framework) for name in _OF_FRAMEWORKS)],
)
def test_a_program_trains_and_tells_how_fast(
    program: str, modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    cases = modules["strangers_catalogue"].load().cases
    case = next(case for case in cases if case.program == program and case.healthy)
    moor = modules["moored"].Moor(tmp_path)

    folder, outcome = modules["strangers_runs"].run(moor, program, case.faulty, 0.5)

    assert outcome.examples_per_s > 0
    assert json.loads((folder / "report.json").read_text())["phase"] == "Succeeded"
    assert modules["strangers_runs"].doctor(moor, folder)["checked"]


@pytest.fixture
def group() -> Iterator[Path]:
    mount = Path("/sys/fs/cgroup/cpu")
    folder = (mount if mount.exists() else mount.parent) / f"strangers-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    folder.rmdir()


@pytest.mark.root
def test_a_quota_is_put_on_the_group_of_a_process(
    modules: dict[str, ModuleType], group: Path
) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        (group / "cgroup.procs").write_text(str(process.pid))

        limited = modules["strangers_runs"].limit_cpu(process.pid, 40)

        old, new = group / "cpu.cfs_quota_us", group / "cpu.max"
        assert limited == group
        assert (old if old.exists() else new).read_text().split()[0] == "40000"
    finally:
        process.kill()
        process.wait()


@pytest.mark.root
def test_no_quota_is_put_on_the_whole_machine(modules: dict[str, ModuleType]) -> None:
    groups = modules["strangers_runs"]._groups(Path("/proc/self/cgroup").read_text())
    if any(groups.get(name, "/") != "/" for name in ("cpu", "")):
        pytest.skip("these tests run in a control group of their own")
    with pytest.raises(RuntimeError, match="no control group"):
        modules["strangers_runs"].limit_cpu(os.getpid(), 40)
