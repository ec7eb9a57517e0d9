"""Where Mooring keeps what outlives a process: the runs of this user and the locks between them."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.model.errors import RunFailed


def state_home() -> Path:
    """`$MOORING_HOME`, otherwise `mooring` in the XDG state directory."""
    chosen = os.environ.get("MOORING_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = os.environ.get("XDG_STATE_HOME")
    base = Path(xdg) if xdg else Path.home() / ".local" / "state"
    return base / "mooring"


def runs_dir() -> Path:
    return _made(state_home() / "runs")


def cache_dir() -> Path:
    """What can be made again; it may be missing."""
    return state_home() / "cache"


def locks_dir() -> Path:
    return _made(state_home() / "locks")


def plan_lock() -> Path:
    """Held between looking at what others hold and saying what we hold."""
    return locks_dir() / "plan"


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise RunFailed(
            f"cannot keep runs in {folder}: {error.strerror} (set MOORING_HOME to another folder)"
        ) from error
    return folder
