"""The consoles that commands print tables and coloured lines to.

Text in them comes from programs, users and clusters: none of it is markup, and control characters
in it are shown, not obeyed. Colours are given by styles, never by the text.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from mooring.report.printable import printable_lines

#: Tables in a log file or a pipe are not cut to a window that nobody looks at.
_FILE_WIDTH = 180


def counted(number: int, thing: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


class _Console(Console):
    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **more)

    def on_broken_pipe(self) -> None:
        """The caller decides what a reader that has left means; rich would end the program."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output any more")

    def render_str(self, text: str, **more: Any) -> Text:
        """Before rich drops what it knows of control characters: they are to be seen."""
        return super().render_str(printable_lines(text), **more)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable_lines(text), style)


def console(file: IO[str] | None = None, *, err: bool = False) -> Console:
    """To standard output, a file or standard error: as wide as the terminal, otherwise wide."""
    stream = sys.stderr if err else sys.stdout
    width = None if file is None and stream.isatty() else _FILE_WIDTH
    return _Console(file=file, stderr=err, width=width)


def plain_console() -> Console:
    """For a file that somebody may read later, whatever standard output is now."""
    return _Console(width=_FILE_WIDTH, color_system=None, force_terminal=False)


def recorded(*renderables: RenderableType) -> str:
    """What a console would print, as plain text."""
    kept = _Console(width=_FILE_WIDTH, record=True, quiet=True)
    for renderable in renderables:
        kept.print(renderable, soft_wrap=isinstance(renderable, str))
    return kept.export_text()
