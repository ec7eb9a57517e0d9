"""Finding and ending every process of a run, also those that left their process group.

Each process of a run inherits MOORING_RUN in its environment; that mark survives setsid,
double forks and the death of the launcher. Where control groups exist they are asked first.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

RUN_VARIABLE = "MOORING_RUN"
MEMBER_VARIABLE = "MOORING_MEMBER"


def marked_processes(run_id: str | None, member: str | None = None) -> list[psutil.Process]:
    """The live processes of a run (any run if None), optionally of one member."""
    found = []
    mine = os.getpid()
    for pid in _candidates(run_id):
        if pid == mine:
            continue
        try:
            process = psutil.Process(pid)
            environment = process.environ()
            if (
                RUN_VARIABLE in environment
                and run_id in (None, environment[RUN_VARIABLE])
                and member in (None, environment.get(MEMBER_VARIABLE))
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except (psutil.Error, OSError, ValueError):
            continue
    return found


def _candidates(run_id: str | None) -> list[int]:
    """Processes whose environment may have the mark: on Linux one read each, elsewhere all."""
    if not sys.platform.startswith("linux"):
        return psutil.pids()
    mark = os.fsencode(f"{RUN_VARIABLE}={run_id or ''}")
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 (hundreds of names, not paths)
        if entry.isdigit():
            # Gone meanwhile, or of another user, whose environment nobody else may read.
            with suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:  # noqa: PTH123
                if mark in file.read():
                    found.append(int(entry))
    return found


def kill_marked(run_id: str, member: str | None = None, deadline_s: float = 5.0) -> int:
    """SIGKILL a run's processes until none is left; how many were found."""
    killed: set[int] = set()
    give_up = time.monotonic() + deadline_s
    while True:
        alive = marked_processes(run_id, member)
        if not alive or time.monotonic() > give_up:
            return len(killed)
        for process in alive:
            killed.add(process.pid)
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, timeout=1.0)


def signal_sessions(leaders: Iterable[int], signum: signal.Signals) -> None:
    """Send a signal to process groups by their leaders; the gone ones are fine."""
    for leader in leaders:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signum)
