"""A run that a program has started: look at it, stop it, wait for it.

The run lives in a thread of this process, so a program can have several, and a notebook stays free.
Signals are the program's own: only the main thread could take them, and it has other things to do.
"""

from __future__ import annotations

import atexit
import heapq
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from mooring.model.errors import BadInput
from mooring.model.status import Phase
from mooring.record import RunRecord, Tail
from mooring.record.logs import LogLine, parse_log_line, read_log
from mooring.report.figures import Report
from mooring.report.finish import read_report, write_report
from mooring.report.progress import Progress, progress_of
from mooring.report.view import RunView
from mooring.run_loop import RunEnd

_BY_PROGRAM = "stopped by the program"
_BY_OTHERS = "asked to stop"
_FOLLOW_POLL_S = 0.2

#: What carries the run out: called in the run's thread with `on_start` and `stop_when`.
CarryOut = Callable[[Callable[[RunRecord], None], Callable[[], str | None]], RunEnd]


@dataclass(frozen=True)
class RunResult:
    """How a run ended, its figures, and where its files are."""

    phase: str
    reason: str
    report: Report = field(repr=False)
    directory: Path

    @property
    def succeeded(self) -> bool:
        return self.phase == Phase.SUCCEEDED.value


def result_of(result: RunEnd) -> RunResult:
    report = write_report(result.run)
    return RunResult(result.phase.value, result.reason, report, result.run.root)


class StopRequests:
    """What the run is asked: to stop, and with a second request not to wait for its members.

    Asked by the program, or by `moor stop`, which leaves a file for a run in a program's process.
    """

    def __init__(self) -> None:
        self.run: RunRecord | None = None
        self._reason: str | None = None
        self._now = False
        self._taken = False

    def ask(self, reason: str, *, now: bool = False) -> None:
        self._reason = self._reason or reason
        self._now = self._now or now

    def take(self) -> str | None:
        """Why the run is to stop; another reason than the last time is a second request."""
        if self.run is not None:
            with suppress(OSError):
                text = self.run.stop_file.read_text(encoding="utf-8")
                self.ask(_BY_OTHERS, now=text.startswith("now"))
        if self._now and self._taken:
            return f"{self._reason}, without grace"
        self._taken = self._reason is not None
        return self._reason


class Run:
    """Made by `mooring.start`. As a context manager it stops the run at the end of the block."""

    def __init__(self, carry_out: CarryOut, name: str) -> None:
        """Returns once the run has begun; raises what kept it from that."""
        self._carry_out = carry_out
        self._record: RunRecord | None = None
        self._outcome: RunResult | None = None
        self._error: BaseException | None = None
        self._stops = StopRequests()
        self._begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"mooring {name}", daemon=True)
        _LIVING.add(self)
        self._thread.start()
        try:
            self._begun.wait()
        except BaseException:
            self.stop()
            raise
        if self._record is None:
            self._thread.join()
            assert self._error is not None
            raise self._error

    @property
    def id(self) -> str:
        """What `moor` calls it: `moor logs ID`, `moor report ID`."""
        return self.record.info.id

    @property
    def directory(self) -> Path:
        return self.record.root

    @property
    def record(self) -> RunRecord:
        assert self._record is not None
        return self._record

    @property
    def report(self) -> Report:
        """The figures as far as the run has come."""
        return read_report(self.record)

    @property
    def progress(self) -> Progress:
        """How far it is now."""
        view = RunView(self.record)
        view.update()
        return progress_of(view)

    def watch(self, every_s: float = 1.0) -> Iterator[Progress]:
        """How far it is, now and then until its end; the last value is of the end."""
        view = RunView(self.record)
        while True:
            over = self._over.is_set()
            view.update()
            yield progress_of(view)
            if over:
                return
            self._over.wait(every_s)

    def logs(
        self, member: str | None = None, *, follow: bool = False, last: int | None = None
    ) -> Iterator[LogLine]:
        """What members printed, by time: `at` (UTC), `member`, `text`.

        `member` is the name of one or of a role; `last` lines of each; with `follow` until the end.
        """
        view = RunView(self.record)
        view.update()
        names = [
            each.name for each in view.members.values() if member in (None, each.name, each.role)
        ]
        if not names:
            accepted = f"one of {', '.join(view.members)}, or a role"
            raise BadInput.at("logs", "member", repr(member), accepted)
        files = {name: self.record.log_file(name) for name in names}
        if follow and last is None:
            return self._follow(files)
        return heapq.merge(*(read_log(path, name, last) for name, path in files.items()))

    def _follow(self, files: dict[str, Path]) -> Iterator[LogLine]:
        tails = {name: Tail(path) for name, path in files.items()}
        while True:
            over = self._over.is_set()
            fresh: list[LogLine] = []
            for name, tail in tails.items():
                while texts := tail.read_text():
                    fresh += [parse_log_line(text, name) for text in texts]
            yield from sorted(fresh)
            if over and not fresh:
                return
            self._over.wait(_FOLLOW_POLL_S)

    def stop(self, *, now: bool = False) -> None:
        """Ask the run to stop: members get SIGTERM, their grace period, then SIGKILL.

        `now`: SIGKILL at once. Does not wait: `wait` does. Harmless when it has ended.
        """
        self._stops.ask(_BY_PROGRAM, now=now)

    def wait(self, timeout_s: float | None = None) -> RunResult:
        """How it ended. Raises TimeoutError, or what went wrong in carrying the run out."""
        if not self._over.wait(timeout_s):
            raise TimeoutError(f"{self.id} has not ended within {timeout_s} s")
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._thread.join()

    def __repr__(self) -> str:
        return f"<mooring.Run {self.id}: {self.progress}>"

    def _work(self) -> None:
        try:
            self._outcome = result_of(self._carry_out(self._has_begun, self._stops.take))
        except BaseException as error:
            self._error = error
        finally:
            _LIVING.discard(self)
            self._over.set()
            self._begun.set()

    def _has_begun(self, run: RunRecord) -> None:
        self._record = self._stops.run = run
        self._begun.set()


_LIVING: weakref.WeakSet[Run] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """The program ends: so do its runs, cleanly."""
    living = list(_LIVING)
    for run in living:
        run.stop()
    for run in living:
        run._thread.join()
