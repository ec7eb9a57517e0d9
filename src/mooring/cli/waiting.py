"""Jobs of a cluster while somebody waits for them: a live table on a terminal, or plain lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.live import Live

from mooring.cli.console import console as make_console
from mooring.cli.say import say
from mooring.report.columns import Columns

if TYPE_CHECKING:
    from mooring.backends.kubernetes.client.submit import JobProgress

#: Lines about figures alone come no more often than this.
_LINE_EVERY_S = 5.0


class Waiting:
    """`show` is called with every change of a job."""

    def __init__(self, jobs: Sequence[str]) -> None:
        self._jobs = list(jobs)
        self._seen: dict[str, JobProgress] = {}
        self._line_due_s: dict[str, float] = {}
        self._console = make_console()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self._table(), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, job: str, progress: JobProgress) -> None:
        before = self._seen.get(job)
        self._seen[job] = progress
        if self._live is not None:
            self._live.update(self._table())
            return
        now_s = time.monotonic()
        news = before is None or _story(before) != _story(progress)
        if news or now_s >= self._line_due_s.get(job, 0.0):
            self._line_due_s[job] = now_s + _LINE_EVERY_S
            say(line(job if len(self._jobs) > 1 else "", progress))

    def interrupted(self, context: str | None) -> None:
        """What a person should know who turns away."""
        on = f" --context {context}" if context else ""
        for job in self._jobs:
            if job not in self._seen or self._seen[job].final:
                continue
            namespace, name = job.split("/", 1)
            where = f"{name} -n {namespace}{on}"
            say(f"{job} goes on; to see it: moor report {where}; to end it: moor stop {where}")

    def _table(self) -> Columns:
        rows = []
        for job in self._jobs:
            progress = self._seen.get(job)
            if progress is None:
                rows.append((job, "submitted", "", "", "", ""))
                continue
            rate, steps = progress.examples_per_s, progress.steps
            rows.append(
                (
                    job,
                    progress.phase,
                    progress.ready or "–",
                    "–" if steps is None else f"{steps:,}",
                    "–" if rate is None else f"{rate:,.0f}",
                    progress.message,
                )
            )
        names = ("job", "phase", "ready", "steps", "examples/s")
        return Columns.of_rows(names, rows, gives_way={"examples/s": 1}, detail="why")


def line(job: str, progress: JobProgress) -> str:
    """One line for a log file."""
    said = [f"{job}: " if job else "", progress.phase]
    if progress.ready:
        said.append(f" {progress.ready}")
    if progress.steps is not None:
        said.append(f", {progress.steps:,} steps")
    if progress.examples_per_s is not None:
        said.append(f", {progress.examples_per_s:,.0f} examples/s")
    if progress.message:
        said.append(f": {progress.message}")
    return "".join(said)


def _story(progress: JobProgress) -> tuple[str, str, str, int]:
    return progress.phase, progress.ready, progress.message, progress.restarts
