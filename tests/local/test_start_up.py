"""What a short run does without: imported modules count, seconds depend on the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.moor import Moor, write_job

#: Module (or package) -> who may import it.
NOT_FOR_HELP = {
    "pydantic": "commands that read a job",
    "rich": "commands that print tables",
    "yaml": "commands that read a job",
    "psutil": "commands that look at processes",
}
NOT_FOR_A_RUN = {
    "numpy": "the planner, where there is something to choose",
    "mooring.brain.planner": "the same",
    "mooring.brain.queue": "several jobs at once",
    "mooring.brain.kubelet": "nodes that have a kubelet",
    "mooring.spec.cluster": "cluster files",
    "mooring.stacks.classify": "moor doctor, and a run that stands still",
    "mooring.doctor": "moor doctor, moor run --fix",
    "mooring.simulate": "moor simulate",
    "mooring.backends.kubernetes.api": "commands on a cluster",
    "mooring.report.html": "moor report -o html",
    "jinja2": "the same",
    "mooring.queued_run": "machines with a service",
    "http.client": "the same",
    "asyncio": "commands on a cluster",
    "email": "reading the metadata of installed packages",
    "importlib.metadata": "the same",
    "zipfile": "packing the launcher for the first time",
}


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def imported(moor: Moor, *arguments: str | Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mooring", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=moor.env,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, flags=re.MULTILINE))


def unwanted(modules: set[str], rules: dict[str, str]) -> dict[str, str]:
    return {
        module: f"only for {users}"
        for module, users in rules.items()
        if any(name == module or name.startswith(f"{module}.") for name in modules)
    }


def test_help_reads_no_job(moor: Moor) -> None:
    assert unwanted(imported(moor, "--help"), {**NOT_FOR_HELP, **NOT_FOR_A_RUN}) == {}


def test_a_short_run_imports_what_it_needs(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path, framework="indexed", command=["true"], roles={"worker": {"replicas": 2}}
    )
    moor("run", job)  # packs the launcher
    modules = imported(moor, "run", job)
    assert "mooring.app" in modules
    assert unwanted(modules, NOT_FOR_A_RUN) == {}


def test_importing_mooring_imports_nothing_else_of_it() -> None:
    code = "import sys, mooring; print(*(name for name in sys.modules if 'mooring' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"mooring", "mooring.version"}
