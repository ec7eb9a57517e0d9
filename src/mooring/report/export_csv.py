"""A run as one table: a row for each report of steps and for each sample of each member."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime

from mooring.report.figures import Report
from mooring.report.series import MemberSeries

COLUMNS = (
    "time",
    "elapsed_s",
    "member",
    "role",
    "step",
    "examples",
    "examples_per_s",
    "loss",
    "cpu_s",
    "cpu_percent",
    "memory_bytes",
    "received_bytes",
    "sent_bytes",
)
Row = tuple[str | int | float | None, ...]


def to_csv(figures: Report, series: list[MemberSeries]) -> str:
    """Rows by time. Reports of steps have no CPU and memory, samples no steps: empty cells."""
    start_s = figures.started_s or 0.0
    roles = {member.member: member.role for member in figures.members}
    rows = [row for each in series for row in _rows(each, roles[each.member], start_s)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row for _, row in sorted(rows, key=lambda timed: timed[0]))
    return out.getvalue()


def _rows(series: MemberSeries, role: str, start_s: float) -> Iterator[tuple[float, Row]]:
    def head(at_s: float) -> Row:
        try:
            moment = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
        except (ValueError, OverflowError, OSError):
            moment = ""
        return (moment, round(at_s - start_s, 3), series.member, role)

    examples_per_s = dict(series.examples_per_s())
    for step in series.steps:
        rate = examples_per_s.get(step.at_s)
        cells = (step.step, step.examples, _rounded(rate), step.loss, None, None, None, None, None)
        yield step.at_s, (*head(step.at_s), *cells)
    cpu_percent = dict(series.cpu_percent())
    for use in series.uses:
        yield (
            use.at_s,
            (
                *head(use.at_s),
                *(None, None, None, None),
                use.cpu_s,
                _rounded(cpu_percent.get(use.at_s)),
                use.rss_bytes or None,
                use.received_bytes,
                use.sent_bytes,
            ),
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
