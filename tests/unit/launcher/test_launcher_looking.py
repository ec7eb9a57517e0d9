"""States, system calls and what is waited at, of real processes; and records of looks at them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.launcher import frames, looking, looks, sockets, thread_states, trainers, waited_files
from mooring.launcher.loop import Loop
from mooring.launcher.machine import Machine, NetworkCard
from mooring.launcher.paths import Paths
from mooring.launcher.sources import SourceLines
from support.waiting import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@contextmanager
def running(text: str, folder: Path, *arguments: str) -> Iterator[int]:
    """A program that has printed a line."""
    program = folder / "p.py"
    program.write_text(textwrap.dedent(text))
    process = subprocess.Popen(
        [sys.executable, str(program), *arguments], stdout=subprocess.PIPE, cwd=folder
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def settled(pid: int, wanted: Callable[[looking.Place], bool]) -> looking.Place:
    process = looking.WatchedProcess(pid, waited_files.Files(), SourceLines())
    try:
        return until(
            lambda: next((one for one in [process.look([])] if one and wanted(one)), None),
            "it is seen so",
            10,
        )
    finally:
        process.close()


@pytest.mark.parametrize(
    ("text", "call", "at"),
    [
        ("import time; print(1, flush=True); time.sleep(60)", "sleep", ()),
        ("import select; print(1, flush=True); select.select([], [], [], 60)", "sleep", ()),
        ("import os; r, w = os.pipe(); print(1, flush=True); os.read(r, 1)", "read", ("pipe",)),
        (
            "import os, select; r, w = os.pipe(); p = select.poll(); p.register(r)\n"
            "print(1, flush=True); p.poll()",
            "poll",
            ("pipe",),
        ),
        (
            "import socket; a, b = socket.socketpair(); print(1, flush=True); a.recv(1)",
            "recv",
            ("local",),
        ),
        (
            "import select, socket; a, b = socket.socketpair(); e = select.epoll()\n"
            "e.register(a, select.EPOLLIN); print(1, flush=True); e.poll()",
            "epoll",
            ("local",),
        ),
        ("import threading; print(1, flush=True); threading.Event().wait()", "futex", ()),
        ("import os; print(1, flush=True); os.waitpid(os.fork() or os.pause(), 0)", "wait", ()),
    ],
)
def test_what_a_thread_waits_in_and_at(text: str, call: str, at: tuple[str, ...]) -> None:
    text = text.replace("os.pause()", "__import__('signal').pause()")
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        place = settled(process.pid, lambda one: one[0][1] == call)
        assert place[0][0] == "S"
        assert place[0][2] == at
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def test_who_computes_is_running_and_has_a_line(tmp_path: Path) -> None:
    text = """
        def f():
            print(1, flush=True)
            while True:
                sum(range(100))
        f()
    """
    with running(text, tmp_path) as pid:
        place = settled(pid, lambda one: one[0][0] == "R" and one[0][3][0][2] == 5)
    file, function, _, calls = place[0][3][0]
    assert (file, function) == ("p.py", "f")
    assert calls == ("sum", "range")


def test_a_thread_that_works_while_the_main_thread_waits(tmp_path: Path) -> None:
    text = """
        import threading
        def w():
            print(1, flush=True)
            while True:
                pass
        t = threading.Thread(target=w, daemon=True); t.start(); t.join()
    """
    with running(text, tmp_path) as pid:
        place = settled(pid, lambda one: one[1] == "thread")
    main, _, helper, busy, _ = place
    assert main[1] == "futex"
    assert helper is not None
    assert helper[0] == "R"
    assert helper[3][0][:2] == ("p.py", "w")
    assert busy == 1


def test_a_child_that_works_while_the_main_thread_waits(tmp_path: Path) -> None:
    text = """
        import multiprocessing as m
        def w(q):
            while True:
                pass
        q = m.get_context("fork").Queue()
        p = m.get_context("fork").Process(target=w, args=(q,), daemon=True); p.start()
        print(p.pid, flush=True)
        q.get()
    """
    program = tmp_path / "p.py"
    program.write_text(textwrap.dedent(text))
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    files, sources = waited_files.Files(), SourceLines()
    parent = looking.WatchedProcess(process.pid, files, sources)
    helper = looking.WatchedProcess(child, files, sources)
    try:
        place = until(
            lambda: next(
                (
                    one
                    for one in [parent.look([helper])]
                    if one and one[2] and one[2][3][:1] and one[2][3][0][:2] == ("p.py", "w")
                ),
                None,
            ),
            "the child is seen at its work",
            10,
        )
        assert place[1] == "process"
        assert not parent.waits_for_children()
    finally:
        parent.close()
        helper.close()
        process.kill()
        process.wait()
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_connections_are_named_by_the_member_at_the_other_end() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    try:
        port = listener.getsockname()[1]
        paths = Paths(
            sockets.PeerTraffic([("ps-0", "127.0.0.1", [port]), ("w-0", "127.0.0.1", [1])])
        )
        paths.look([os.getpid()])
        files = waited_files.Files()
        files.peers = paths.peers
        assert files.of(os.getpid(), [near.fileno()]) == ["peer:ps-0"]
        paths.changes()
        near.sendall(b"x" * 5000)
        until(lambda: paths.look([os.getpid()]) == {}, "all has been acknowledged", 5)
        assert paths.changes()["ps-0"]["sent"] == 5000
        # Nobody reads: what does not fit into the buffers is on its way.
        near.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                near.send(b"x" * 65536)
        assert paths.look([os.getpid()])["ps-0"] > 0
    finally:
        for one in (near, far, listener):
            one.close()


def test_a_file_is_named_by_its_file_system(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file:
        [kind] = waited_files.Files().of(os.getpid(), [file.fileno()])
    assert kind.startswith("file:")
    assert len(kind) > len("file:")


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/v/lib/python3.11/site-packages/torch/nn/functional.py", "~torch/nn/functional.py"),
        ("/usr/lib/python3.9/json/decoder.py", "~python/json/decoder.py"),
        ("<frozen importlib._bootstrap>", "~<frozen importlib._bootstrap>"),
        ("<string>", "<string>"),
        ("/home/me/job/src/train.py", "src/train.py"),
        ("/elsewhere/a/b/c/d.py", "b/c/d.py"),
        ("/x/launcher.pyz/mooring/inside/site.py", "~mooring/inside/site.py"),
        ("/home/me/mooring/train.py", "me/mooring/train.py"),
    ],
)
def test_names_of_files(file: str, shown: str) -> None:
    assert looking.short_name(file, "/home/me/job") == shown


def test_a_thread_that_has_ended_has_no_state() -> None:
    assert thread_states.read_state(os.getpid(), 1 << 22, None) is None


def test_processes_that_only_start_others_are_passed(tmp_path: Path) -> None:
    """sh → a Python that joins its child → the child, which trains."""
    text = """
        import multiprocessing as m, time
        def w():
            print(1, flush=True)
            while True:
                time.sleep(0.01)
        p = m.get_context("fork").Process(target=w, daemon=True); p.start(); p.join()
    """
    program = tmp_path / "p.py"
    program.write_text(textwrap.dedent(text))
    command = ["sh", "-c", f"{sys.executable} {program}; true"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None

    def only_waits(pid: int) -> bool:
        one = looking.WatchedProcess(pid, waited_files.Files(), SourceLines())
        try:
            return one.waits_for_children()
        finally:
            one.close()

    try:
        process.stdout.readline()

        def found() -> list[int]:
            own = os.getpid()
            below = {process.pid, *_below(process.pid)}
            return [one.pid for one in trainers.find(only_waits) if one.pid in below and own]

        def child() -> bool:
            [pid] = found() or [0]
            reader = frames.Reader(pid)
            stack = reader.stack(reader.threads().get(pid, 0))
            reader.close()
            return bool(stack) and stack[0].function == "w"

        until(child, "the child is the trainer", 10)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _below(pid: int) -> list[int]:
    from mooring.launcher import procfs

    return procfs.descendants(pid)


def test_records_are_bounded_and_say_what_was_seen(tmp_path: Path) -> None:
    written: list[tuple[str, dict[str, Any]]] = []
    text = """
        import time
        print(1, flush=True)
        def b():
            time.sleep(0.01)
        while True:
            b()
    """
    with running(text, tmp_path) as pid:
        loop = Loop()
        one = looks.LooksWriter(
            loop, lambda kind, told: written.append((kind, told)), None, NetworkCard([]), cpus=4.0
        )
        one.first_step()
        end_s = time.monotonic() + 20
        while time.monotonic() < end_s:
            loop.turn(time.monotonic() + 0.2)
            record = next((told for _, told in written if told["pid"] == pid), None)
            if record is not None and len(record["looks"]) >= 10:
                break
        one.stop()
        assert record is not None
    assert {kind for kind, _ in written} == {"looks"}
    assert len(json.dumps(record)) < 6000
    asleep = [
        number
        for number, place in enumerate(record["places"])
        if place["main"][:2] == ["S", "sleep"]
    ]
    seen = [row[1] for row in record["looks"]]
    assert sum(number in asleep for number in seen) > 0.5 * len(seen)
    assert ["p.py", "b", 5, ("time.sleep",)] in record["calls"]
    assert len(record["main"]) == 4


def test_whatever_goes_wrong_ends_the_looks_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(only_waits: object) -> None:
        raise ZeroDivisionError("strange")

    monkeypatch.setattr(trainers, "find", fails)
    written: list[dict[str, Any]] = []
    loop = Loop()
    one = looks.LooksWriter(
        loop, lambda kind, told: written.append(told), None, NetworkCard([]), cpus=4.0
    )
    end_s = time.monotonic() + 10
    while not written and time.monotonic() < end_s:
        loop.turn(time.monotonic() + 0.1)
    one.first_step()
    one.stop()
    assert written == [{"error": "ZeroDivisionError: strange"}]


@pytest.mark.parametrize("cpus", [0.04, 0.25, 0.5, 1.0, 2.0, 64.0])
def test_looks_of_all_members_together_take_little_of_the_cpus(cpus: float) -> None:
    # Members that share two CPUs: 2 / cpus of them. Together at most 1.5 % of the CPUs.
    members = 2 / cpus
    for closely in (True, False):
        assert looks.part_of_a_cpu(cpus, closely) * members <= (0.03 if closely else 0.01) + 1e-9
        assert 0 < looks.part_of_a_cpu(cpus, closely) <= 0.04


def test_the_machine_is_measured_in_differences() -> None:
    machine = Machine()
    told = machine.changes()
    assert told["cpus"] >= 1
    assert 0 <= told["busy_s"] <= (told["span_s"] + 1) * told["cpus"]
