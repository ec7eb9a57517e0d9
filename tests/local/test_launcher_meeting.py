"""Launchers of a gang in pods: nobody starts before all are there, and nobody starts twice."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gangs import TOKEN, Pods

from mooring.account.looks import read_looks
from mooring.backends.kubernetes.objects.contract import packed
from mooring.wire import read_record
from mooring.wire.looks import Looks
from support.waiting import until


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    held = Pods(tmp_path)
    yield held
    held.close()


def test_nobody_starts_before_all_are_there(pods: Pods) -> None:
    for index in (0, 1):
        pods.start(index, 3)
    until(lambda: pods.ready(0) and pods.ready(1), "two launchers are ready")
    until(lambda: pods.status()["there"] == ["worker-0", "worker-1"], "both are at the meeting")
    assert not pods.status()["open"]
    assert pods.out(0) == pods.out(1) == ""
    pods.start(2, 3)
    until(lambda: all("hello" in pods.out(i) for i in range(3)), "all three run")


def test_the_leader_tells_how_everyone_is_doing(pods: Pods) -> None:
    step = "::mooring:: " + json.dumps({"step": 7, "examples": 64})
    argv = [sys.executable, "-c", f"print('{step}', flush=True); import time; time.sleep(600)"]
    for index in (0, 1):
        pods.start(index, 2, argv=argv)
    until(
        lambda: [one.get("examples") for one in pods.status()["members"].values()] == [64, 64],
        "both have reported a step",
    )
    members = pods.status()["members"]
    assert {one["step"] for one in members.values()} == {7}
    assert all(one["cpus"] for one in members.values())


STEPPING = """
import json, time
print('::mooring:: {"variables": [{"name": "table"}]}', flush=True)
for step in range(1, 10_000):
    print('::mooring:: ' + json.dumps({"step": step, "examples": 8}), flush=True)
    time.sleep(0.1)
"""


def test_the_leader_keeps_what_the_journals_of_all_said(pods: Pods) -> None:
    for index in (0, 1):
        pods.start(index, 2, argv=[sys.executable, "-c", STEPPING])

    def kinds(index: int) -> set[str]:
        told = pods.status("history")["members"].get(f"worker-{index}", [])
        return {one["kind"] for one in told}

    wanted = {"ready", "variables", "sample", "step", "looks"}
    until(lambda: kinds(0) == kinds(1) == wanted, "both have told everything")
    # Two samples are five seconds apart, and the steps between them are one record.
    seen = until(
        lambda: next(
            (
                pair
                for told in [pods.status("history")["members"]["worker-1"]]
                if len(pair := [one for one in told if one["kind"] == "step"]) >= 2
            ),
            None,
        ),
        "a second sample was told",
    )
    assert seen[1]["examples"] == 8 * (seen[1]["step"] - seen[0]["step"])
    # What the other's launcher saw of its program is enough for an account of it here.
    told = pods.status("history")["members"]["worker-1"]
    records = [record for each in told if isinstance(record := read_record(each), Looks)]
    [rank] = read_looks(records, (0.0, float("inf")))
    seen_so = [one.place.main.call for one in rank.looks if one.place is not None]
    assert seen_so.count("sleep") > 0.7 * len(seen_so) > 10
    # A leader that comes again hears what matters of those that stayed.
    leader = pods.processes[0]
    leader.send_signal(signal.SIGTERM)
    leader.wait(30)
    pods.start(0, 2, argv=[sys.executable, "-c", STEPPING], attempt=1)
    until(lambda: {"ready", "variables"} <= kinds(1), "the other has told again")


def test_a_container_that_restarts_goes_on_alone_as_the_next_attempt(pods: Pods) -> None:
    first = [pods.start(index, 2) for index in (0, 1)]
    until(lambda: all("hello" in pods.out(i) for i in (0, 1)), "both run")
    os.killpg(first[1].pid, signal.SIGKILL)
    first[1].wait(10)
    pods.start(1, 2)
    until(lambda: pods.out(1).count("hello") == 2, "it runs again without waiting")
    assert '"attempt":1' in pods.out(1, "samples.jsonl")


def test_a_leader_that_restarts_finds_the_others_running(pods: Pods) -> None:
    first = [pods.start(index, 2) for index in (0, 1)]
    until(lambda: all("hello" in pods.out(i) for i in (0, 1)), "both run")
    os.killpg(first[0].pid, signal.SIGKILL)
    first[0].wait(10)
    pods.start(0, 2)
    until(lambda: pods.out(0).count("hello") == 2, "the leader runs again", 90)


def test_an_attempt_that_has_run_is_not_let_in_again(pods: Pods) -> None:
    """A pod made anew by mistake has a fresh folder, so it takes itself for the first attempt."""
    first = [pods.start(index, 2) for index in (0, 1)]
    until(lambda: all("hello" in pods.out(i) for i in (0, 1)), "both run")
    os.killpg(first[1].pid, signal.SIGKILL)
    first[1].wait(10)
    (pods.folder / "pod-1" / "starts").unlink()
    again = pods.start(1, 2)
    assert again.wait(30) != 0
    assert "attempt 0 of worker-1 has already run" in pods.out(1, "err")


def test_another_epoch_is_not_let_in(pods: Pods) -> None:
    pods.start(0, 2)
    until(lambda: pods.ready(0), "the leader is ready")
    stranger = pods.start(1, 2, epoch=1)
    assert stranger.wait(30) != 0
    assert "another run or epoch" in pods.out(1, "err")


def test_files_are_unpacked_and_are_where_it_runs(pods: Pods, tmp_path: Path) -> None:
    archive = tmp_path / "files.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        data = b"print('from the archive')\n"
        entry = tarfile.TarInfo("src/train.py")
        entry.size = len(data)
        packed.addfile(entry, io.BytesIO(data))
    process = pods.start(
        0,
        1,
        argv=[sys.executable, "train.py"],
        cwd="src",
        archive=str(archive),
        files={"hostfile": "a slots=1\n"},
    )
    assert process.wait(30) == 0
    assert "from the archive" in pods.out(0)
    assert pods.out(0, "member/hostfile") == "a slots=1\n"


@pytest.mark.parametrize("name", ["../escape", "/escape"])
def test_an_archive_writes_nowhere_else(pods: Pods, tmp_path: Path, name: str) -> None:
    archive = tmp_path / "files.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        entry = tarfile.TarInfo(name)
        packed.addfile(entry, io.BytesIO(b""))
    process = pods.start(0, 1, archive=str(archive))
    assert process.wait(30) != 0
    assert "may not be unpacked" in pods.out(0, "err")


def test_secrets_of_the_contract_do_not_reach_the_program(pods: Pods) -> None:
    known = f"name == 'MOORING_CONTRACT' or {TOKEN!r} in value"
    code = f"import os; print([name for name, value in os.environ.items() if {known}])"
    process = pods.start(0, 1, argv=[sys.executable, "-c", code])
    assert process.wait(30) == 0
    assert pods.out(0).strip() == "[]"


def test_packed_variables_reach_the_program_whole(pods: Pods) -> None:
    value = ",".join(f"worker-{index}.j.svc" for index in range(500)) + " ä $x"
    code = "import os, sys; sys.exit(os.environ['A'] != sys.argv[1])"
    process = pods.start(
        0, 1, argv=[sys.executable, "-c", code, value], packed_env={"A": packed(value)}
    )
    assert process.wait(30) == 0
