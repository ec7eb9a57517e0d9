"""The report as one HTML file: no script, nothing fetched, readable offline and years later."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.record import RunRecord
from mooring.report.cards import CardCurves
from mooring.report.charts import Curve, line_chart
from mooring.report.figures import Report
from mooring.report.page import render_page
from mooring.report.series import MemberSeries, Points, read_series
from mooring.spec.document import parse_document

_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Remark:
    """What was found about the run, in words; the page's reader need not know who found it."""

    title: str
    says: str
    evidence: tuple[str, ...] = ()
    does: str = ""
    name: str = ""


def render_html(run: RunRecord, figures: Report, remarks: Sequence[Remark] | None = None) -> str:
    """`remarks`: what is wrong with the run; None: nobody has looked."""
    job_text = _job_text(run)
    return render_page(
        "report/report.html.j2",
        report=figures,
        info=run.info,
        started=_moment(figures.started_s),
        charts=_charts(run, figures),
        remarks=remarks,
        commands=_commands(job_text),
        job_text=job_text,
    )


def _moment(at_s: float | None) -> str:
    if at_s is None:
        return "–"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
    except (OverflowError, ValueError, OSError):
        return "–"


def _job_text(run: RunRecord) -> str:
    try:
        return run.job_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _commands(job_text: str) -> list[tuple[str, str]]:
    """(roles, command) as a shell would take it; roles with the same one are named together."""
    document = parse_document(job_text, "job.yaml").data if job_text else None
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict) or not isinstance(spec.get("roles"), dict):
        return []
    by_command: dict[str, list[str]] = {}
    for role, told in spec["roles"].items():
        own = told.get("command") if isinstance(told, dict) else None
        words = own or spec.get("command") or []
        line = shlex.join(map(str, words)) if isinstance(words, list) else str(words)
        if line:
            by_command.setdefault(line, []).append(str(role))
    return [(", ".join(roles), line) for line, roles in by_command.items()]


def _charts(run: RunRecord, figures: Report) -> list[str]:
    cards = CardCurves()
    start_s = figures.started_s or 0.0
    series = read_series(run, [member.member for member in figures.members])
    for each in series:
        for sample in each.samples:
            cards.add(each.member, sample.t - start_s, sample)

    def over_time(points: Points, factor: float = 1.0) -> Points:
        return [(at_s - start_s, factor * value) for at_s, value in points]

    def curves(of: dict[str, Points]) -> list[Curve]:
        found = [Curve(name, points) for name, points in of.items() if len(points) > 1]
        return found if any(value for curve in found for _, value in curve.points) else []

    wanted = [
        ("examples/s", {one.member: over_time(one.examples_per_s()) for one in series}),
        ("CPU %", {one.member: over_time(one.cpu_percent()) for one in series}),
        ("memory, MiB", {one.member: over_time(one.memory(), 1 / _MEBIBYTE) for one in series}),
        ("received, Mbit/s", {one.member: over_time(one.received_per_s(), 8e-6) for one in series}),
    ]
    drawn = [(title, curves(of)) for title, of in wanted] + cards.charts()
    charts = [line_chart(title, found) for title, found in drawn if found]
    return [*_loss_chart(series), *charts]


def _loss_chart(series: Sequence[MemberSeries]) -> list[str]:
    curves = [Curve(one.member, points) for one in series if len(points := one.losses()) > 1]
    return [line_chart("loss by step", curves, lambda step: f"{step:,.0f}")] if curves else []
