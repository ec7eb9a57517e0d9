"""`rank COMMAND...`: what Open MPI's daemon calls in place of a rank's program (its fork agent).

One daemon serves all workers of a host, in the slot of the first of them. A rank of that worker
becomes the program itself. One of another worker is started by that worker's agent, in its slot
and with its variables; this process then stands for it: its output, its exit code, its signals.
"""

from __future__ import annotations

import json
import os
import resource
import signal

from . import children, procfs, rsh, wire
from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

SLOTS_VARIABLE = "MOORING_RANK_SLOTS"
LOCAL_RANK_VARIABLE = "OMPI_COMM_WORLD_LOCAL_RANK"
#: Of Open MPI and its parts: what they set for the daemon holds for its ranks too.
_OF_OPEN_MPI = ("OMPI_", "PMIX_", "OPAL_", "ORTE_")
#: mpirun may set them for the daemon's own programs and libraries (`--prefix`).
_SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")
_MOST_SLOTS_BYTES = 4 << 20


def main(words: list[str]) -> int:
    try:
        env = os.environ
        address = _agent_of(env)
        if address is None:
            return _become(words)
        request = {
            "argv": words,
            "cwd": os.getcwd(),
            "env": _of_rank(env, _environment_of(os.getppid())),
            "terminal": os.isatty(1),
        }
        host, port = address
        name = "the worker of local rank %s" % env[LOCAL_RANK_VARIABLE]
        code = rsh.call(name, host, port, rsh.token(), request)
    except LaunchError as error:
        rsh.complain(error.reason)
        return wire.FAILED
    if code > 128:
        _end_by(code - 128)
    return code


def _agent_of(env: Mapping[str, str]) -> tuple[str, int] | None:
    """Where the agent of the rank's worker listens; None for ranks of the daemon's own worker."""
    path, local_rank = env.get(SLOTS_VARIABLE, ""), env.get(LOCAL_RANK_VARIABLE, "")
    if not path or not local_rank.isdigit():
        return None
    try:
        with open(path, encoding="utf-8") as file:
            workers = json.loads(file.read(_MOST_SLOTS_BYTES))
        slots = [
            (at, str(host), int(port))
            for at, (host, port, processes) in enumerate(workers)
            for _ in range(int(processes))
        ]
        # More ranks than slots (`--oversubscribe`) begin again at the first.
        at, host, port = slots[int(local_rank) % len(slots)]
    except OSError as error:
        raise LaunchError("%s: %s" % (path, error.strerror)) from error
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise LaunchError("%s: not [[host, port, processes], ...]" % path) from error
    return (host, port) if at else None


def _of_rank(env: Mapping[str, str], daemons: Mapping[str, str]) -> dict[str, str]:
    """What the daemon set for this rank (also by `mpirun -x`), and what Open MPI told the daemon.

    The rest of `env` belongs to the daemon's worker.
    """
    return {
        name: value
        for name, value in env.items()
        if name.startswith(_OF_OPEN_MPI)
        or (name in _SEARCH_PATHS and value)
        or daemons.get(name) != value
    }


def _environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with."""
    pairs = procfs.read("/proc/%d/environ" % pid).split(b"\0")
    named = (os.fsdecode(pair).partition("=") for pair in pairs if b"=" in pair)
    return {name: value for name, _, value in named}


def _become(words: list[str]) -> int:
    children.restore_signals()
    try:
        os.execvp(words[0], words)
    except OSError as error:
        raise LaunchError("%s: %s" % (words[0], error.strerror)) from error


def _end_by(number: int) -> None:
    """End as the rank did, so that mpirun names the signal."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError):
        pass  # SIGKILL, or no signal at all: a program may end with any code
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    except (OSError, ValueError):
        pass
