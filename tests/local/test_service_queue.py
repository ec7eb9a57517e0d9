"""What the machine's queue decides, carried out with real processes: who gives way, who grows and
shrinks, how pools share, on the machine as it is and on virtual nodes.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.backends.local import netns
from mooring.model.status import MemberState
from mooring.record.plan_file import read_holdings
from mooring.wire import read_journal
from mooring.wire.events import MemberChanged
from support.moor import Moor, processes_of, write_job
from support.service import Service, service_in, supervisors
from support.waiting import until

CPUS = len(os.sched_getaffinity(0))
_UNTIL = """import os, sys, time
print('up', os.environ['MOORING_WORLD_SIZE'], os.environ['MOORING_EPOCH'], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_in(tmp_path / "home") as service:
        yield service
    assert service.left() == []


def waiting_job(folder: Path, name: str, replicas: int = 1, cpu: float = 1, **spec: Any) -> Path:
    """A job that holds its CPUs until the file `NAME.release` is there."""
    settings: dict[str, Any] = {
        "framework": "indexed",
        "command": [sys.executable, "-S", "-c", _UNTIL, str(folder / f"{name}.release")],
        "roles": {"worker": {"replicas": replicas, "resources": {"cpu": cpu}}},
        "gracePeriod": "1s",
    }
    return write_job(folder, name=name, **{**settings, **spec})


def release(folder: Path, name: str) -> None:
    (folder / f"{name}.release").touch()


def printed(service: Service, job_id: str) -> list[str]:
    return sorted(line.split("| ")[1] for line in service.moor("logs", job_id).stdout.splitlines())


def sizes(service: Service, job_id: str) -> list[int]:
    """How many members each start of the job's latest run had, by its journal."""
    run = [run for run in service.moor.runs() if run.info.queue_job == job_id][-1]
    started: dict[int, set[str]] = {}
    for change in read_journal(run.events_file, MemberChanged):
        if change.state is MemberState.RUNNING:
            started.setdefault(change.epoch, set()).add(change.member)
    return [len(members) for _, members in sorted(started.items())]


def test_a_whole_gang_gives_way_and_runs_again(service: Service, tmp_path: Path) -> None:
    low = waiting_job(tmp_path, "low", replicas=CPUS, priority="low")
    high = waiting_job(tmp_path, "high", cpu=CPUS, priority="high")
    [first] = service.submit(low)
    until(lambda: sizes(service, first) == [CPUS] if service.moor.runs() else False, "it runs")
    [second] = service.submit(high)
    until(lambda: service.state(second) == "running", "the urgent one runs")
    waiting = service.job(first)
    assert (waiting["state"], waiting["position"], waiting["admissions"]) == ("queued", 1, 1)
    stopped = [run for run in service.moor.runs() if run.info.queue_job == first]
    report = service.moor.report(stopped[0].info.id)
    assert report["phase"] == "Stopped"
    assert f"all members of {first} give way to {second}" in report["reason"]
    release(tmp_path, "high")
    release(tmp_path, "low")
    assert service.until_ended(second)["phase"] == "Succeeded"
    ended = service.until_ended(first)
    assert (ended["phase"], ended["admissions"], ended["restarts"]) == ("Succeeded", 2, 0)
    # Its second run goes on counting where the first one was.
    assert printed(service, first) == [f"up {CPUS} 1"] * CPUS
    runs = sorted(service.moor.runs(), key=lambda run: run.info.created_s)
    assert [run.info.queue_job for run in runs] == [first, second, first]


def test_nobody_starts_before_those_who_gave_way_are_gone(service: Service, tmp_path: Path) -> None:
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _UNTIL
    command = [sys.executable, "-S", "-c", stubborn, str(tmp_path / "low.release")]
    low = waiting_job(tmp_path, "low", cpu=CPUS, priority="low", command=command, gracePeriod="3s")
    [first] = service.submit(low)
    until(lambda: service.moor.runs() and printed(service, first) == ["up 1 0"], "it runs")
    [second] = service.submit(waiting_job(tmp_path, "high", cpu=CPUS, priority="high"))
    until(lambda: len(supervisors(service.moor.home)) == 2, "its supervisor waits for room")
    service.until_state(second, "running")
    old, new = sorted(service.moor.runs(), key=lambda run: run.info.created_s)
    assert old.released_file.exists()
    assert new.info.created_s >= old.released_file.stat().st_mtime - 0.05


def test_an_elastic_gang_shrinks_for_others_and_grows_back(
    service: Service, tmp_path: Path
) -> None:
    elastic = waiting_job(tmp_path, "elastic", replicas=CPUS, minAvailable=1, priority="low")
    [first] = service.submit(elastic)
    until(lambda: service.moor.runs() and sizes(service, first) == [CPUS], "all members run")
    [second] = service.submit(waiting_job(tmp_path, "other", cpu=1, priority="high"))
    service.until_state(second, "running")
    until(lambda: sizes(service, first) == [CPUS, CPUS - 1], "it goes on smaller")
    assert service.job(first)["placed"] == CPUS - 1
    run = next(run for run in service.moor.runs() if run.info.queue_job == first)
    assert len(read_holdings(run.plan_file)) == CPUS - 1
    release(tmp_path, "other")
    service.until_ended(second)
    until(lambda: sizes(service, first) == [CPUS, CPUS - 1, CPUS], "it has grown back")
    release(tmp_path, "elastic")
    ended = service.until_ended(first)
    assert (ended["phase"], ended["admissions"], ended["restarts"]) == ("Succeeded", 1, 0)
    assert len([run for run in service.moor.runs() if run.info.queue_job == first]) == 1


def test_small_jobs_pass_a_large_one_only_if_they_do_not_delay_it(
    service: Service, tmp_path: Path
) -> None:
    if CPUS < 2:
        pytest.skip("needs two CPUs")
    [first] = service.submit(
        waiting_job(tmp_path, "first", cpu=CPUS - 1, expectedDuration="1h", preemptible=False)
    )
    service.until_state(first, "running")
    [large] = service.submit(waiting_job(tmp_path, "large", cpu=CPUS))
    [long, short] = service.submit(
        waiting_job(tmp_path, "long", cpu=1),
        waiting_job(tmp_path, "short", cpu=1, expectedDuration="1m"),
    )
    service.until_state(short, "running")
    assert f"waits behind {large}" in service.job(long)["reason"]
    assert (service.state(large), service.state(long)) == ("queued", "queued")


def pools_file(path: Path, *pools: dict[str, Any], **more: Any) -> Path:
    head = {"apiVersion": "mooring.dev/v1", "kind": "Pools"}
    path.write_text(yaml.safe_dump({**head, "pools": list(pools), **more}))
    return path


def test_a_pool_borrows_and_gives_back(tmp_path: Path) -> None:
    if CPUS < 2:
        pytest.skip("needs two CPUs")
    own = {"guaranteed": {"cpu": CPUS // 2}}
    file = pools_file(tmp_path / "pools.yaml", {"name": "ads", **own}, {"name": "nlp", **own})
    with service_in(tmp_path / "home", "--pools", str(file)) as service:
        share = {"cpu": CPUS // 2}
        [mine] = service.submit(waiting_job(tmp_path, "mine", **share, pool="ads"))
        [borrowed] = service.submit(waiting_job(tmp_path, "borrowed", **share, pool="ads"))
        for job_id in (mine, borrowed):
            service.until_state(job_id, "running")
        [owner] = service.submit(waiting_job(tmp_path, "owner", **share, pool="nlp"))
        service.until_state(owner, "running")
        assert service.state(mine) == "running"
        waiting = service.until_state(borrowed, "queued")
        assert waiting["pool"] == "ads"
        run = next(run for run in service.moor.runs() if run.info.queue_job == borrowed)
        until(lambda: service.moor.report(run.info.id)["phase"] == "Stopped", "its run ended")
        said = f"give back to {owner} what pool ads has borrowed from pool nlp"
        assert said in service.moor.report(run.info.id)["reason"]
        wrong = service.moor("submit", waiting_job(tmp_path, "x", pool="none"))
        assert wrong.returncode == 2
        assert "spec.pool: found 'none'; accepted: one of the machine's pools" in wrong.stderr


def test_a_pools_file_is_read_again_and_a_bad_one_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = pools_file(home / "pools.yaml", {"name": "ads"}, priorityClasses={"nightly": -100})
    with service_in(home) as service:
        job = waiting_job(tmp_path, "a", cpu=CPUS, pool="ads", priority="nightly")
        [job_id] = service.submit(job)
        assert service.job(job_id)["priority"] == -100
        file.write_text(file.read_text().replace("name: ads", "nome: ads"))
        until(lambda: "is refused" in service.moor("ps").stdout, "the refusal is told")
        assert "pools[0].name" in service.moor("ps").stdout
        assert "pools[0].name" in service.log.read_text()
        assert service.moor("submit", job).returncode == 0, "the pools before it hold"
        # Also for a service that is started anew.
        service.stop()
        service.start()
        assert service.job(job_id)["pool"] == "ads"
        assert "is refused" in service.moor("ps").stdout
        too_much = {"name": "ads", "guaranteed": {"cpu": 1000}}
        pools_file(file, too_much)
        until(lambda: "guarantees of 1000 cpu" in service.moor("ps").stdout, "it is refused, too")
        pools_file(file, {"name": "nlp"})
        until(lambda: "is refused" not in service.moor("ps").stdout, "it is valid again")
        assert service.moor("submit", job).returncode == 2, "the pool is gone"


def test_a_service_does_not_start_with_bad_pools(tmp_path: Path) -> None:
    file = pools_file(tmp_path / "pools.yaml", {"name": "ads", "weight": -1})
    answer = Moor(tmp_path / "home")("serve", "--pools", str(file))
    assert answer.returncode == 2
    assert "pools[0].weight" in answer.stderr


def test_after_a_reboot_the_policy_decides(service: Service, tmp_path: Path) -> None:
    """Processes of another boot are gone for certain, whoever has their numbers now."""
    again = {"failurePolicy": {"restart": "gang", "backoff": {"initial": "10ms"}}}
    never, restarted, waiting = service.submit(
        waiting_job(tmp_path, "never"),
        waiting_job(tmp_path, "restarted", **again),
        waiting_job(tmp_path, "waiting", cpu=CPUS),
    )
    for job_id in (never, restarted):
        service.until_state(job_id, "running")
    service.kill()
    for pid in supervisors(service.moor.home):
        os.kill(pid, 9)
    runs = [run.info.id for run in service.moor.runs()]
    until(lambda: not any(map(processes_of, runs)), "members end with their supervisors")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    other = "00000000-0000-0000-0000-000000000000"
    for path in (*service.home.jobs_dir.rglob("supervisor-*.json"), *_run_files(service)):
        path.write_text(path.read_text().replace(boot, other))
    service.start()
    ended = service.until_ended(never)
    assert (ended["phase"], ended["reason"]) == ("Failed", "the machine was restarted while it ran")
    service.until_state(restarted, "running")
    assert service.job(restarted)["restarts"] == 1
    assert service.state(waiting) == "queued"


def _run_files(service: Service) -> list[Path]:
    return [run.root / "run.json" for run in service.moor.runs()]


virtual = pytest.mark.skipif(netns.why_not() is not None, reason="needs virtual nodes")


@virtual
@pytest.mark.root
def test_four_jobs_on_three_nodes_with_four_cards_do_not_deadlock(
    tmp_path: Path, nvml: Path
) -> None:
    """Twelve cards, four jobs of four workers with a card each: three run, one waits whole."""
    stub = {"LD_LIBRARY_PATH": str(nvml), "STUB_NVML_CARDS": "12"}
    worker = {"replicas": 4, "resources": {"gpu": 1}}
    with service_in(tmp_path / "home", "--nodes", "3", "--nic-mbps", "100", env=stub) as service:
        ids = service.submit(
            *(
                waiting_job(tmp_path, f"job{number}", roles={"worker": worker})
                for number in range(4)
            )
        )
        for job_id in ids[:3]:
            service.until_state(job_id, "running")
            until(lambda job_id=job_id: sizes(service, job_id) == [4], "four workers", 60)
        waiting = service.job(ids[3])
        assert waiting["state"] == "queued"
        assert "0 of its 12 gpu free" in waiting["reason"]
        held = [holding for run in service.moor.runs() for holding in read_holdings(run.plan_file)]
        cards = [card for holding in held for card in holding.slot.gpus]
        assert sorted(cards) == list(range(12))
        for number in range(4):
            release(tmp_path, f"job{number}")
        assert [service.until_ended(job_id)["phase"] for job_id in ids] == ["Succeeded"] * 4
        assert service.left() == []


@virtual
@pytest.mark.root
def test_pools_on_virtual_nodes_borrow_and_return_cards(tmp_path: Path, nvml: Path) -> None:
    stub = {"LD_LIBRARY_PATH": str(nvml), "STUB_NVML_CARDS": "4"}
    own = {"guaranteed": {"gpu": 2}}
    file = pools_file(tmp_path / "pools.yaml", {"name": "ads", **own}, {"name": "nlp", **own})
    arguments = ("--nodes", "2", "--pools", str(file))
    with service_in(tmp_path / "home", *arguments, env=stub) as service:
        worker = {"worker": {"replicas": 2, "resources": {"gpu": 1}}}
        first, second = service.submit(
            waiting_job(tmp_path, "own", roles=worker, pool="ads"),
            waiting_job(tmp_path, "lent", roles=worker, pool="ads"),
        )
        for job_id in (first, second):
            until(lambda job_id=job_id: service.state(job_id) == "running", "both run", 60)
        [owner] = service.submit(waiting_job(tmp_path, "owner", roles=worker, pool="nlp"))
        service.until_state(owner, "running")
        service.until_state(second, "queued")
        assert service.state(first) == "running"
        release(tmp_path, "owner")
        service.until_ended(owner)
        service.until_state(second, "running")
        assert service.job(second)["admissions"] == 2


def test_a_torn_file_is_recovered_while_the_service_runs(service: Service, tmp_path: Path) -> None:
    first, second = service.submit(waiting_job(tmp_path, "a", cpu=CPUS), waiting_job(tmp_path, "b"))
    service.until_state(first, "running")
    with closing(sqlite3.connect(service.home.database)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with service.home.database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (service.home.database.stat().st_size - 4096))
    release(tmp_path, "a")
    until(lambda: "was damaged" in service.moor("ps").stdout, "it says so", 60)
    service.until_state(second, "running")
    release(tmp_path, "b")
    assert service.until_ended(second)["phase"] == "Succeeded"
