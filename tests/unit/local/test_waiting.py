"""Waiting ends when a launcher rings or a process ends, not when the time is over."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from mooring.backends.local.waiting import Bell

FOREVER_S = 300.0


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()
    bell.close()


def test_a_ring_ends_the_wait_once(bell: Bell) -> None:
    began_s = time.monotonic()
    ringer = subprocess.Popen(["echo"], stdout=bell.rope)
    bell.wait([], [], FOREVER_S)
    assert time.monotonic() - began_s < FOREVER_S
    ringer.wait()
    bell.wait([], [], 0)  # what came meanwhile
    began_s = time.monotonic()
    bell.wait([], [], 0.05)
    assert time.monotonic() - began_s >= 0.05


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux only: elsewhere time wakes us")
def test_the_end_of_a_process_ends_the_wait(bell: Bell) -> None:
    began_s = time.monotonic()
    process = subprocess.Popen(["true"])
    bell.wait([process.pid], [], FOREVER_S)
    assert time.monotonic() - began_s < FOREVER_S
    process.wait()


def test_a_launcher_never_waits_for_us(bell: Bell) -> None:
    with pytest.raises(BlockingIOError):
        for _ in range(1000):
            os.write(bell.rope, b"." * 4096)


def test_nothing_stays_open() -> None:
    bell = Bell()
    rope = bell.rope
    bell.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(rope)
