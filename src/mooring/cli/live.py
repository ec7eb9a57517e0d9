"""Showing a run while it runs: members' lines, and below them a live table on a terminal.

All of it is read from the run's folder, so that `moor run` shows its own run by the same code as
`moor attach` shows any. What cannot be shown (a closed terminal, a reader that left) never harms
the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from mooring.cli.member_lines import MemberLines
from mooring.cli.viewer import ViewOptions
from mooring.model.status import MemberState, Phase
from mooring.record import RunRecord
from mooring.record.logs import LogLine
from mooring.report import text
from mooring.report.eta import Eta, about
from mooring.report.view import RunView

_POLL_S = 0.25
_REFRESH_S = 0.5
_LINE_EVERY_S = 5.0
#: Of a terminal's rows: the table's head and what stands around it, and some lines above.
_ROWS_FOR_LINES = 14
_LEAST_ROWS = 3


class RunScreen:
    """One run on one console. Call `tick` often; it decides when to draw."""

    def __init__(self, console: Console, run: RunRecord, options: ViewOptions) -> None:
        self.view = RunView(run)
        self._console = console
        self._run = run
        self._options = options
        self._terminal = on_terminal(console)
        self._lines = MemberLines(run, terminal=self._terminal, last=options.last)
        self._live: Live | None = None
        self._eta = Eta()
        self._draw_due_s = 0.0
        self._progress_due_s = 0.0
        self._told: dict[str, tuple[MemberState, int]] = {}
        self._phase: Phase | None = None
        self._stall = ""

    def __enter__(self) -> Self:
        if self._options.quiet:
            return self
        if self._terminal:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                vertical_overflow="crop",
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        else:
            run = self._run
            self._console.print(f"run {run.info.id} in {run.root}", soft_wrap=True, highlight=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()

    def tick(self, *, last: bool = False) -> None:
        now_s = time.monotonic()
        due = last or now_s >= self._draw_due_s
        members = self.view.members.values()
        if due or any(member.running_s is None for member in members):
            # Before the lines: who runs by now has told how many processes it has, who has ended
            # has all its lines in its log.
            self.view.update()
        if due:
            self._draw_due_s = now_s + _REFRESH_S
        if self._options.quiet:
            return
        if self._options.lines:
            self._print_lines(last)
        if not due:
            return
        if self._live is not None:
            rows = max(_LEAST_ROWS, self._console.height - _ROWS_FOR_LINES)
            table = text.live(self.view, self._elapsed_s(), self._left_s(), rows)
            self._live.update(table, refresh=True)
        else:
            self._print_changes(self.view)

    def showed(self, lines: Sequence[LogLine]) -> bool:
        """Whether these lines are among the last that were shown."""
        return self._options.lines and not self._options.quiet and self._lines.showed(lines)

    def _elapsed_s(self) -> float:
        return time.time() - self._run.info.created_s

    def _left_s(self) -> float | None:
        now_s = time.time()
        return self._eta.left_s(now_s, self.view.left_s(now_s))

    def _print_lines(self, last: bool) -> None:
        processes = {name: member.processes for name, member in self.view.members.items()}
        only = self._options.only
        chosen = [name for name in processes if not only or name in only]
        lines = self._lines.read(chosen, processes, last=last)
        if lines is not None:
            self._console.print(lines, end="", crop=False, soft_wrap=True, highlight=False)

    def _print_changes(self, view: RunView) -> None:
        for member in view.members.values():
            now = (member.state, member.attempt)
            before = self._told.get(member.name, (MemberState.WAITING, 0))
            if now != before:
                self._told[member.name] = now
                where = f" on {member.node}, CPUs {member.cpus}" if member.state.alive else ""
                code = f" (exit {member.exit_code})" if member.exit_code is not None else ""
                why = f": {member.reason}" if member.reason else ""
                self._say(f"{member.name} {member.state.value}{where}{code}{why}")
        if view.phase is not self._phase:
            self._phase = view.phase
            self._say(f"job {view.phase.value}" + (f": {view.reason}" if view.reason else ""))
        if view.stall != self._stall:
            self._stall = view.stall
            if view.stall:
                for line in (view.stall, *(f"  {one}" for one in view.stall_processes)):
                    self._say(line)
            elif view.phase is Phase.RUNNING:
                self._say("steps are made again")
        now_s = time.monotonic()
        if now_s >= self._progress_due_s and view.phase is Phase.RUNNING:
            self._progress_due_s = now_s + _LINE_EVERY_S
            self._say(_progress_line(view, self._left_s()))

    def _say(self, line: str) -> None:
        self._console.print(f"[{self._elapsed_s():6.1f}s] {line}", soft_wrap=True, highlight=False)


def follow(screen: RunScreen, over: Callable[[], bool], pause: Callable[[float], object]) -> None:
    """Show a run until `over`, then what is left of it."""
    with screen:
        last = False
        while not last:
            last = over()
            screen.tick(last=last)
            if not last:
                pause(_POLL_S)


def on_terminal(console: Console) -> bool:
    """Whether a person looks at a terminal that can move its cursor (FORCE_COLOR is none), and
    nobody else writes there: a shell does while we run in its background.
    """
    if not console.file.isatty() or console.is_dumb_terminal:
        return False
    try:
        return os.tcgetpgrp(console.file.fileno()) == os.getpgrp()
    except OSError:
        return True


def _progress_line(view: RunView, left_s: float | None) -> str:
    running = sum(member.state is MemberState.RUNNING for member in view.members.values())
    said = [f"{running}/{len(view.members)} members running"]
    if view.progress:
        said.append(f"{view.progress[0]:,}/{view.progress[1]:,} steps")
    if view.waits_for:
        said.append(f"work done, waiting for {text.listed(view.waits_for)} to end")
    elif view.examples_per_s is not None:
        said.append(f"{view.examples_per_s:,.0f} examples/s")
    elif view.steps_per_s:
        said.append(f"{view.steps_per_s:.3g} steps/s")
    loss = next((m.last_loss for m in view.members.values() if m.last_loss is not None), None)
    if loss is not None:
        said.append(f"loss {loss:.4f}")
    if left_s is not None:
        said.append(f"{about(left_s)} left")
    return ", ".join(said)
