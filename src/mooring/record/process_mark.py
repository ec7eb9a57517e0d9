"""Which process is meant, for as long as the machine is up: process ids are used again.

On Linux a process is marked by the boot, the pid namespace and the ticks since boot at which it
started: no step of the clock changes any of them. Elsewhere the kernel keeps the time of its start.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import psutil

_LINUX = sys.platform.startswith("linux")
#: Of marks that earlier versions made: unix seconds, by a clock that may have been set since.
_CLOCK_SLACK_S = 2.0


def mark_of(pid: int) -> str:
    """The mark of a process of this machine and pid namespace; '' if there is none."""
    if _LINUX:
        ticks = _start_ticks(pid)
        return f"{_boot_id()}/{own_pid_namespace()}/{ticks}" if ticks else ""
    try:
        return f"at/{psutil.Process(pid).create_time():.6f}"
    except psutil.Error:
        return ""


def is_alive(pid: int, mark: str) -> bool:
    """Whether `pid` is still the process that had this mark."""
    if "/" in mark:
        return pid > 0 and mark_of(pid) == mark
    try:
        process = psutil.Process(pid)
        near = abs(process.create_time() - float(mark)) < _CLOCK_SLACK_S
        return near and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return False


def is_dead(pid: int, mark: str) -> bool:
    """Whether it is certain that the process is gone.

    Nobody can tell of a process in another pid namespace (a container that shares the folder), nor
    of a mark that makes no sense.
    """
    if "/" in mark:
        boot, _, rest = mark.partition("/")
        if _LINUX and boot == _boot_id() and rest.partition("/")[0] != own_pid_namespace():
            return False
    else:
        try:
            float(mark)
        except ValueError:
            return False
    return not is_alive(pid, mark)


def of_this_boot(mark: str) -> bool:
    """Whether the process with this mark was started since the machine was; True where marks do not
    tell."""
    boot, slash, _ = mark.partition("/")
    return not (_LINUX and slash) or boot == _boot_id()


@cache
def own_pid_namespace() -> str:
    """Its number; '' where that cannot be read."""
    return pid_namespace("self")


def pid_namespace(pid: int | str) -> str:
    try:
        target = os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 (no path: pid:[4026531836])
    except OSError:
        return ""
    return "".join(filter(str.isdigit, target))


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "boot"


def _start_ticks(pid: int) -> int:
    """Ticks since boot, 0 if the process is gone or only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The name before the last bracket is the program's choice.
    state, *fields = text.rpartition(")")[2].split()
    return 0 if state in "ZX" else int(fields[18])
