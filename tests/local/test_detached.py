"""Runs that outlive the terminal they were started in, and looking at them from another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.record import RunRecord
from mooring.wire import read_journal
from mooring.wire.events import PhaseChanged
from support.moor import Moor, leftovers, processes_of, write_job
from support.terminal import terminal
from support.waiting import until


@pytest.fixture
def moor(tmp_path: Path) -> Iterator[Moor]:
    moor = Moor(tmp_path / "home")
    yield moor
    for run in moor.runs():
        if run.alive():
            os.kill(run.info.pid, signal.SIGKILL)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The jobs of this file end once it exists."""
    return tmp_path / "gate"


@pytest.fixture
def job(tmp_path: Path, gate: Path) -> Path:
    return job_of(tmp_path, gate)


def job_of(folder: Path, gate: Path, then: str = "print('done')") -> Path:
    code = (
        "import os, sys, time\nprint('first', flush=True)\nprint('second', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n{then}"
    )
    return write_job(
        folder,
        framework="indexed",
        command=[sys.executable, "-S", "-c", code],
        roles={"worker": {"replicas": 2}},
    )


def last_phase(run: RunRecord) -> str:
    phases = [each.phase.value for each in read_journal(run.events_file, PhaseChanged)]
    return phases[-1] if phases else ""


def is_running(moor: Moor) -> bool:
    return bool(moor.runs()) and last_phase(moor.only_run()) == "Running"


def has_ended(run: RunRecord) -> bool:
    return not run.alive()


def detached(moor: Moor, job: Path, *options: str) -> RunRecord:
    answer = moor("run", "--detach", job, *options)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    run = moor.only_run()
    name = run.info.id
    assert f"moor attach {name}\n" in answer.stdout
    assert f"moor stop {name}\n" in answer.stdout
    assert run.alive()
    return run


def test_a_detached_run_is_shown_from_its_beginning_until_its_end(
    moor: Moor, job: Path, gate: Path
) -> None:
    run = detached(moor, job)
    # A session of its own without a terminal: no hangup reaches it.
    assert os.getsid(run.info.pid) == run.info.pid
    assert run.info.id in moor("ps").stdout
    with moor.started("attach") as attached:
        shown = read_until(attached, "worker-1 │ second\n")
        assert "worker-1 │ first\n" in shown
        gate.touch()
        rest = "".join(read_all(attached))
        assert attached.wait(60) == 0
    assert "worker-0 │ done\n" in rest
    assert f"{run.info.id}  Succeeded" in rest
    until(lambda: has_ended(run), "the end of its process")
    assert leftovers(run) == []
    # Its own words are in its folder, those of members in their logs.
    said = run.output_file.read_text()
    assert "job Succeeded" in said and "│" not in said


def test_an_ended_run_is_reported_with_its_exit_code(
    moor: Moor, tmp_path: Path, gate: Path
) -> None:
    gate.touch()
    job = job_of(tmp_path, gate, "sys.exit('no data')")
    assert moor("run", "-q", job).returncode == 1
    answer = moor("attach")
    assert answer.returncode == 1
    assert f"{moor.only_run().info.id} has ended already\n" in answer.stdout
    assert "printed last:\n  first\n  second\n  no data\n" in answer.stdout
    assert "Failed" in moor("attach", "--quiet").stdout
    answer = moor("attach", "--only", "ps")
    assert answer.returncode == 2 and "--only: found 'ps'" in answer.stderr


