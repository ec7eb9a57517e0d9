"""Faults of what the machine's queue stands on: it is killed, its disk fills up, its file is torn,
many clients ask at once. The long versions are in tests/faults.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mooring.backends.local.queue.client import NotFound
from support.moor import write_job
from support.service import Service, service_in
from support.service_clients import ask_at_once
from support.service_kills import Campaign
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
    settings: dict[str, Any] = {
        "framework": "indexed",
        "command": [sys.executable, "-S", "-c", _UNTIL, str(folder / f"{name}.release")],
        "roles": {"worker": {"replicas": 1, "resources": {"cpu": cpu}}},
        "gracePeriod": "1s",
    }
    return write_job(folder, name=name, **{**settings, **spec})


def release(folder: Path, name: str) -> None:
    (folder / f"{name}.release").touch()


def test_a_killed_service_loses_and_repeats_nothing(service: Service, tmp_path: Path) -> None:
    campaign = Campaign(service, tmp_path, seed=1)
    campaign.carry_out(kills=10)
    campaign.check(deadline_s=240)
    service.stop()
    assert not service.home.socket.exists()
    service.start()


# -- a file that is not what was written


def test_a_service_starts_with_a_torn_file(service: Service, tmp_path: Path) -> None:
    """From the folders it knows who runs, who waits and who has ended."""
    ended, running, waiting = service.submit(
        waiting_job(tmp_path, "ended"),
        waiting_job(tmp_path, "running"),
        waiting_job(tmp_path, "waiting", priority=-5),
    )
    release(tmp_path, "ended")
    service.until_ended(ended)
    service.until_state(running, "running")
    service.kill()
    tear(service.home.database)
    service.start()
    assert service.job(ended)["phase"] == "Succeeded"
    assert service.state(running) in ("starting", "running")
    assert (service.state(waiting), service.job(waiting)["priority"]) == ("queued", -5)
    said = service.moor("ps").stdout.replace("\n", " ")
    assert "2 jobs that had not ended and 1 that had are known by their folders" in said
    assert list(service.home.root.glob("queue.sqlite3.damaged-*"))
    [new] = service.submit(waiting_job(tmp_path, "new"))
    assert new == "new-4"
    for name in ("running", "waiting", "new"):
        release(tmp_path, name)
    for job_id in (running, waiting, new):
        assert service.until_ended(job_id)["phase"] == "Succeeded"
    assert service.job(running)["admissions"] == 1


def test_a_file_that_is_gone_is_made_again(service: Service, tmp_path: Path) -> None:
    [job_id] = service.submit(waiting_job(tmp_path, "a"))
    service.until_state(job_id, "running")
    service.kill()
    for path in service.home.root.glob("queue.sqlite3*"):
        path.unlink()
    service.start()
    assert "the queue's file was empty" in service.moor("ps").stdout.replace("\n", " ")
    release(tmp_path, "a")
    assert service.until_ended(job_id)["phase"] == "Succeeded"


def test_what_a_torn_file_and_a_torn_folder_take_is_told(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    service.kill()
    tear(service.home.database)
    (service.home.job(second).root / "submission.json").write_text("{")
    service.start()
    assert f"1 folders cannot be read: {second}" in service.moor("ps").stdout.replace("\n", " ")
    with pytest.raises(NotFound):
        service.job(second)
    release(tmp_path, "a")
    assert service.until_ended(first)["phase"] == "Succeeded"


def test_one_torn_page_is_mended_by_whoever_reads_it(service: Service, tmp_path: Path) -> None:
    jobs = [waiting_job(tmp_path, f"job{number}", cpu=1) for number in range(12)]
    for number in range(12):
        release(tmp_path, f"job{number}")
    ids = service.submit(*jobs)
    for job_id in ids:
        service.until_ended(job_id, deadline_s=120)
    service.stop()
    tear(service.home.database, first_page=2)
    service.start()
    assert {service.job(job_id)["phase"] for job_id in ids} == {"Succeeded"}
    assert "known by their folders" in service.moor("ps").stdout.replace("\n", " ")


def tear(database: Path, first_page: int = 1) -> None:
    """Overwrite all pages behind this one, as a disk that lies about what it wrote."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with database.open("r+b") as file:
        file.seek(4096 * first_page)
        file.write(b"\xa5" * max(4096, database.stat().st_size - 4096 * first_page))


# -- a disk that is full


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs to be allowed to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.root
def test_a_full_disk_holds_up_the_queue_and_no_more(small_disk: Path, tmp_path: Path) -> None:
    with service_in(small_disk / "home") as service:
        first, second = service.submit(waiting_job(tmp_path, "a"), waiting_job(tmp_path, "b"))
        service.until_state(first, "running")
        until(lambda: "up" in service.moor("logs", first).stdout, "its program runs")
        filler = small_disk / "filler"
        fill(filler)
        refused = service.moor("submit", waiting_job(tmp_path, "c"))
        assert refused.returncode == 1
        assert "No space left" in refused.stderr or "is full" in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr
        # It runs on, and ends; the service cannot write that down yet.
        release(tmp_path, "a")
        run = next(run for run in service.moor.runs() if run.info.queue_job == first)
        until(run.released_file.exists, "its run ends", 60)
        assert service.moor("ps").returncode == 0
        assert service.state(second) in ("queued", "starting")
        assert len(service.moor.runs()) == 1
        filler.unlink()
        ended = service.until_ended(first)
        assert ended["phase"] == "Succeeded", ended["reason"]
        service.until_state(second, "running")
        release(tmp_path, "b")
        assert service.until_ended(second)["phase"] == "Succeeded"
        [third] = service.submit(waiting_job(tmp_path, "c"))
        release(tmp_path, "c")
        assert service.until_ended(third)["phase"] == "Succeeded"
        assert service.left() == []


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


# -- many clients


def test_many_clients_at_once_are_all_answered(service: Service, tmp_path: Path) -> None:
    ask_at_once(service, waiting_job(tmp_path, "never"), clients=8, operations=20)
