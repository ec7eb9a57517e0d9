"""Who owns what carries a run's token: asked before anything is cleaned away.

Runs are listed in their user's state home, but namespaces and control groups belong to the
whole machine. So a run that makes any leaves its process's name in one place for all, and its
members carry it in their environment.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil

from mooring.record.runs import process_is

OWNER_VARIABLE = "MOORING_OWNER"
_FOLDER = Path("/run/mooring")
_LONGEST_WRITE_S = 60.0


def name_of(pid: int, started_s: float) -> str:
    return f"{pid}:{started_s:.2f}"


def is_alive(owner: str) -> bool:
    """Whether the process that `name_of` named still exists."""
    pid, _, started = owner.partition(":")
    try:
        return process_is(int(pid), float(started))
    except ValueError:
        return False


def claim(token: str) -> None:
    """Say that this process owns the token, where all users of the machine can read it."""
    if os.geteuid() != 0:
        return
    me = psutil.Process()
    while True:
        # Whoever released the last claim may remove the folder in between; one that goes while
        # `mkdir` looks at it "exists".
        with suppress(FileNotFoundError, FileExistsError):
            _FOLDER.mkdir(exist_ok=True)
            (_FOLDER / token).write_text(name_of(me.pid, me.create_time()), encoding="ascii")
            return


def release(token: str) -> None:
    with suppress(OSError):
        (_FOLDER / token).unlink()
    with suppress(OSError):
        _FOLDER.rmdir()


def living_tokens() -> set[str]:
    """Tokens whose process is alive, whoever started it."""
    found = set()
    for token in _claimed():
        with suppress(OSError):
            owner = (_FOLDER / token).read_text(encoding="ascii")
            if is_alive(owner) if owner else _being_written(_FOLDER / token):
                found.add(token)
    return found


def dead_tokens() -> set[str]:
    claimed = _claimed()
    return claimed - living_tokens()


def _being_written(claim: Path) -> bool:
    """Is this empty claim one of a process that has just opened it, and not of one that died?"""
    return time.time() - claim.stat().st_mtime < _LONGEST_WRITE_S


def _claimed() -> set[str]:
    try:
        return {entry.name for entry in _FOLDER.iterdir()}
    except FileNotFoundError:
        return set()
