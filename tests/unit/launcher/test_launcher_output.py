"""Reading a process's output: seldom while it is calm, at once when it matters, never out of order.

The pipes are real; the loop is turned by hand, so that no test waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from mooring.launcher.loop import Loop
from mooring.launcher.output import OutputStream


@dataclass
class HandLoop:
    """Calls back what the test says is readable or due."""

    watched: dict[int, Callable[[], None]] = field(default_factory=dict)
    timers: list[Callable[[], None]] = field(default_factory=list)

    def watch(self, fd: int, on_read: Callable[[], None] | None) -> None:
        if on_read is None:
            self.watched.pop(fd, None)
        else:
            self.watched[fd] = on_read

    def at(self, when: float, call: Callable[[], None]) -> None:
        self.timers.append(call)

    def ring(self) -> None:
        """All timers are due."""
        due, self.timers = self.timers, []
        for call in due:
            call()


@dataclass
class Pipe:
    """One stream with the end that the process would hold."""

    loop: HandLoop
    stream: OutputStream
    read_end: int
    write_end: int

    def says(self, text: str) -> None:
        os.write(self.write_end, text.encode() + b"\n")

    def is_watched(self) -> bool:
        return self.read_end in self.loop.watched

    def becomes_readable(self) -> None:
        self.loop.watched[self.read_end]()

    def ends(self) -> None:
        os.close(self.write_end)
        self.write_end = -1


@dataclass
class Process:
    loop: HandLoop
    out: Pipe
    err: Pipe
    said: list[str]


@pytest.fixture
def process() -> Iterator[Process]:
    loop = HandLoop()
    said: list[str] = []

    def pipe(name: str) -> Pipe:
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)

        def deliver(lines: list[bytes]) -> None:
            said.extend(f"{name} {line.decode()}" for line in lines)

        return Pipe(loop, OutputStream(cast(Loop, loop), read_end, deliver), read_end, write_end)

    out, err = pipe("out"), pipe("err")
    out.stream.sibling, err.stream.sibling = err.stream, out.stream
    yield Process(loop, out, err, said)
    for one in (out, err):
        if one.write_end >= 0:
            os.close(one.write_end)
        if not one.stream.closed:
            os.close(one.read_end)


def test_lines_that_come_one_by_one_are_read_together(process: Process) -> None:
    process.out.says("step 1")
    process.out.becomes_readable()
    assert process.said == ["out step 1"]

    process.out.says("step 2")
    process.out.says("step 3")
    assert not process.out.is_watched()

    process.loop.ring()
    process.out.becomes_readable()
    assert process.said == ["out step 1", "out step 2", "out step 3"]


def test_a_stream_that_writes_a_lot_is_read_without_rests(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer must never wait for a reader that rests: 60 kB in 0.1 s is too much for rests."""
    clock = SimpleNamespace(monotonic=iter([100.0, 100.1]).__next__)
    monkeypatch.setattr("mooring.launcher.output.time", clock)
    process.out.says("x" * 30_000)
    process.out.becomes_readable()
    process.loop.ring()
    process.out.says("y" * 60_000)
    process.out.becomes_readable()

    assert process.out.is_watched()


def test_lines_on_the_other_stream_come_after_those_that_led_to_them(process: Process) -> None:
    process.out.says("loading")
    process.out.becomes_readable()
    process.out.says("about to divide")
    process.err.says("ZeroDivisionError")
    process.err.becomes_readable()

    assert process.said == ["out loading", "out about to divide", "err ZeroDivisionError"]


def test_what_an_ended_process_wrote_last_is_read_without_waiting(process: Process) -> None:
    process.out.says("first")
    process.out.becomes_readable()
    process.out.says("last")
    process.out.ends()

    process.out.stream.hurry()
    process.out.becomes_readable()
    assert not process.out.stream.closed
    process.out.becomes_readable()

    assert process.out.stream.closed
    assert process.said == ["out first", "out last"]


def test_a_timer_that_outlives_its_stream_does_nothing(process: Process) -> None:
    process.out.says("only")
    process.out.becomes_readable()
    process.out.ends()
    process.err.says("other")
    process.err.becomes_readable()
    assert process.out.stream.closed

    process.loop.ring()

    assert not process.out.is_watched()
