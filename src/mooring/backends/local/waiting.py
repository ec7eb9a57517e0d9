"""Waiting until a process ends or a launcher has something to say, without a loop of sleeps."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from contextlib import suppress

_MOST_RINGS = 4096


class Bell:
    """A pipe: launchers write a byte to its one end when they have written something to read.

    Both ends close by themselves with this process; `close` may be called twice.
    """

    def __init__(self) -> None:
        self._listening, self.rope = os.pipe()
        os.set_blocking(self._listening, False)
        # A launcher must never wait for us: it loses the byte of a pipe that is full.
        os.set_blocking(self.rope, False)

    def wait(self, pids: Sequence[int], descriptors: Sequence[int], timeout_s: float) -> None:
        """Return once it rang, once one of these processes has ended, once something can be read
        from a descriptor, or after `timeout_s`."""
        poller = select.poll()
        for listened in (self._listening, *descriptors):
            poller.register(listened, select.POLLIN)
        fds: list[int] = []
        try:
            for pid in pids if hasattr(os, "pidfd_open") else ():
                # ProcessLookupError: already reaped; EMFILE: then the time-out alone wakes us.
                with suppress(OSError):
                    fd = os.pidfd_open(pid)
                    fds.append(fd)
                    poller.register(fd, select.POLLIN)
            poller.poll(timeout_s * 1000)
        finally:
            for fd in fds:
                os.close(fd)
        with suppress(BlockingIOError):
            os.read(self._listening, _MOST_RINGS)

    def close(self) -> None:
        for fd in (self._listening, self.rope):
            if fd >= 0:
                os.close(fd)
        self._listening = self.rope = -1
