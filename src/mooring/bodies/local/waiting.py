"""Waiting for the first of several processes to end, without a loop of sleeps."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress


def wait_for_exit(pids: Sequence[int], timeout_s: float) -> None:
    """Return once one of the (child) processes has ended, or after `timeout_s`."""
    if not hasattr(os, "pidfd_open"):
        time.sleep(timeout_s)
        return
    poller = select.poll()
    fds: list[int] = []
    try:
        for pid in pids:
            # ProcessLookupError: already reaped; EMFILE: then the time-out alone wakes us.
            with suppress(OSError):
                fd = os.pidfd_open(pid)
                fds.append(fd)
                poller.register(fd, select.POLLIN)
        poller.poll(timeout_s * 1000)
    finally:
        for fd in fds:
            os.close(fd)
