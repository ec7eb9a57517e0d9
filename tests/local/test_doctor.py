"""Causes injected into real runs: the doctor names each, and is silent where nothing is wrong."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mooring.bodies.local import cgroups, netns
from mooring.doctor import Diagnosis, diagnose_run
from mooring.doctor.read_run import read_run
from support.moor import Moor, write_job
from support.waiting import until

virtual_only = pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not()))
groups_only = pytest.mark.skipif(cgroups.find_hierarchy() is None, reason="no control groups here")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

TRAFFIC = Path(__file__).parent / "members" / "traffic.py"
PYTHON = [sys.executable, "-S"]
#: Reports a step ten times a second for as long as a diagnosis needs, and does `body` in each.
STEPS = """
import os, threading, time
def report():
    os.write(1, b'::mooring:: {"examples": 64}\\n')
end = time.monotonic() + 4.5
%s
while time.monotonic() < end:
%s
    report()
"""


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def steps(each: str, before: str = "") -> list[str]:
    body = "\n".join(f"    {line}" for line in each.splitlines())
    return [*PYTHON, "-c", STEPS % (before, body)]


def traffic(*arguments: str) -> list[str]:
    return [*PYTHON, str(TRAFFIC), *arguments]


def diagnosis(moor: Moor) -> Diagnosis:
    return diagnose_run(read_run(moor.only_run()))


def ids(found: Diagnosis) -> list[str]:
    return [finding.id for finding in found.findings]


def run(moor: Moor, job: Path, *more: str) -> Diagnosis:
    answer = moor("run", job, *more)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return diagnosis(moor)


def test_a_healthy_gang_of_servers_and_workers(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        framework="tensorflow",
        command=traffic("--bytes", "100000"),
        roles={"ps": {"replicas": 2}, "worker": {"replicas": 2}},
    )
    found = run(moor, job)
    assert ids(found) == []
    unknown = {one.id for one in found.checked if one.unknown}
    assert "ps-hot" not in unknown


def test_threads_set_by_hand_and_the_fix_in_the_file(moor: Moor, tmp_path: Path) -> None:
    """Eighty threads that all compute, because a variable says so."""
    pool = (
        "import hashlib\n"
        "def work():\n"
        "    while True: hashlib.sha256(bytes(1 << 20))\n"
        "for _ in range(int(os.environ['OMP_NUM_THREADS'])):\n"
        "    threading.Thread(target=work, daemon=True).start()\n"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps("time.sleep(0.1)", pool),
        env={"OMP_NUM_THREADS": "80"},
        roles={"worker": {}},
    )
    job.write_text(job.read_text().replace("env:", "# by hand\n  env:"))
    found = run(moor, job)
    assert ids(found) == ["cpu-threads"]
    runnable = next(
        figure.value
        for figure in found.findings[0].found.evidence
        if figure.what == "ready threads"
    )
    assert isinstance(runnable, float)
    assert runnable > 10
    answer = moor("doctor", "last", "--fix", "--html", tmp_path / "page.html")
    assert answer.returncode == 0, answer.stderr
    assert "cpu-threads" in (tmp_path / "page.html").read_text()
    assert "env: {}" in job.read_text()
    assert "# by hand" in job.read_text()
    assert moor("validate", job).returncode == 0


@groups_only
def test_a_quota(moor: Moor, tmp_path: Path) -> None:
    """A fifth of a CPU for a member that would use a whole one."""
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps("end_ = time.process_time() + 0.02\nwhile time.process_time() < end_: pass"),
        roles={"worker": {"resources": {"cpu": 1}}},
    )
    with moor.started("run", job) as process:
        until(moor.runs, "a run", 30)
        token = moor.only_run().info.token
        group = until(lambda: cgroups.left_tokens().get(token), "its control groups", 30)
        until(lambda: _set_quota(group, 20_000), "a quota", 30)
        assert process.wait(60) == 0
    found = diagnosis(moor)
    assert ids(found)[:1] == ["cpu-throttled"]


def _set_quota(groups: list[Path], quota_us: int) -> bool:
    for group in groups:
        for path in group.rglob("cpu.cfs_quota_us"):
            if path.parent != group:
                path.write_text(str(quota_us))
                return True
        for path in group.rglob("cpu.max"):
            if path.parent != group:
                path.write_text(f"{quota_us} 100000")
                return True
    return False


def test_one_server_with_most_of_the_bytes(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        framework="tensorflow",
        command=traffic("--bytes", "300000,30000"),
        roles={"ps": {"replicas": 2}, "worker": {"replicas": 2}},
    )
    found = run(moor, job)
    assert ids(found) == ["ps-hot"]
    assert found.findings[0].found.members == ("ps-0",)


def test_this_machine_as_json(moor: Moor) -> None:
    answer = moor("doctor", "--node", "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["of"] == os.uname().nodename
    assert document["checked"]


@pytest.mark.parametrize("arguments", [(), ("nothing-like-it",), ("x", "--node")])
def test_bad_input_is_said(moor: Moor, arguments: tuple[str, ...]) -> None:
    answer = moor("doctor", *arguments)
    assert answer.returncode == 2
    assert "moor" in answer.stderr
    assert "Traceback" not in answer.stderr
