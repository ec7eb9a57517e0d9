"""Recognising steps in what a training writes, and passing them on a few times a second.

The SDK's own lines always count and are not copied to the log. For programs that Mooring must not
change there is a pattern of the user's, or what most scripts print anyway (`common_lines`).
"""

from __future__ import annotations

import json
import math
import re
import signal
import time

from .common_lines import CommonLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MARK = b"::mooring:: "
_MARK = MARK.decode("ascii")
_SPACE = re.compile("[ \t]*")
_DECODE = json.JSONDecoder().raw_decode
LINES_PER_SECOND = 5
#: Documents that are no steps: what they carry, and as what.
_TOLD = (("variables", list), ("program", dict))
# A pattern of the user's can take exponential time on a line that nearly matches.
_SEARCHED_CHARACTERS = 4096
_PATIENCE_S = 0.5


class StepReport:
    """One report of progress; each part may be unknown."""

    def __init__(
        self,
        step: int | None = None,
        examples: int | None = None,
        loss: float | None = None,
        total: int | None = None,
    ) -> None:
        self.step = step
        self.examples = examples
        self.loss = loss
        self.total = total


class Steps:
    """Takes the reports of all local ranks out of their lines and writes them coalesced."""

    def __init__(
        self,
        write: Callable[[dict[str, Any], float], None],
        pattern: str | None,
        examples_per_step: int | None,
        ranks: int,
        write_told: Callable[[str, dict[str, Any]], object] | None = None,
        guess: bool = False,
    ) -> None:
        """`guess`: take common lines for steps, as long as the program says nothing itself."""
        self._write = write
        self._write_told = write_told
        self._pattern: re.Pattern[str] | None = None
        if pattern is not None:
            self._pattern = re.compile(pattern)
        self._examples_per_step = examples_per_step
        self._interval_s = max(1, ranks) / float(LINES_PER_SECOND)
        self._pending: dict[int, _Pending] = {}
        self._last_step: dict[int, int] = {}
        self._due: dict[int, float] = {}
        self._with_loss: set[int] = set()
        self._guess = guess
        self._common: dict[int, CommonLines] = {}
        self.gave_up = False

    def take(self, rank: int, lines: list[bytes]) -> list[bytes]:
        """Counts the reports in `lines` and returns what belongs into the log."""
        if any(MARK in line for line in lines):
            lines = [kept for line in lines for kept in self._sdk(rank, line)]
        if self._pattern is not None:
            self._search(rank, lines)
        elif self._guess:
            self._read_common(rank, lines)
        return lines

    def flush(self, all_of_it: bool = False) -> float | None:
        """Writes what is due; returns when (monotonic) more will be, if anything waits."""
        now = time.monotonic()
        waiting = []
        for rank in list(self._pending):
            due = self._due[rank]
            if all_of_it or due <= now:
                self._write_pending(rank, now)
            else:
                waiting.append(due)
        return min(waiting) if waiting else None

    def _sdk(self, rank: int, line: bytes) -> list[bytes]:
        """Takes out every mark, with its report; what stood around one are lines of their own.

        Where several processes share a pipe (mpirun merges those of its ranks), a report may
        follow half a line of another one.
        """
        if MARK not in line:
            return [line]
        text = line.decode("utf-8")
        kept = []
        begin = at = 0
        while True:
            mark = text.find(_MARK, at)
            if mark < 0:
                break
            fields, at = _document(text, mark + len(_MARK))
            if fields is None:
                continue
            kept.append(text[begin:mark])
            begin = at
            if self._told(rank, fields):
                continue
            report = StepReport(
                _whole(fields.get("step")),
                _whole(fields.get("examples")),
                _real(fields.get("loss")),
                _whole(fields.get("total")),
            )
            self._guess = False
            self._add(rank, report)
        kept.append(text[begin:])
        return [piece.encode("utf-8") for piece in kept if piece.strip()]

    def _told(self, rank: int, fields: dict[str, Any]) -> bool:
        """What is said of a model's variables or of the program goes into the samples as it is."""
        for kind, shape in _TOLD:
            if isinstance(fields.get(kind), shape):
                if self._write_told is not None:
                    self._write_told(kind, {"r": rank, kind: fields[kind]})
                return True
        return False

    def _read_common(self, rank: int, lines: list[bytes]) -> None:
        reader = self._common.get(rank)
        if reader is None:
            reader = self._common[rank] = CommonLines()
        for line in lines:
            fields = reader.read(line)
            if fields is not None:
                report = StepReport(
                    fields["step"], None, _real(fields["loss"]), _whole(fields.get("total"))
                )
                self._add(rank, report)

    def _search(self, rank: int, lines: list[bytes]) -> None:
        assert self._pattern is not None
        names = self._pattern.groupindex
        reports = []
        try:
            with _Patience(_PATIENCE_S):
                for line in lines:
                    match = self._pattern.search(line.decode("utf-8")[:_SEARCHED_CHARACTERS])
                    if match is None:
                        continue
                    found = {name: match.group(name) for name in names}
                    report = StepReport(
                        _whole(found.get("step")),
                        _whole(found.get("examples")),
                        _real(found.get("loss")),
                        _whole(found.get("total")),
                    )
                    reports.append(report)
        except _TooSlow:
            self._pattern = None
            self.gave_up = True
        # Outside, because the alarm could cut off what writes.
        for report in reports:
            self._add(rank, report)

    def _add(self, rank: int, report: StepReport) -> None:
        if report.examples is None and self._examples_per_step is not None:
            # A program that reports each hundredth step has done a hundred since the last report.
            # The first report, or one that goes back (a restart), counts for one step.
            done = 1
            last = self._last_step.get(rank)
            if report.step is not None and last is not None and report.step > last:
                done = report.step - last
            report.examples = done * self._examples_per_step
        if report.step is not None:
            self._last_step[rank] = report.step
        pending = self._pending.get(rank)
        if pending is None:
            pending = self._pending[rank] = _Pending()
        pending.add(report)
        # The first values are what later ones are compared with: they are not summed up.
        first_loss = report.loss is not None and rank not in self._with_loss
        if first_loss:
            self._with_loss.add(rank)
        if first_loss or rank not in self._due:
            self._write_pending(rank, time.monotonic())

    def _write_pending(self, rank: int, now: float) -> None:
        pending = self._pending.pop(rank)
        self._write(pending.fields(rank), pending.t)
        self._due[rank] = now + self._interval_s


