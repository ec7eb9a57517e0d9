"""Launchers that are forked from one that has its imports done: real runs, real signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mooring.backends.local.fork_server import UNKNOWN_CODE, ForkServer
from mooring.backends.local.pack import kept_launcher
from mooring.record import RunRecord
from mooring.record.runs import open_run
from mooring.wire import read_journal
from mooring.wire.events import MemberChanged
from support.moor import Moor, leftovers, processes_of, write_job
from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork servers are Linux's")

#: Waits for a file in its folder, then ends with the code that stands there.
_WAITS = (
    "import os, sys, time\n"
    "path = os.path.join(sys.argv[1], os.environ['MOORING_MEMBER'])\n"
    "while not os.path.exists(path): time.sleep(0.01)\n"
    "sys.exit(int(open(path).read()))\n"
)


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


@contextmanager
def running(
    moor: Moor, tmp_path: Path, **spec: object
) -> Iterator[tuple[subprocess.Popen[str], RunRecord]]:
    """A run of two members that wait for `tell`."""
    job = write_job(
        tmp_path,
        framework="indexed",
        command=[sys.executable, "-c", _WAITS, str(tmp_path)],
        roles={"worker": {"replicas": 2}},
        **spec,
    )
    folder = tmp_path / "run"
    with moor.started("run", job, "-o", folder) as process:
        run = until(lambda: open_run(folder) if folder.exists() else None, "the run")
        until(lambda: len(launchers(run)) == 2 and len(programs(run)) == 2, "both members")
        yield process, run


def launchers(run: RunRecord) -> list[psutil.Process]:
    return [each for each in processes_of(run.info.id) if f"{run.launcher_file} run" in shown(each)]


def programs(run: RunRecord) -> list[psutil.Process]:
    return [each for each in processes_of(run.info.id) if "MOORING_MEMBER']" in shown(each)]


def shown(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def tell(tmp_path: Path, member: str, code: int) -> None:
    whole = tmp_path / f".{member}"
    whole.write_text(str(code))
    whole.rename(tmp_path / member)


def server_of(run: RunRecord) -> psutil.Process:
    parents = {each.ppid() for each in launchers(run)}
    assert len(parents) == 1
    return psutil.Process(parents.pop())


def exit_codes(run: RunRecord) -> dict[str, object]:
    return {
        change.member: change.exit_code
        for change in read_journal(run.events_file, MemberChanged)
        if change.exit_code is not None
    }


def test_launchers_are_forked_and_look_as_if_they_had_been_started(moor, tmp_path):
    with running(moor, tmp_path) as (process, run):
        server = server_of(run)
        assert shown(server).endswith(f"fork-server {shown(server).split()[-1]}")
        assert server.ppid() == process.pid
        members = {each.environ()["MOORING_MEMBER"] for each in launchers(run)}
        assert members == {"worker-0", "worker-1"}
        # Each leads a session of its own: a signal to one reaches no other.
        assert all(os.getsid(each.pid) == each.pid for each in launchers(run))
        for member in members:
            tell(tmp_path, member, 0)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert not server.is_running()
    assert not leftovers(run)


def test_exit_codes_are_those_of_the_programs(moor, tmp_path):
    with running(moor, tmp_path, failurePolicy={"restart": "never"}) as (process, run):
        tell(tmp_path, "worker-1", 3)
        process.communicate(timeout=30)
        assert process.returncode == 1
    assert exit_codes(run)["worker-1"] == 3


def test_a_run_outlives_its_fork_server(moor, tmp_path):
    with running(moor, tmp_path) as (process, run):
        server_of(run).kill()
        tell(tmp_path, "worker-0", 0)
        until(lambda: exit_codes(run).get("worker-0") == 0, "the end of worker-0")
        tell(tmp_path, "worker-1", 0)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert exit_codes(run) == {"worker-0": 0, "worker-1": 0}
    assert not leftovers(run)


def test_a_member_is_restarted_without_the_server(moor, tmp_path):
    policy = {"restart": "member", "maxRestarts": 2}
    with running(moor, tmp_path, failurePolicy=policy) as (process, run):
        server = server_of(run)
        server.kill()
        (before,) = [
            each for each in launchers(run) if each.environ()["MOORING_MEMBER"] == "worker-0"
        ]
        before.kill()
        again = until(
            lambda: [
                each
                for each in launchers(run)
                if each.pid != before.pid and each.environ().get("MOORING_MEMBER") == "worker-0"
            ],
            "another launcher",
        )
        assert again[0].ppid() == process.pid
        for member in ("worker-0", "worker-1"):
            tell(tmp_path, member, 0)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_nothing_is_left_when_moor_is_killed(moor, tmp_path):
    with running(moor, tmp_path) as (process, run):
        server, members = server_of(run), [*launchers(run), *programs(run)]
        process.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs([server, *members], timeout=30)
        assert not alive
    moor("clean")
    assert not leftovers(run)


@pytest.mark.parametrize(
    "said",
    [b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\5nojson", b"\0\0"],
    ids=["too long", "no document", "no JSON", "cut off"],
)
def test_a_server_ends_at_what_is_no_request(tmp_path, said):
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", kept_launcher(tmp_path), "fork-server"]
    with theirs:
        number = theirs.fileno()
        server = subprocess.Popen([*command, str(number), "-"], pass_fds=[number])
    with ours:
        ours.sendall(said)
        ours.shutdown(socket.SHUT_WR)
        assert server.wait(timeout=30) == 0


def test_a_request_without_descriptors_is_refused_and_the_server_goes_on(monkeypatch, tmp_path):
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    server = ForkServer.start()
    assert server is not None
    try:
        for _ in range(2):
            server._send({"launcher": "", "contract": "", "env": {}, "marks": {}}, [])
            assert server._receive() == {"trouble": "0 descriptors came with a request"}
    finally:
        server.close()


def test_a_server_that_is_gone_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    server = ForkServer.start()
    assert server is not None
    server._process.kill()
    server._process.wait()
    null = os.open(os.devnull, os.O_RDWR)
    with pytest.raises(OSError):
        server.launch(tmp_path, tmp_path, {}, (), null, null)
    os.close(null)
    assert server.gone
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert server.code_of(ended.pid) == UNKNOWN_CODE
    server.close()
