"""What members, their programs and strangers say to launchers, and what launchers are given."""

from __future__ import annotations

import functools
import gzip
import io
import json
import select
import socket
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from fuzz.entry import entry
from mooring.backends.kubernetes.client.logs import parse_line
from mooring.launcher import agent, pod, wire
from mooring.launcher.book import Book
from mooring.launcher.contract import Contract
from mooring.launcher.errors import LaunchError
from mooring.launcher.logs import LineCutter
from mooring.launcher.steps import Steps

_CONTRACT = {
    "version": 1,
    "run": "a-1",
    "job": "a",
    "member": "worker-0",
    "role": "worker",
    "index": 0,
    "epoch": 0,
    "attempt": 0,
    "argv": ["true"],
    "env": {"A": "b"},
    "cwd": "/",
    "processes": [{"local_rank": 0, "env": {}}],
    "gate": "stdin",
    "cgroup_procs": [],
    "netns": None,
    "hosts_file": None,
    "cpus": [0],
    "exclusive": False,
    "cells": [],
    "cpu_millis": 1000,
    "memory_bytes": None,
    "gpus": None,
    "threads": "auto",
    "share_threads": 1,
    "peers": [{"member": "worker-0", "host": "localhost", "ports": [1]}],
    "resolve_timeout_s": 1.0,
    "steps": {"source": "auto", "pattern": None, "examples_per_step": 1},
    "log_path": "/dev/null",
    "sample_path": "/dev/null",
    "sample_interval_s": 1.0,
    "grace_s": 1.0,
    "agent": None,
    "watcher": None,
}


@entry(
    "contract",
    [json.dumps(_CONTRACT)],
    LaunchError,
    ValueError,
    RecursionError,
    group="launchers",
)
def contract(data: bytes) -> None:
    document = json.loads(data)
    if isinstance(document, dict):
        Contract(document)


@entry(
    "lines of a program",
    [
        b'step 3 loss 0.5\n\x1emooring {"step": 4, "examples": 32, "loss": 0.1}\n',
        b"Epoch 3/5\n 10/100 [==>] - ETA: 3s - loss: 0.5\n{'loss': 0.5, 'step': 7}\n",
        b"[1,100] loss: 2.3\niter 50 | loss 3.1 | 200 ms\nbad \xff line\r\r\n",
    ],
    group="launchers",
)
def program_lines(data: bytes) -> None:
    for pattern, guess in ((None, True), (r"step (?P<step>\d+)", False)):
        steps = Steps(lambda fields, t: None, pattern, 1, 1, lambda kind, fields: None, guess)
        lines = LineCutter(lambda each, steps=steps: steps.take(0, each))  # type: ignore[misc]
        for begin in range(0, len(data), 997):
            lines.feed(data[begin : begin + 997])
        lines.close()
        steps.flush(all_of_it=True)


@entry(
    "reports of a program",
    [b'\x1emooring {"step": 4, "examples": 32, "loss": 0.1, "total": 10}'],
    group="launchers",
)
def reports(data: bytes) -> None:
    from mooring.launcher.steps import MARK

    told: list[object] = []
    steps = Steps(lambda fields, t: told.append(fields), None, None, 1, lambda k, f: told.append(f))
    lines = [MARK + data.replace(b"\n", b" "), data + MARK + data]
    steps.take(0, [line.decode("utf-8", "replace").encode() for line in lines])
    steps.flush(all_of_it=True)
    json.dumps(told)


class _Loop:
    """Calls back what is ready, as the launcher's own does; no signals, no timers."""

    def __init__(self) -> None:
        self.calls: dict[int, tuple[Callable[[], None] | None, Callable[[], None] | None]] = {}

    def watch(
        self,
        fd: int,
        on_read: Callable[[], None] | None,
        on_write: Callable[[], None] | None = None,
    ) -> None:
        if on_read is None and on_write is None:
            self.calls.pop(fd, None)
        else:
            self.calls[fd] = (on_read, on_write)

    def at(self, when: float, call: Callable[[], None]) -> None:
        pass

    def turn(self) -> bool:
        reading = [fd for fd, (read, _) in self.calls.items() if read]
        writing = [fd for fd, (_, write) in self.calls.items() if write]
        ready = select.select(reading, writing, [], 0)
        for index, fds in enumerate(ready[:2]):
            for fd in fds:
                call = self.calls.get(fd, (None, None))[index]
                if call is not None:
                    call()
        return any(ready)


