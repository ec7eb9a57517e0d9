"""How a run ended, as `moor run` and `moor attach` say it, and the exit code that goes with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from rich.console import Console

from mooring.model.status import Phase
from mooring.record import RunRecord
from mooring.record.logs import LogLine, LogTail
from mooring.report import text
from mooring.report.figures import Report
from mooring.report.printable import printable

EXIT_INTERRUPTED = 130
#: Enough for a Python traceback's end; the rest is in `moor logs`.
_LAST_LINES = 15


def tell_end(
    console: Console,
    run: RunRecord,
    figures: Report,
    *,
    quiet: bool,
    showed: Callable[[Sequence[LogLine]], bool] = lambda lines: False,
) -> int:
    """Print the report, or with `quiet` one line of it; returns the command's exit code.

    `showed` tells whether lines stand on the screen just above: those are not repeated.
    """
    try:
        if figures.phase == Phase.FAILED.value:
            _last_words(console, run, figures, showed)
        if quiet:
            console.print(text.result_line(figures), soft_wrap=True)
        else:
            console.print(text.report(figures))
            console.print(f"run directory: {run.root}", style="dim", soft_wrap=True)
    except OSError:
        # A terminal that was closed, a reader that left: the exit code still says how it ended.
        silence(console)
    if figures.phase == Phase.SUCCEEDED.value:
        return 0
    return EXIT_INTERRUPTED if figures.phase == Phase.STOPPED.value else 1


def silence(console: Console) -> None:
    """Nobody can read what is printed from here on; printing must not fail for it."""
    console.quiet = True
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _last_words(
    console: Console,
    run: RunRecord,
    figures: Report,
    showed: Callable[[Sequence[LogLine]], bool],
) -> None:
    """What the first member that failed printed last: most often the answer to why."""
    failed = next((member for member in figures.members if member.state == "failed"), None)
    if failed is None:
        return
    log = LogTail(run.log_file(failed.member), failed.member)
    log.start_at_last(_LAST_LINES)
    lines = log.read(_LAST_LINES).lines
    if lines and not showed(lines):
        console.print(f"{failed.member} printed last:", style="bold")
        for line in lines:
            console.print(f"  {printable(line.text)}", soft_wrap=True)
        console.print()
