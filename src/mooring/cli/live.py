"""Showing a run while it runs: a live table on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from mooring.model.status import MemberState, Phase
from mooring.record import RunRecord
from mooring.report import text
from mooring.report.view import RunView

_REFRESH_S = 0.5
_LINE_EVERY_S = 5.0


class LiveView:
    """Call `start` when the run exists and `tick` often; it decides when to draw."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._view: RunView | None = None
        self._live: Live | None = None
        self._started_s = time.monotonic()
        self._due_s = 0.0
        self._line_due_s = 0.0
        self._told: dict[str, tuple[MemberState, int]] = {}
        self._phase: Phase | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self.draw()
            self._live.stop()

    @property
    def view(self) -> RunView | None:
        return self._view

    def start(self, run: RunRecord) -> None:
        self._view = RunView(run)
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop"
            )
            self._live.start()
        else:
            self._console.print(f"run {run.info.id} in {run.root}", soft_wrap=True, highlight=False)

    def tick(self) -> None:
        now_s = time.monotonic()
        if self._view is None or now_s < self._due_s:
            return
        self._due_s = now_s + _REFRESH_S
        self.draw()

    def draw(self) -> None:
        if self._view is None:
            return
        self._view.update()
        if self._live is not None:
            self._live.update(text.live(self._view, self._elapsed_s()), refresh=True)
        else:
            self._lines(self._view)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def _lines(self, view: RunView) -> None:
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
        now_s = time.monotonic()
        if now_s >= self._line_due_s and view.phase is Phase.RUNNING:
            self._line_due_s = now_s + _LINE_EVERY_S
            self._say(_progress_line(view))

    def _say(self, line: str) -> None:
        self._console.print(
            f"[{self._elapsed_s():6.1f}s] {line}", soft_wrap=True, highlight=False, markup=False
        )


def _progress_line(view: RunView) -> str:
    running = sum(member.state is MemberState.RUNNING for member in view.members.values())
    said = [f"{running}/{len(view.members)} members running"]
    if view.progress:
        said.append(f"{view.progress[0]:,}/{view.progress[1]:,} steps")
    if view.examples_per_s is not None:
        said.append(f"{view.examples_per_s:,.0f} examples/s")
    loss = next((m.last_loss for m in view.members.values() if m.last_loss is not None), None)
    if loss is not None:
        said.append(f"loss {loss:.4f}")
    return ", ".join(said)
