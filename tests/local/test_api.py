"""Runs from Python: blocking or not, in a thread, interrupted, and left by a program that ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.model.status import Phase
from support.moor import Moor, leftovers, write_job
from support.service import service_in
from support.waiting import until

DOCS = Path(__file__).parents[2] / "docs" / "python.md"

STEPS = """
import mooring, sys, time
for done in range(1, 41):
    mooring.step(examples=10, loss=1 / done, step=done, total=40)
    print("step", done, flush=True)
    time.sleep(0.02)
"""
#: Says that it runs by making a file, then stays.
STAYS = """
import pathlib, signal, sys, time
for ignored in sys.argv[2:]:
    signal.signal(getattr(signal, ignored), signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


@pytest.fixture
def moor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Moor:
    moor = Moor(tmp_path / "home")
    monkeypatch.setenv("MOORING_HOME", str(moor.home))
    monkeypatch.setenv("PATH", moor.env["PATH"])
    monkeypatch.chdir(tmp_path)
    return moor


def job(folder: Path, program: str = STEPS, *arguments: str, **spec: Any) -> dict[str, Any]:
    (folder / "train.py").write_text(program)
    return {
        "metadata": {"name": "py"},
        "spec": {
            "framework": "indexed",
            "command": ["python", "train.py", *arguments],
            "roles": {"worker": {"replicas": 2}},
            **spec,
        },
    }


def test_progress_and_figures(moor: Moor, tmp_path: Path) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    seen: list[mooring.Progress] = []
    result = mooring.run(job(tmp_path), on_progress=seen.append, every_s=0.1)
    assert result.succeeded and (result.phase, result.report.steps) == ("Succeeded", 40)
    assert result.directory == moor.only_run().root
    last = seen[-1]
    assert (last.phase, last.ended, last.steps, last.total_steps) == (Phase.SUCCEEDED, True, 40, 40)
    assert (last.examples, last.loss, last.members) == (800, 1 / 40, 2)
    running = [progress for progress in seen if progress.phase is Phase.RUNNING]
    assert [one.steps for one in running] == sorted(one.steps for one in running)
    assert any(one.examples_per_s and one.eta_s is not None for one in running)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    [listed] = json.loads(moor("ps", "-a", "-o", "json").stdout)
    assert listed["took_s"] == round(result.report.wall_s or 0, 3)
    assert (listed["phase"], listed["examples_per_s"]) == (
        "Succeeded",
        result.report.examples_per_s,
    )


def test_a_path_with_overrides(moor: Moor, tmp_path: Path) -> None:
    path = write_job(tmp_path, framework="indexed", command=["true"], roles={"worker": {}})
    for given in (path, str(path)):
        result = mooring.run(given, set=["roles.worker.replicas=3"])
        assert len(result.report.members) == 3
    with pytest.raises(mooring.BadInput, match="no such file"):
        mooring.run(tmp_path / "missing.yaml")
    with pytest.raises(TypeError, match="not int"):
        mooring.run(3)  # type: ignore[arg-type]


def test_what_is_wrong_with_a_job_is_said_by_field(moor: Moor, tmp_path: Path) -> None:
    with pytest.raises(mooring.BadInput, match=r"spec\.framework: found 'indexd'; .*indexed"):
        mooring.start(job(tmp_path, framework="indexd"))
    with pytest.raises(mooring.Refused, match="insufficient cpu"):
        mooring.start(job(tmp_path, roles={"worker": {"resources": {"cpu": 10_000}}}))
    assert moor.runs() == []
    assert not [one for one in threading.enumerate() if one.name.startswith("mooring ")]


def test_a_handle_shows_logs_and_stops(moor: Moor, tmp_path: Path) -> None:
    endless = STEPS.replace("range(1, 41)", "__import__('itertools').count(1)")
    with mooring.start(job(tmp_path, endless)) as run:
        for count, line in enumerate(run.logs("worker-1", follow=True), start=1):
            assert (line.member, line.text.split()[0]) == ("worker-1", "step")
            if count == 5:
                run.stop()
        result = run.wait(60)
    assert (result.phase, result.reason) == ("Stopped", "stopped by the program")
    assert run.ended and run.report.phase == "Stopped"
    assert {line.member for line in run.logs()} == {"worker-0", "worker-1"}
    assert [line.text for line in run.logs("worker-1", last=1)] == [
        list(run.logs("worker-1"))[-1].text
    ]
    with pytest.raises(mooring.BadInput, match=r"'ps'.*worker-0"):
        run.logs("ps")
    assert leftovers(run.record) == []


def test_stop_now_does_not_wait_for_the_grace_period(moor: Moor, tmp_path: Path) -> None:
    flag = tmp_path / "runs"
    stubborn = job(tmp_path, STAYS, str(flag), "SIGTERM", gracePeriod="600s")
    with mooring.start(stubborn) as run:
        until(flag.exists, "a member")
        with pytest.raises(TimeoutError):
            run.wait(0.01)
        run.stop(now=True)
        assert run.wait(60).phase == "Stopped"
    assert leftovers(run.record) == []


def test_an_error_of_the_callback_stops_the_run_and_comes_out(moor: Moor, tmp_path: Path) -> None:
    def fail(progress: mooring.Progress) -> None:
        raise ZeroDivisionError(progress.phase)

    with pytest.raises(ZeroDivisionError):
        mooring.run(job(tmp_path, STAYS, str(tmp_path / "runs")), on_progress=fail)
    run = moor.only_run()
    assert moor.report()["phase"] == "Stopped"
    assert leftovers(run) == []


def test_runs_in_threads_side_by_side(moor: Moor, tmp_path: Path) -> None:
    results: list[mooring.RunResult] = []
    threads = [
        threading.Thread(target=lambda: results.append(mooring.run(job(tmp_path))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.phase for result in results] == ["Succeeded", "Succeeded"]
    assert len({result.directory for result in results}) == 2


CARRIES = """
import mooring, signal, sys, threading
job = {job!r}
try:
    {body}
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("went on", flush=True)
"""


def program(moor: Moor, tmp_path: Path, body: str) -> subprocess.Popen[str]:
    """A Python program with a run in it, which is under way."""
    flag = tmp_path / "runs"
    code = CARRIES.format(job=job(tmp_path, STAYS, str(flag)), body=body)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env=moor.env,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until(flag.exists, "a member")
    return process


def test_ctrl_c_stops_the_run_and_then_interrupts(moor: Moor, tmp_path: Path) -> None:
    with program(moor, tmp_path, "mooring.run(job)") as process:
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0].split("\n")[:2] == [
            "KeyboardInterrupt",
            "went on",
        ]
    assert process.returncode == 0
    assert moor.report()["reason"] == "interrupted"
    assert leftovers(moor.only_run()) == []


def test_a_program_that_is_terminated_stops_its_run_first(moor: Moor, tmp_path: Path) -> None:
    with program(moor, tmp_path, "mooring.run(job)") as process:
        process.terminate()
        assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == -signal.SIGTERM
    assert moor.report()["phase"] == "Stopped"
    assert leftovers(moor.only_run()) == []


def test_moor_stop_leaves_the_program_alone(moor: Moor, tmp_path: Path) -> None:
    with program(moor, tmp_path, "mooring.run(job)") as process:
        assert moor("stop", "last").returncode == 0
        assert process.communicate(timeout=60)[0] == "went on\n"
    assert process.returncode == 0
    assert moor.report()["reason"] == "asked to stop"


def test_a_program_that_ends_takes_its_runs_along(moor: Moor, tmp_path: Path) -> None:
    body = "run = mooring.start(job); input()"
    code = CARRIES.format(job=job(tmp_path, STAYS, str(tmp_path / "runs")), body=body)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=moor.env,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        until((tmp_path / "runs").exists, "a member")
        assert process.communicate("\n", timeout=60)[0] == "went on\n"
    assert process.returncode == 0
    assert moor.report()["phase"] == "Stopped"
    assert leftovers(moor.only_run()) == []


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(examples())))
def test_the_examples_of_the_docs_run(moor: Moor, tmp_path: Path, number: int) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    write_job(
        tmp_path,
        framework="indexed",
        command=["python", "train.py"],
        roles={"worker": {"replicas": 2}},
    )
    queue = service_in(moor.home) if "connect" in examples()[number] else nullcontext()
    with queue:
        done = subprocess.run(
            [sys.executable, "-c", examples()[number]],
            capture_output=True,
            text=True,
            env=moor.env,
            cwd=tmp_path,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    expected = (
        "Succeeded",
        "loss 0.",
        "worker-0 step",
        "Succeeded",
        "worker-0 step 40",
        "insufficient cpu",
    )[number]
    assert expected in done.stdout
