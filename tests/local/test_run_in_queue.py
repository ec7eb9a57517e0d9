"""`moor run` where a service runs: it waits for its turn, is seen by everybody, and holds what it
was given as long as it lives, whatever becomes of it or of the service.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mooring.backends.local import netns
from support.moor import leftovers, write_job
from support.service import Service, service_in
from support.waiting import until

CPUS = len(os.sched_getaffinity(0))
_UNTIL = """import os, sys, time
print('up', flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
_SPAN = """import time
begun_s = time.monotonic()
time.sleep(0.2)
print('span', begun_s, time.monotonic())
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_in(tmp_path / "home") as service:
        yield service
    assert service.left() == []


def waiting_job(folder: Path, name: str, **spec: Any) -> Path:
    """A job that holds all CPUs until the file `NAME.release` is there."""
    settings: dict[str, Any] = {
        "framework": "indexed",
        "command": [sys.executable, "-S", "-c", _UNTIL, str(folder / f"{name}.release")],
        "roles": {"worker": {"replicas": 1, "resources": {"cpu": CPUS}}},
        "gracePeriod": "1s",
    }
    return write_job(folder, name=name, **{**settings, **spec})


def release(folder: Path, name: str) -> None:
    (folder / f"{name}.release").touch()


def queued(service: Service) -> list[str]:
    return [str(job["id"]) for job in service.client.get("/queue")["jobs"]]


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What it prints, up to the line with this text."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(f"it ended without {text!r}: {said}")


def test_a_run_waits_for_its_turn_and_says_why(service: Service, tmp_path: Path) -> None:
    [first] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(first, "running")
    with service.moor.started("run", waiting_job(tmp_path, "b")) as process:
        said = read_until(process, "waits in the queue")
        assert f"b-2 waits in the queue, place 1: b-2 waits for {CPUS} cpu" in said
        rows = json.loads(service.moor("ps", "-o", "json").stdout)
        assert [(row["job"], row["phase"]) for row in rows] == [
            (first, "Running"),
            ("b-2", "Queued"),
        ]
        assert not service.home.job("b-2").environment_file.read_text().count("PATH")
        release(tmp_path, "a")
        service.until_state("b-2", "running")
        [third] = service.submit(waiting_job(tmp_path, "c"))
        assert service.state(third) == "queued"
        release(tmp_path, "b")
        assert process.wait(60) == 0
    assert service.until_ended("b-2")["phase"] == "Succeeded"
    service.until_state(third, "running")
    release(tmp_path, "c")
    assert service.until_ended(third)["phase"] == "Succeeded"


def test_a_machine_with_room_runs_it_at_once(service: Service, tmp_path: Path) -> None:
    job = waiting_job(tmp_path, "a")
    release(tmp_path, "a")
    answer = service.moor("run", job)
    assert answer.returncode == 0, answer.stderr
    assert "waits in the queue" not in answer.stdout
    assert service.moor.only_run().info.queue_job == "a-1"


def test_ctrl_c_leaves_the_queue(service: Service, tmp_path: Path) -> None:
    [first] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(first, "running")
    with service.moor.started("run", waiting_job(tmp_path, "b")) as process:
        read_until(process, "waits in the queue")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert queued(service) == []
    ended = service.job("b-2")
    assert (ended["phase"], ended["admissions"]) == ("Stopped", 0)
    assert len(service.moor.runs()) == 1


def test_a_killed_run_frees_its_place_waiting_or_running(service: Service, tmp_path: Path) -> None:
    [first] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(first, "running")
    with (
        service.moor.started("run", waiting_job(tmp_path, "b")) as waiting,
        service.moor.started("run", waiting_job(tmp_path, "c")) as running,
    ):
        until(lambda: len(queued(service)) == 2, "both wait")
        waiting.kill()
        until(lambda: len(queued(service)) == 1, "the killed one is gone")
        [left] = queued(service)
        assert left.startswith("c-")
        release(tmp_path, "a")
        service.until_state(left, "running")
        [last] = service.submit(waiting_job(tmp_path, "d"))
        running.kill()
    ended = service.until_ended(left)
    assert (ended["phase"], ended["reason"]) == ("Failed", "its `moor run` was killed")
    service.until_state(last, "running")


def test_somebody_stops_a_run_that_waits(service: Service, tmp_path: Path) -> None:
    [first] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(first, "running")
    with service.moor.started("run", waiting_job(tmp_path, "b")) as process:
        read_until(process, "waits in the queue")
        assert service.moor("stop", "b-2").stdout == "stopped b-2\n"
        assert process.wait(30) == 130
        assert process.stdout is not None
        assert "stopped: b-2 was stopped while it waited: asked to stop" in process.stdout.read()


def test_somebody_stops_a_run_that_has_its_turn(service: Service, tmp_path: Path) -> None:
    with service.moor.started("run", waiting_job(tmp_path, "a")) as process:
        until(service.moor.runs, "a run")
        service.until_state("a-1", "running")
        assert service.moor("stop", "a-1").stdout == "stopped a-1\n"
        assert process.wait(30) == 130
    assert service.job("a-1")["phase"] == "Stopped"


def test_a_service_that_comes_back_finds_whoever_waits(service: Service, tmp_path: Path) -> None:
    [first] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(first, "running")
    with service.moor.started("run", waiting_job(tmp_path, "b")) as process:
        read_until(process, "waits in the queue")
        service.kill()
        service.start()
        assert service.job("b-2")["position"] == 1
        release(tmp_path, "a")
        service.until_state("b-2", "running")
        service.kill()
        service.start()
        assert service.state("b-2") == "running"
        release(tmp_path, "b")
        assert process.wait(60) == 0
    assert service.until_ended("b-2")["phase"] == "Succeeded"


def test_without_the_service_a_run_goes_on_as_ever(service: Service, tmp_path: Path) -> None:
    [first] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(first, "running")
    with service.moor.started("run", waiting_job(tmp_path, "b")) as process:
        read_until(process, "waits in the queue")
        service.kill()
        release(tmp_path, "a")
        release(tmp_path, "b")
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert "the service is gone: it runs without the queue" in process.stdout.read()
    # One that was killed has left its socket.
    assert service.home.socket.exists()
    assert service.moor("run", waiting_job(tmp_path, "b")).returncode == 0
    service.start()
    assert service.until_ended("b-2")["reason"] == "it went on without the queue"
    assert service.until_ended(first)["phase"] == "Succeeded"


def test_a_run_that_never_fits_does_not_wait(service: Service, tmp_path: Path) -> None:
    roles = {"worker": {"replicas": 1, "resources": {"cpu": CPUS + 1}}}
    answer = service.moor("run", waiting_job(tmp_path, "a", roles=roles))
    assert answer.returncode == 2
    assert "not placed" in answer.stderr
    assert queued(service) == []


def test_a_detached_run_waits_by_itself(service: Service, tmp_path: Path) -> None:
    [first] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(first, "running")
    answer = service.moor("run", "--detach", waiting_job(tmp_path, "b"))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("b-2 waits in the queue, place 1: ")
    assert "moor attach b-2" in answer.stdout
    release(tmp_path, "a")
    release(tmp_path, "b")
    attached = service.moor("attach", "b-2")
    assert attached.returncode == 0, attached.stderr
    assert "Succeeded" in attached.stdout
    assert service.until_ended("b-2")["phase"] == "Succeeded"


def test_runs_at_once_are_placed_one_after_the_other(service: Service, tmp_path: Path) -> None:
    """Each notes when it begins and ends: with all CPUs its own, no two overlap."""
    command = [sys.executable, "-S", "-c", _SPAN]
    jobs = [waiting_job(tmp_path, f"job{number}", command=command) for number in range(4)]
    started = [service.moor.started("run", job) for job in jobs]
    processes = [each.__enter__() for each in started]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * 4, outputs
    finally:
        for each in started:
            each.__exit__(None, None, None)
    spans = []
    for run in service.moor.runs():
        assert leftovers(run) == []
        words = run.log_file("worker-0").read_text().split()
        spans.append((float(words[-2]), float(words[-1])))
    spans.sort()
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


virtual = pytest.mark.skipif(netns.why_not() is not None, reason="needs virtual nodes")


@virtual
@pytest.mark.root
def test_a_run_takes_the_nodes_of_the_queue_or_its_own(tmp_path: Path) -> None:
    with service_in(tmp_path / "home", "--nodes", "2") as service:
        job = waiting_job(tmp_path, "a", roles={"worker": {"replicas": 2}})
        release(tmp_path, "a")
        assert service.moor("run", job).returncode == 0
        run = service.moor.only_run()
        assert (run.info.virtual_nodes, run.info.queue_job) == (2, "a-1")
        other = service.moor("run", job, "--nodes", "1")
        assert other.returncode == 0, other.stderr
        assert "it does not go through the queue: its --nodes" in other.stdout
        assert service.left() == []
