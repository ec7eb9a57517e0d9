"""The console that commands print to: a terminal's width, or wide enough for files and pipes."""

from __future__ import annotations

import sys

from rich.console import Console

#: Tables in a log file or a pipe are not cut to a window that nobody looks at.
_FILE_WIDTH = 180


def counted(number: int, thing: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)
