"""What trainers do beside training, injected into real PyTorch: the doctor sees it in their stacks.

One gang carries all causes, one a member, so that the test costs one start of PyTorch a cause.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.doctor import Diagnosis, Finding, diagnose_run
from mooring.doctor.read_run import read_run
from mooring.record.plan_file import read_holdings
from mooring.wire import read_journal, to_json
from mooring.wire.looks import Looks
from support.moor import Moor, write_job
from support.waiting import until

BESIDE = Path(__file__).parents[2] / "benchmarks" / "jobs" / "beside.py"
OURS = {"input-bound", "checkpoint-often", "logging-often", "evaluation-often"}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def job(folder: Path, causes: str, *more: str, **spec: Any) -> Path:
    command = [sys.executable, str(BESIDE), "--cause", causes, *more]
    roles = {"worker": {"replicas": len(causes.split(","))}}
    return write_job(folder, framework="indexed", command=command, roles=roles, **spec)


def diagnosis(moor: Moor, path: Path, *more: str) -> Diagnosis:
    answer = moor("run", path, *more)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return diagnose_run(read_run(moor.only_run()))


def ours(found: Diagnosis) -> dict[str, Finding]:
    return {one.id: one for one in found.findings if one.id in OURS}


@pytest.mark.framework
def test_each_cause_is_named_with_the_member_and_the_line(moor: Moor, tmp_path: Path) -> None:
    path = job(tmp_path, "nothing,decode,save,log,evaluate", "--seconds", "8")
    found = ours(diagnosis(moor, path))
    assert {name: one.found.members for name, one in found.items()} == {
        "input-bound": ("worker-1",),
        "checkpoint-often": ("worker-2",),
        "logging-often": ("worker-3",),
        "evaluation-often": ("worker-4",),
    }
    assert "prepares each batch itself" in found["input-bound"].found.says
    assert "__getitem__ (beside.py:" in found["input-bound"].found.remedy.where
    assert "num_workers=" in found["input-bound"].found.remedy.code
    assert "main (beside.py:" in found["checkpoint-often"].found.remedy.where


@pytest.mark.framework
def test_many_small_files(moor: Moor, tmp_path: Path) -> None:
    [found] = ours(diagnosis(moor, job(tmp_path, "files", "--seconds", "8"))).values()
    assert found.id == "input-bound"
    assert "many small files" in found.found.says
    assert "pack the files" in found.found.remedy.does


@pytest.mark.framework
def test_loaders_that_wait_for_their_storage(moor: Moor, tmp_path: Path) -> None:
    [found] = ours(diagnosis(moor, job(tmp_path, "remote", "--workers", "1"))).values()
    assert found.id == "input-bound"
    told = {figure.what: figure.value for figure in found.found.evidence}
    assert told["loader processes"] == 1
    # 64 examples of 5 ms against a step of some milliseconds.
    assert isinstance(told["waits for loaders"], float)
    assert told["waits for loaders"] > 50


@pytest.mark.framework
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_loaders_that_a_neighbour_takes_the_cpu_from(moor: Moor, tmp_path: Path) -> None:
    """The trainer waits for its loader, the loader for a CPU: not a matter of input."""
    path = job(tmp_path, "nothing", "--workers", "1", "--seconds", "8", pinning="exclusive")
    document = yaml.safe_load(path.read_text())
    document["spec"]["roles"]["worker"]["resources"] = {"cpu": 1}
    path.write_text(yaml.safe_dump(document))
    with moor.started("run", path) as process:
        until(lambda: moor.runs() and moor.only_run().plan_file.exists(), "a plan", 30)
        [held] = read_holdings(moor.only_run().plan_file)
        spin = f"import os\nos.sched_setaffinity(0, {set(held.slot.cpus)})\nwhile True: pass"
        burners = [
            subprocess.Popen([sys.executable, "-S", "-c", spin], start_new_session=True)
            for _ in range(24)
        ]
        try:
            assert process.wait(120) == 0
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
    found = diagnose_run(read_run(moor.only_run()))
    assert "input-bound" not in ours(found)
    assert "cpu-neighbour" in [one.id for one in found.findings]


@pytest.mark.framework
def test_a_program_that_trains_and_saves_now_and_then(moor: Moor, tmp_path: Path) -> None:
    found = diagnosis(moor, job(tmp_path, "save", "--every", "1000"))
    assert ours(found) == {}
    assert not OURS & {one.id for one in found.checked if one.unknown}


STEPS = """
import os, time
end = time.monotonic() + %s
while time.monotonic() < end:
    time.sleep(0.05)
    os.write(1, b'::mooring:: {"examples": 1}\\n')
"""


def short_job(folder: Path, seconds: float) -> Path:
    command = [sys.executable, "-S", "-c", STEPS % seconds]
    return write_job(folder, framework="indexed", command=command, roles={"worker": {}})


def reasons(found: Diagnosis) -> set[str]:
    return {one.unknown for one in found.checked if one.id in OURS}


def test_turned_off(moor: Moor, tmp_path: Path) -> None:
    found = diagnosis(moor, short_job(tmp_path, 1), "--no-stacks")
    assert reasons(found) == {"the run was started with --no-stacks"}
    assert not looks_of(moor)
    assert found.account.ranks == ()


def looks_of(moor: Moor, member: str = "worker-0") -> list[Looks]:
    return list(read_journal(moor.only_run().sample_file(member), Looks))


def test_a_live_look_has_looks_before_the_end(moor: Moor, tmp_path: Path) -> None:
    with moor.started("run", short_job(tmp_path, 60)):
        until(lambda: moor.runs() and moor.only_run().plan_file.exists(), "a plan", 30)
        told = until(lambda: looks_of(moor)[1:], "a record after the first step", 60)
    assert len(told[0].looks) > 10
    assert len(json.dumps(to_json(told[0]))) < 8000
    assert {"S sleep"} <= {" ".join(one.main[:2]) for one in told[0].places if one.main}