class _Pending:
    """The reports of one rank since its last line: latest values, summed examples, count."""

    def __init__(self) -> None:
        self.t = 0.0
        self._latest = StepReport()
        self._count = 0

    def add(self, report: StepReport) -> None:
        self.t = time.time()
        self._count += 1
        latest = self._latest
        if report.examples is not None:
            latest.examples = report.examples + (latest.examples or 0)
        latest.step = latest.step if report.step is None else report.step
        latest.loss = latest.loss if report.loss is None else report.loss
        latest.total = latest.total if report.total is None else report.total

    def fields(self, rank: int) -> dict[str, Any]:
        latest = self._latest
        return {
            "r": rank,
            "step": latest.step,
            "examples": latest.examples,
            "loss": latest.loss,
            "total": latest.total,
            "n": self._count,
        }


class _TooSlow(Exception):
    pass


class _Patience:
    """Interrupts what uses more CPU time: matching polls for signals and lets a handler raise."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed = False

    def __enter__(self) -> None:
        signal.signal(signal.SIGVTALRM, self._rang)
        self._armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds)

    def __exit__(self, *error: object) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _rang(self, number: int, frame: Any) -> None:
        if self._armed:
            self._armed = False
            raise _TooSlow


def _document(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """The JSON object at this place, and where it ends; None if there is none."""
    space = _SPACE.match(text, at)
    try:
        fields, end = _DECODE(text, space.end() if space else at)
    except (ValueError, RecursionError):
        return None, at
    return (fields, end) if isinstance(fields, dict) else (None, at)


def _whole(value: Any) -> int | None:
    number = _real(value)
    return None if number is None else int(number)


def _real(value: Any) -> float | None:
    """A finite number, also from text with thousands separators; anything else is unknown."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        value = value.replace(",", "").replace("_", "")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
