"""Who owns what carries a run's token: asked before anything is cleaned away.

Runs are listed in their user's state home, but namespaces and control groups belong to the
whole machine. So a run that makes any leaves its process's name in one place for all, and its
members carry it in their environment.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from mooring.record import process_mark

OWNER_VARIABLE = "MOORING_OWNER"
_FOLDER = Path("/run/mooring")
_LONGEST_WRITE_S = 60.0


def name_of(pid: int, mark: str) -> str:
    return f"{pid}:{mark}"


def is_dead(owner: str) -> bool:
    """Whether it is certain that the process that `name_of` named is gone; a name that makes no
    sense is nobody's."""
    pid, mark = _parts(owner)
    return pid > 0 and process_mark.is_dead(pid, mark)


def _parts(owner: str) -> tuple[int, str]:
    found = re.fullmatch(r"([1-9][0-9]{0,9}):(.{1,200})", owner)
    return (int(found[1]), found[2]) if found else (0, "")


def claim(token: str) -> None:
    """Say that this process owns the token, where all users of the machine can read it."""
    if os.geteuid() != 0:
        return
    name = name_of(os.getpid(), process_mark.mark_of(os.getpid()))
    while True:
        # Whoever released the last claim may remove the folder in between; one that goes while
        # `mkdir` looks at it "exists".
        with suppress(FileNotFoundError, FileExistsError):
            _FOLDER.mkdir(exist_ok=True)
            (_FOLDER / token).write_text(name, encoding="ascii")
            return


def release(token: str) -> None:
    with suppress(OSError):
        (_FOLDER / token).unlink()
    with suppress(OSError):
        _FOLDER.rmdir()


def living_tokens() -> set[str]:
    """Tokens whose process is not certainly gone, whoever started it: nobody can tell of one in
    another container that shares this folder."""
    found = set()
    for token in _claimed():
        with suppress(OSError):
            owner = (_FOLDER / token).read_text(encoding="ascii")
            if not is_dead(owner) if owner else _being_written(_FOLDER / token):
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