def test_only_the_last_lines_are_shown_if_that_is_asked(moor: Moor, job: Path, gate: Path) -> None:
    run = detached(moor, job)
    until(lambda: "second" in moor("logs", "last", "worker-1").stdout, "lines")
    with moor.started("attach", run.info.id, "--tail", "1", "--only", "worker-1") as attached:
        shown = read_until(attached, "worker-1 │ second\n")
        gate.touch()
        shown += read_all(attached)
        assert attached.wait(60) == 0
    lines = [line for line in shown if "│" in line]
    assert lines == ["worker-1 │ second\n", "worker-1 │ done\n"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_end_of_an_attach_does_not_harm_the_run(
    moor: Moor, job: Path, gate: Path, number: signal.Signals
) -> None:
    run = detached(moor, job)
    with moor.started("attach") as attached:
        read_until(attached, "worker-1 │ second\n")
        attached.send_signal(number)
        code = attached.wait(30)
        rest = "".join(read_all(attached))
    if number is not signal.SIGKILL:
        assert code == 130
        assert f"left {run.info.id}, which goes on" in rest
    assert run.alive() and last_phase(run) == "Running"
    gate.touch()
    until(lambda: has_ended(run), "the end of its process")
    assert last_phase(run) == "Succeeded"


def test_a_detached_run_is_stopped_and_whoever_shows_it_ends_with_it(moor: Moor, job: Path) -> None:
    run = detached(moor, job)
    with moor.started("attach") as attached:
        read_until(attached, "worker-1 │ second\n")
        assert moor("stop", "last").stdout == f"stopped {run.info.id}\n"
        assert attached.wait(30) == 130
    until(lambda: has_ended(run), "the end of its process")
    assert leftovers(run) == []


def test_a_killed_run_ends_its_members_and_whoever_shows_it(moor: Moor, job: Path) -> None:
    run = detached(moor, job)
    with moor.started("attach") as attached:
        read_until(attached, "worker-1 │ second\n")
        os.kill(run.info.pid, signal.SIGKILL)
        rest = "".join(read_all(attached))
        assert attached.wait(30) == 1
    assert f"{run.info.id}  Lost" in rest
    until(lambda: not processes_of(run.info.id), "the end of its members")
    answer = moor("attach")
    assert answer.returncode == 1 and "has lost its moor process" in answer.stdout


def test_whoever_shows_a_probe_is_shown_the_run_after_it(moor: Moor, tmp_path: Path) -> None:
    code = (
        "import time\n"
        "for step in range(1, 61):\n"
        "    time.sleep(0.1)\n"
        '    print(\'::mooring:: {"step": %d, "examples": 8}\' % step, flush=True)\n'
        "print('done')"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=[sys.executable, "-S", "-c", code],
        roles={"worker": {"replicas": 1}},
    )
    answer = moor("run", "--detach", "--fix", "--probe", "3", job)
    assert "This is the probe." in answer.stdout
    answer = moor("attach", moor.only_run().info.id)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "job Stopped: the probe has seen enough\n" in answer.stdout
    assert "worker-0 │ done\n" in answer.stdout
    _, run = sorted(moor.runs(), key=lambda run: run.info.created_s)
    assert answer.stdout.count("Succeeded  worker-0 exited with code 0") == 1
    assert f"{run.info.id}  Succeeded" in answer.stdout


def test_what_does_not_start_is_said_as_in_the_foreground(
    moor: Moor, job: Path, tmp_path: Path
) -> None:
    for arguments in (
        (tmp_path / "nowhere.yaml",),
        (job, "--set", "roles.worker.resources.cpu=4096"),
        (job, "--set", "command=[no-such-program]"),
    ):
        before = moor("run", *arguments)
        answer = moor("run", "--detach", *arguments)
        assert answer.returncode == before.returncode != 0
        assert answer.stderr == before.stderr
        assert "no-such-program" in answer.stdout or answer.stdout == ""
    assert "'no-such-program' not found on PATH" in answer.stdout


def test_detaching_lets_go_of_all_that_the_caller_handed_over(
    moor: Moor, job: Path, gate: Path
) -> None:
    """A shell that reads the output, or waits for a lock, is not kept waiting by the run."""
    inherited, given = os.pipe()
    process = subprocess.run(
        [sys.executable, "-m", "mooring", "run", "-d", "-q", str(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=moor.env,
        pass_fds=[given],
        timeout=60,
        check=True,
    )
    os.close(given)
    assert os.read(inherited, 1) == b""
    os.close(inherited)
    run = moor.only_run()
    assert process.stdout == f"{run.info.id}\n"
    gate.touch()
    until(lambda: has_ended(run), "the end of its process")


@pytest.mark.parametrize("ignored", [True, False])
def test_a_hangup_stops_a_run_unless_it_is_ignored(
    moor: Moor, job: Path, gate: Path, ignored: bool
) -> None:
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL
    process = subprocess.Popen(
        [sys.executable, "-m", "mooring", "run", str(job)],
        stdout=subprocess.DEVNULL,
        env=moor.env,
        # As `nohup` does.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, handler),
    )
    with process:
        until(lambda: is_running(moor), "running", 30)
        process.send_signal(signal.SIGHUP)
        run = moor.only_run()
        if ignored:
            gate.touch()
        assert process.wait(30) == (0 if ignored else 130)
    assert last_phase(run) == ("Succeeded" if ignored else "Stopped")
    assert leftovers(run) == []


def test_a_closed_terminal_stops_its_run_cleanly(moor: Moor, job: Path) -> None:
    command = [sys.executable, "-m", "mooring", "run", str(job)]
    with terminal(80, 24, command, moor.env) as window:
        until(lambda: "│ second" in window.screen() and is_running(moor), "running", 60)
        run = moor.only_run()
    until(lambda: has_ended(run), "the end of its process")
    assert last_phase(run) == "Stopped"
    assert leftovers(run) == []


def test_a_detached_run_survives_its_terminal_and_is_left_by_a_key(
    moor: Moor, job: Path, gate: Path
) -> None:
    command = [sys.executable, "-m", "mooring", "run", "--detach", str(job)]
    with terminal(80, 24, command, moor.env) as window:
        until(lambda: window.exit_code() == 0, "the run's name", 60)
        assert f"moor attach {moor.only_run().info.id}" in window.screen()
    run = moor.only_run()
    command = [sys.executable, "-m", "mooring", "attach"]
    with terminal(80, 24, command, moor.env) as window:
        until(lambda: "│ second" in window.screen(), "its lines", 60)
        window.press("C-c")
        until(lambda: window.exit_code() is not None, "the end of attach")
        assert window.exit_code() == 130
        assert "which goes on" in window.screen().replace("\n", "")
    assert run.alive()
    gate.touch()
    until(lambda: has_ended(run), "the end of its process")
    assert last_phase(run) == "Succeeded"


def read_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """The lines up to the one that is waited for; pytest's timeout ends the wait."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == wanted:
            return lines
    raise AssertionError(f"no {wanted!r} in {lines}")


def read_all(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return list(process.stdout)
