"""The machine's queue with real processes: jobs come, wait, run, are stopped and looked at."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.moor import Moor, processes_of, write_job
from support.service import Service, service_in, supervisors
from support.waiting import until

CPUS = len(os.sched_getaffinity(0))
_UNTIL = """import os, sys, time
print('up', flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_in(tmp_path / "home") as service:
        yield service
    assert service.left() == []


def waiting_job(folder: Path, name: str, cpu: int = CPUS, **spec: Any) -> Path:
    """A job that holds so many CPUs until the file `NAME.release` is there."""
    settings: dict[str, Any] = {
        "framework": "indexed",
        "command": [sys.executable, "-S", "-c", _UNTIL, str(folder / f"{name}.release")],
        "roles": {"worker": {"replicas": 1, "resources": {"cpu": cpu}}},
        "gracePeriod": "1s",
    }
    return write_job(folder, name=name, **{**settings, **spec})


def release(folder: Path, name: str) -> None:
    (folder / f"{name}.release").touch()


def test_jobs_run_one_after_the_other(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    waiting = service.job(second)
    assert (waiting["state"], waiting["position"], waiting["ahead"]) == ("queued", 1, [])
    assert f"0 of its {CPUS} cpu free" in waiting["reason"]
    release(tmp_path, "a")
    assert service.until_ended(first)["phase"] == "Succeeded"
    service.until_state(second, "running")
    release(tmp_path, "b")
    assert service.until_ended(second)["phase"] == "Succeeded"
    assert [run.info.queue_job for run in sorted(service.moor.runs(), key=lambda r: r.root)] == [
        first,
        second,
    ]


def test_what_a_submission_keeps_is_its_owners_alone(service: Service, tmp_path: Path) -> None:
    job = waiting_job(tmp_path, "secret")
    answer = service.moor("submit", job, env={"MY_TOKEN": "s3cret"})
    assert answer.returncode == 0, answer.stderr
    [job_id] = [line.split()[0] for line in answer.stdout.splitlines()]
    folder = service.home.job(job_id)
    service.until_state(job_id, "running")
    assert json.loads(folder.environment_file.read_text())["variables"]["MY_TOKEN"] == "s3cret"
    for path in [
        service.home.root,
        folder.root,
        *folder.root.iterdir(),
        *service.home.root.iterdir(),
    ]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    [run] = service.moor.runs()

    def programs() -> list[psutil.Process]:
        return [p for p in processes_of(run.info.id) if "secret.release" in p.cmdline()[-1]]

    [member] = until(programs, "its program")
    assert member.environ()["MY_TOKEN"] == "s3cret"
    release(tmp_path, "secret")
    service.until_ended(job_id)
    kept = [path for path in service.moor.home.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"s3cret" in path.read_bytes()]


def test_a_job_that_waits_is_stopped_at_once(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    answer = service.moor("stop", second)
    assert (answer.returncode, answer.stdout) == (0, f"stopped {second}\n")
    assert service.job(second)["phase"] == "Stopped"
    assert len(service.moor.runs()) == 1


def test_a_job_that_runs_is_stopped_with_its_members(service: Service, tmp_path: Path) -> None:
    [job_id] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(job_id, "running")
    answer = service.moor("stop", job_id)
    assert (answer.returncode, answer.stdout) == (0, f"stopped {job_id}\n")
    assert service.job(job_id)["phase"] == "Stopped"
    assert supervisors(service.moor.home) == []


def test_the_queue_is_listed_after_the_runs(service: Service, tmp_path: Path) -> None:
    ids = service.submit(*(waiting_job(tmp_path, name) for name in "abc"))
    service.until_state(ids[0], "running")
    rows = json.loads(service.moor("ps", "-o", "json").stdout)
    assert [(row["job"], row.get("position"), row.get("ahead")) for row in rows] == [
        (ids[0], None, None),
        (ids[1], 1, []),
        (ids[2], 2, [ids[1]]),
    ]
    assert rows[0]["phase"] == "Running"
    assert rows[2]["phase"] == "Queued"
    assert f"waits behind {ids[1]}" in rows[2]["reason"]
    table = service.moor("ps").stdout
    assert "why" in table
    assert f"{ids[2]} waits behind {ids[1]}" in table


def test_commands_find_a_jobs_run_by_its_id(service: Service, tmp_path: Path) -> None:
    [job_id] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(job_id, "running")
    until(lambda: "up" in service.moor("logs", job_id).stdout, "its line")
    release(tmp_path, "a")
    attached = service.moor("attach", job_id)
    assert attached.returncode == 0, attached.stderr
    assert "Succeeded" in attached.stdout
    service.until_ended(job_id)
    assert service.moor.report(job_id)["phase"] == "Succeeded"
    assert service.moor("doctor", job_id).returncode == 0


def test_a_job_without_a_run_is_told_from_an_unknown_one(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    answer = service.moor("logs", second)
    assert answer.returncode == 2
    assert "has no run yet" in answer.stderr
    assert "cpu free" in answer.stderr
    assert "has no run yet" not in service.moor("logs", "nobody").stderr


def test_whoever_attaches_to_a_job_that_waits_sees_it_run(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    with service.moor.started("attach", second) as process:
        assert process.stdout is not None
        assert "waits for" in process.stdout.readline()
        release(tmp_path, "a")
        release(tmp_path, "b")
        assert process.wait(60) == 0
        assert "Succeeded" in process.stdout.read()


def test_explain_asks_the_live_queue(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    answer = service.moor("explain", second)
    assert answer.returncode == 0, answer.stderr
    assert "insufficient cpu" in answer.stdout
    assert f"  {first} has ended" in answer.stdout
    assert "  priority: 1 instead of 0" in answer.stdout
    assert "more node" not in answer.stdout
    wrong = service.moor("explain", second, "worker-7")
    assert (wrong.returncode, "one of worker-0" in wrong.stderr) == (2, True)


def test_bad_jobs_leave_nothing_in_the_queue(service: Service, tmp_path: Path) -> None:
    good = waiting_job(tmp_path, "good")
    bad = waiting_job(tmp_path, "bad", roles={"worker": {"replicas": 0}})
    answer = service.moor("submit", good, bad)
    assert answer.returncode == 2
    assert "spec.roles.worker.replicas" in answer.stderr
    assert service.client.get("/jobs?unfinished=true")["jobs"] == []
    assert list(service.home.jobs_dir.iterdir()) == []


def test_the_files_of_a_job_are_those_of_its_submission(service: Service, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('as submitted')")
    blocking = waiting_job(tmp_path, "a")
    spec = {"command": [sys.executable, "train.py"], "files": ["train.py"]}
    first, second = service.submit(blocking, waiting_job(tmp_path, "b", **spec))
    service.until_state(first, "running")
    script.write_text("print('changed')")
    release(tmp_path, "a")
    assert service.until_ended(second)["phase"] == "Succeeded"
    assert "as submitted" in service.moor("logs", second).stdout


def test_jobs_outlive_the_service(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    [supervisor] = supervisors(service.moor.home)
    service.kill()
    assert supervisors(service.moor.home) == [supervisor]
    service.start()
    assert service.state(first) == "running"
    assert service.state(second) == "queued"
    service.stop()
    release(tmp_path, "a")
    until(lambda: not supervisors(service.moor.home), "the job ends without a service")
    service.start()
    assert service.until_ended(first)["phase"] == "Succeeded"
    service.until_state(second, "running")
    release(tmp_path, "b")
    assert service.until_ended(second)["phase"] == "Succeeded"
    assert len(service.moor.runs()) == 2


def test_there_is_one_service_a_home(service: Service) -> None:
    assert service.process is not None
    answer = service.moor("serve")
    assert answer.returncode == 2
    assert f"process {service.process.pid}" in answer.stderr


def test_without_a_service_a_submission_says_so(tmp_path: Path) -> None:
    answer = Moor(tmp_path / "home")("submit", waiting_job(tmp_path, "a"))
    assert answer.returncode == 1
    assert "moor serve" in answer.stderr


def test_a_run_beside_the_queue_holds_what_it_holds(service: Service, tmp_path: Path) -> None:
    service.stop()
    with service.moor.started("run", waiting_job(tmp_path, "outside")):
        until(lambda: service.moor.runs(), "a run")
        service.start()
        [job_id] = service.submit(waiting_job(tmp_path, "a"))
        until(lambda: "insufficient cpu" in service.job(job_id)["reason"], "it waits")
        release(tmp_path, "outside")
        service.until_state(job_id, "running")


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGTERM"])
def test_a_killed_supervisor_fails_its_job_or_starts_it_again(
    service: Service, tmp_path: Path, signal_name: str
) -> None:
    import signal

    number = getattr(signal, signal_name)
    restarts = {"failurePolicy": {"restart": "gang", "backoff": {"initial": "50ms"}}}
    never, again = service.submit(
        waiting_job(tmp_path, "never", cpu=1), waiting_job(tmp_path, "again", cpu=1, **restarts)
    )
    for job_id in (never, again):
        service.until_state(job_id, "running")
    until(lambda: all(len(processes_of(run.info.id)) > 1 for run in service.moor.runs()), "members")
    for pid in supervisors(service.moor.home):
        os.kill(pid, number)
    assert service.until_ended(never)["phase"] == "Failed"
    until(lambda: service.job(again)["admissions"] == 2, "it is admitted again")
    assert service.until_state(again, "running")["restarts"] == 1
    release(tmp_path, "again")
    assert service.until_ended(again)["phase"] == "Succeeded"
    assert len(service.moor.runs()) == 3
