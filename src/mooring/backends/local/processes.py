"""Finding and ending every process of a run, also those that left their process group.

Each process of a run inherits MOORING_RUN and MOORING_OWNER in its environment; those marks survive
setsid, double forks and the death of the launcher. Where control groups exist they are asked first.
Anybody can put a mark into the environment of a process of their own: a mark alone says nothing
about any other process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

import psutil

from mooring.backends.local import owners
from mooring.record import process_mark

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


def owned_processes(run_id: str, owner: str, member: str | None = None) -> list[psutil.Process]:
    """The live processes of a run that have this supervisor, by its name (`owners.name_of`)."""
    return [each for each in marked_processes(run_id, member) if owner_of(each) == owner]


def owner_of(process: psutil.Process) -> str | None:
    """The name of its supervisor; None without one, as of members in pods on this machine."""
    try:
        return process.environ().get(owners.OWNER_VARIABLE)
    except (psutil.Error, OSError, ValueError):
        return None


def left_processes(
    run_id: str | None, uids: Mapping[str, int] = MappingProxyType({})
) -> list[psutil.Process]:
    """Processes whose own supervisor is certainly dead; uids: run -> its owner, where known.

    Only those that are wholly one user's count: what a program of another user was lent is not the
    run's. So do only those of this pid namespace: a container's have their supervisor there.
    """
    return [each for each in marked_processes(run_id) if _is_left(each, uids)]


def _is_left(process: psutil.Process, uids: Mapping[str, int]) -> bool:
    owner = owner_of(process)
    if owner is None or not owners.is_dead(owner):
        return False
    try:
        run_id, user = process.environ()[RUN_VARIABLE], process.uids()
    except (psutil.Error, OSError, KeyError):
        return False
    if {user.real, user.effective, user.saved} != {uids.get(run_id, user.real)}:
        return False
    return process_mark.pid_namespace(process.pid) == process_mark.own_pid_namespace()


def kill_until_none(find: Callable[[], list[psutil.Process]], deadline_s: float = 5.0) -> int:
    """SIGKILL what is found until nothing is; how many there were."""
    killed: set[int] = set()
    give_up = time.monotonic() + deadline_s
    while True:
        alive = find()
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
