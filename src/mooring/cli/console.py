"""The console that commands print to: a terminal's width, or wide enough for files and pipes."""

from __future__ import annotations

import errno
import sys

from rich.console import Console

#: Tables in a log file or a pipe are not cut to a window that nobody looks at.
_FILE_WIDTH = 180


def counted(number: int, thing: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """The caller decides what a reader that has left means; rich would end the program."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output any more")


def console() -> Console:
    return _Console(highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)


def plain_console() -> Console:
    """For a file that somebody may read later, whatever standard output is now."""
    return _Console(highlight=False, width=_FILE_WIDTH, color_system=None, force_terminal=False)
