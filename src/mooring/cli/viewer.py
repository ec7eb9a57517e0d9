"""Showing the run of this process from a thread: whatever blocks the output, the run goes on.

What draws tables takes as long to import as all that starts a job. It is imported by the thread,
once the members' launchers have been started, while they start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console

    from mooring.cli.live import RunScreen
    from mooring.record import RunRecord
    from mooring.record.logs import LogLine


@dataclass(frozen=True)
class ViewOptions:
    """What a user wants to see of a run.

    `quiet`: only how it ended. `lines`: what members print; `only` these members, all if there are
    none; `last`: of what each has printed so far only so many lines.
    """

    quiet: bool = False
    lines: bool = True
    only: tuple[str, ...] = ()
    last: int | None = None


class Viewer:
    """One run on one console, which is made when it is first needed.

    Call `note` for what is said before the run's first line, `follow` when the run exists, and
    `tick` often once its launchers have been started; the first tick starts the thread. Leaving the
    context shows all that is left.
    """

    def __init__(self, console: Callable[[], Console], options: ViewOptions) -> None:
        self._console = console
        self._options = options
        self._notes: list[str] = []
        self._run: RunRecord | None = None
        self._screen: RunScreen | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        else:
            self._print_notes()

    def note(self, text: str) -> None:
        if not self._options.quiet:
            self._notes.append(text)

    def follow(self, run: RunRecord) -> None:
        self._run = run

    def tick(self) -> None:
        if self._thread is None and self._run is not None and not self._options.quiet:
            self._thread = threading.Thread(
                target=self._show, args=(self._run,), name="viewer", daemon=True
            )
            self._thread.start()

    def showed(self, lines: Sequence[LogLine]) -> bool:
        """Whether these lines are among the last that were shown."""
        return self._screen is not None and self._screen.showed(lines)

    def _show(self, run: RunRecord) -> None:
        from mooring.cli.ending import silence
        from mooring.cli.live import RunScreen, follow
        from mooring.cli.say import say

        try:
            self._print_notes()
            self._screen = RunScreen(self._console(), run, self._options)
            follow(self._screen, self._over.is_set, self._over.wait)
        except OSError as error:
            silence(self._console())
            with suppress(OSError):
                say(f"cannot show the run any more ({error}); it goes on", err=True)

    def _print_notes(self) -> None:
        notes, self._notes = self._notes, []
        for note in notes:
            self._console().print(note, style="dim", soft_wrap=True)
