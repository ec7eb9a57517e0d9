"""The report as one HTML file: no script, nothing fetched, readable offline and years later."""

from __future__ import annotations

import itertools
import time

import jinja2

from mooring.record import RunRecord, read_lines
from mooring.report import text
from mooring.report.cards import CardCurves
from mooring.report.charts import Curve, line_chart
from mooring.report.figures import Report


def render_html(run: RunRecord, figures: Report) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mooring.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(size=text.size, number=text.number, duration=text.duration)
    started = "–"
    if figures.started_s is not None:
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(figures.started_s))
    template = environment.get_template("report.html.j2")
    return template.render(report=figures, started=started, charts=_charts(run, figures))


def _charts(run: RunRecord, figures: Report) -> list[str]:
    examples, cpu, received, cards = [], [], [], CardCurves()
    start_s = figures.started_s or 0.0
    for member in figures.members:
        steps: list[tuple[float, float]] = []
        samples: list[tuple[float, float, float]] = []
        done = 0.0
        for line in read_lines(run.sample_file(member.member)):
            at_s = line.get("t")
            if not isinstance(at_s, int | float):
                continue
            if line.get("kind") == "step":
                count = line.get("examples")
                done += count if isinstance(count, int | float) else 0
                steps.append((at_s - start_s, done))
            elif line.get("kind") == "sample":
                cards.add(member.member, at_s - start_s, line)
                cpu_s, rx = line.get("cpu_s"), line.get("rx_bytes")
                if isinstance(cpu_s, int | float) and isinstance(rx, int | float):
                    samples.append((at_s - start_s, cpu_s, rx))
        if len(steps) > 2 and done:
            examples.append(Curve(member.member, _rates(steps)))
        if len(samples) > 2:
            cpu.append(Curve(member.member, _rates([(t, 100 * c) for t, c, _ in samples])))
            mbit = [(t, r * 8 / 1e6) for t, _, r in samples]
            received.append(Curve(member.member, _rates(mbit)))
    wanted = (
        ("examples/s", examples),
        ("CPU %", cpu),
        ("received, Mbit/s", received),
        *cards.charts(),
    )
    return [line_chart(title, curves) for title, curves in wanted if curves]


def _rates(totals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Differences of a running total; a restart, where it falls back to zero, is left out."""
    rates = []
    for (t0, v0), (t1, v1) in itertools.pairwise(totals):
        if t1 > t0 and v1 >= v0:
            rates.append((t1, (v1 - v0) / (t1 - t0)))
    return rates
