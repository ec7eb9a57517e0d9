"""Launchers of a gang in pods: nobody starts before all are there, and nobody starts twice."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.bodies.kubernetes.contract import packed
from mooring.bodies.local.pack import build_launcher
from support.waiting import until

HELLO = [sys.executable, "-c", "print('hello', flush=True); import time; time.sleep(600)"]


class Pods:
    """Launchers started as containers of pods are, each with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = build_launcher(folder / "launcher.pyz")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, index: int, members: int, **changes: Any) -> subprocess.Popen[bytes]:
        home = self.folder / f"pod-{index}"
        home.mkdir(exist_ok=True)
        contract = {
            "version": 1,
            "run": "uid-1",
            "job": "j",
            "member": f"worker-{index}",
            "role": "worker",
            "index": index,
            "argv": HELLO,
            "cwd": "",
            "gate": "meeting",
            "meeting": {
                "host": "127.0.0.1",
                "port": self.port,
                "leads": index == 0,
                "members": members,
            },
            "peers": [{"member": f"worker-{i}", "host": "127.0.0.1"} for i in range(members)],
            "files_dir": str(home / "member"),
            "echo": True,
            "log_path": str(home / "log"),
            "sample_path": str(home / "samples.jsonl"),
            **changes,
        }
        process = subprocess.Popen(
            [sys.executable, str(self.launcher), "pod"],
            env={**os.environ, "MOORING_CONTRACT": json.dumps(contract)},
            stdin=subprocess.DEVNULL,
            stdout=(home / "out").open("ab"),
            stderr=(home / "err").open("ab"),
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def out(self, index: int, name: str = "out") -> str:
        path = self.folder / f"pod-{index}" / name
        return path.read_text() if path.exists() else ""

    def ready(self, index: int) -> bool:
        return '"kind":"ready"' in self.out(index, "samples.jsonl")

    def status(self, path: str = "status") -> dict[str, Any]:
        """What the leader answers; nothing is there while it does not."""
        url = f"http://127.0.0.1:{self.port}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as page:
                found: dict[str, Any] = json.load(page)
        except urllib.error.URLError:
            return {"there": [], "open": False, "members": {}}
        return found

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(30)


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

    wanted = {"ready", "variables", "sample", "step"}
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
    code = "import os; print(sorted(n for n in os.environ if n == 'MOORING_CONTRACT'), flush=True)"
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