def _talk_to(loop: _Loop, port: int, data: bytes) -> None:
    """One connection that says this and goes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.setblocking(False)
        for begin in range(0, len(data), 30_000):
            try:
                connection.send(data[begin : begin + 30_000])
            except OSError:
                break
            while loop.turn():
                try:
                    connection.recv(1 << 16)
                except OSError:
                    continue
    while loop.turn():
        pass


def _port_of(owner: object) -> int:
    listener: socket.socket = owner._listener  # type: ignore[attr-defined]
    port: int = listener.getsockname()[1]
    return port


@functools.cache
def _meeting() -> tuple[_Loop, Book]:
    loop = _Loop()
    # The gate of pods, on any port that is free.
    meeting = {"port": 0, "leads": True, "members": 2, "token": "t" * 32}
    found = Contract({**_CONTRACT, "meeting": meeting})
    book = Book(found, loop, lambda: None)  # type: ignore[arg-type]
    return loop, book


@entry(
    "lines of a meeting",
    [
        b'{"run":"a-1","epoch":0,"member":"worker-1","attempt":0,"open":false,"token":"'
        + b"t" * 32
        + b'"}\n{"step":3,"cpus":[1]}\n{"record":{"kind":"sample","t":1.5}}\n',
        b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /history HTTP/1.1\r\n\r\n",
    ],
    group="launchers",
)
def meeting(data: bytes) -> None:
    loop, book = _meeting()
    _talk_to(loop, _port_of(book), data)
    book.status()
    book.history()


@entry(
    "records of a meeting",
    ['{"kind":"ready","attempt":0}', '{"kind":"sample","t":1.5,"attempt":0}', '{"kind":"exit"}'],
    ValueError,
    TypeError,
    RecursionError,
    group="launchers",
)
def records(data: bytes) -> None:
    record = dict(json.loads(data))
    _, book = _meeting()
    book.record("worker-0", record)
    book.record("worker-0", record)
    book.history()


@functools.cache
def _agent() -> tuple[_Loop, agent.RankServer]:
    loop = _Loop()
    made = agent.RankServer(loop, "127.0.0.1", 0, "t" * 32, {}, "/")  # type: ignore[arg-type]
    made.serve()
    return loop, made


@entry(
    "lines to the rank agent",
    [
        wire.frame(wire.REQUEST, b"m" * 32 + b'{"argv": ["true"]}'),
        wire.frame(wire.SIGNAL, b"\x0f"),
    ],
    group="launchers",
)
def rank_agent(data: bytes) -> None:
    loop, made = _agent()
    _talk_to(loop, _port_of(made), data)
    assert all(call.child is None for call in made.calls)
    assert len(made.calls) < 3


@entry(
    "frames", [wire.frame(b"o", b"text"), wire.frame(b"x", b"")], wire.Garbled, group="launchers"
)
def frames(data: bytes) -> None:
    inbox = wire.Inbox()
    for begin in range(0, len(data), 100):
        inbox.feed(data[begin : begin + 100])


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("train.py", "data/x"):
            item = tarfile.TarInfo(name)
            item.size = 4
            archive.addfile(item, io.BytesIO(b"text"))
    return gzip.compress(buffer.getvalue(), mtime=0)


@entry("archive of a job's files", [_archive()], LaunchError, OSError, group="launchers")
def archive(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        Path(folder, "files.tgz").write_bytes(data)
        try:
            pod._extract(str(Path(folder, "files.tgz")), str(home))
        finally:
            assert sorted(path.name for path in Path(folder).iterdir()) == ["files.tgz", "home"]


@entry("log line of a pod", ["2026-11-18T00:00:00.000000001Z step 1"], group="launchers")
def pod_log(data: bytes) -> None:
    parse_line(data, "worker-0")
