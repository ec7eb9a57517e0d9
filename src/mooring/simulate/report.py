"""The figures of one or several simulations: a table, JSON, or one HTML file with plots."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mooring.model.amounts import duration
from mooring.model.strict_json import json_text
from mooring.report.charts import Curve, line_chart
from mooring.report.page import render_page
from mooring.simulate.metrics import SimulationFigures
from mooring.simulate.run import Simulated

#: More jobs than this are not listed one by one in the JSON; the figures are over all of them.
MOST_LISTED = 10_000
_MOST_SENTENCES = 10


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


@dataclasses.dataclass(frozen=True)
class _Row:
    """`better` is -1 where less is better, 1 where more is, 0 where neither."""

    name: str
    value: Callable[[SimulationFigures], float | None]
    show: Callable[[float], str]
    better: int


def _plain(value: float) -> str:
    return f"{value:,.0f}"


_ROWS = (
    _Row("jobs ended", lambda f: f.ended, _plain, 1),
    _Row("makespan", lambda f: f.makespan_s, duration, -1),
    _Row("completion, mean", lambda f: f.completion.mean_s, duration, -1),
    _Row("completion, median", lambda f: f.completion.median_s, duration, -1),
    _Row("completion, p95", lambda f: f.completion.p95_s, duration, -1),
    _Row("queueing, mean", lambda f: f.queueing.mean_s, duration, -1),
    _Row("queueing, median", lambda f: f.queueing.median_s, duration, -1),
    _Row("queueing, p95", lambda f: f.queueing.p95_s, duration, -1),
    _Row("queueing, longest", lambda f: f.queueing.most_s, duration, -1),
    _Row("CPUs in use", lambda f: f.cpu_utilisation, _percent, 1),
    _Row("memory in use", lambda f: f.memory_utilisation, _percent, 1),
    _Row("GPUs in use", lambda f: f.gpu_utilisation, _percent, 1),
    _Row("free in fragments", lambda f: f.fragmentation, _percent, -1),
    _Row("fairness of pools (Jain)", lambda f: f.fairness, lambda v: f"{v:.3f}", 1),
    _Row("preemptions", lambda f: f.preemptions, _plain, -1),
    _Row("work lost by them", lambda f: f.lost_member_s, duration, -1),
)
MEANINGS = (
    "Completion is from arrival to end, queueing from arrival to the first start. "
    "Free in fragments: the part of the free GPUs that a request for 1, 2, 4 or 8 on one node "
    "cannot use, the mean over these; without GPUs, the part of the free CPUs that is on nodes "
    "partly in use. Fairness: Jain's index of the part of their time that the pools' jobs ran; "
    "1 if the pools were slowed down alike. Work lost is in seconds of one member."
)


def _rows(results: Sequence[Simulated]) -> list[list[str]]:
    """A line for each figure; with two results, how far the second is from the first."""
    lines = []
    for row in _ROWS:
        values = [row.value(result.figures) for result in results]
        if all(value is None for value in values):
            continue
        line = [row.name, *("–" if value is None else row.show(value) for value in values)]
        if len(values) == 2:
            line.append(_difference(values[0], values[1], row.better))
        lines.append(line)
    return lines


def _difference(first: float | None, second: float | None, better: int) -> str:
    if first is None or second is None or first == second:
        return "same"
    if not first:
        return "–"
    part = round((second - first) / first, 3)
    if not part:
        return "same"
    verdict = "better" if part * better > 0 else "worse"
    return f"{100 * part:+.1f} % {verdict}"


_POOL_COLUMNS = ("pool", "weight", "jobs", "waited, mean", "p95", "running", "held", "preempted")


def _pool_rows(figures: SimulationFigures) -> list[list[str]]:
    return [
        [
            pool.name,
            f"{pool.weight:g}",
            f"{pool.jobs:,}",
            duration(pool.queueing.mean_s),
            duration(pool.queueing.p95_s),
            _percent(pool.running_share),
            _percent(pool.held_share),
            f"{pool.preemptions:,}",
        ]
        for pool in figures.pools
    ]


def _columns(results: Sequence[Simulated]) -> list[str]:
    names = ["", *(result.figures.profile for result in results)]
    return [*names, "second against first"] if len(results) == 2 else names


def table(results: Sequence[Simulated], source: str) -> RenderableType:
    parts: list[RenderableType] = [
        _table(f"{source}: {results[0].figures.jobs:,} jobs", _columns(results), _rows(results))
    ]
    for result in results:
        figures = result.figures
        if len(figures.pools) > 1:
            title = f"pools under {figures.profile}" if len(results) > 1 else "pools"
            parts.append(_table(title, _POOL_COLUMNS, _pool_rows(figures)))
        parts += [Text(line) for line in _moves(figures)]
        parts += [Text(line, style="yellow") for line in _stuck(figures)]
        parts.append(Text(_speed(figures), style="dim"))
    return Group(*parts, Text(MEANINGS, style="dim"))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    made = Table(title=title, title_justify="left", header_style="bold")
    for number, name in enumerate(columns):
        made.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        made.add_row(*row)
    return made


def _stuck(figures: SimulationFigures) -> list[str]:
    stuck = figures.never_started
    if not stuck:
        return []
    jobs = "1 job" if len(stuck) == 1 else f"{len(stuck):,} jobs"
    lines = [f"{jobs} never got a place under {figures.profile}:"]
    lines += [f"  {why}" for why in list(stuck.values())[:_MOST_SENTENCES]]
    if len(stuck) > _MOST_SENTENCES:
        lines.append(f"  and {len(stuck) - _MOST_SENTENCES:,} more")
    return lines


def _moves(figures: SimulationFigures) -> list[str]:
    """Groups of nodes that changed hands, the first of many."""
    lines = [
        f"after {duration(move.at_s)}: {move.reason}" for move in figures.moves[:_MOST_SENTENCES]
    ]
    if len(figures.moves) > _MOST_SENTENCES:
        lines.append(f"and {len(figures.moves) - _MOST_SENTENCES:,} more moves of nodes")
    return lines


def _speed(figures: SimulationFigures) -> str:
    rate = figures.events / figures.wall_s if figures.wall_s else 0.0
    return (
        f"{figures.profile}: {duration(figures.makespan_s)} simulated in {figures.wall_s:.1f} s "
        f"({figures.events:,} events, {figures.decisions:,} decisions, {rate:,.0f} events/s)"
    )


def document(results: Sequence[Simulated], source: str) -> str:
    """JSON, everything in seconds and shares."""
    found = []
    for result in results:
        entry = dataclasses.asdict(result.figures)
        listed = result.records if len(result.records) <= MOST_LISTED else ()
        entry["job_list"] = [dataclasses.asdict(record) for record in listed]
        found.append(entry)
    return json_text({"workload": source, "simulations": found})


def page(results: Sequence[Simulated], source: str) -> str:
    """One HTML file: no script, nothing fetched."""
    pools = [
        (result.figures.profile, _pool_rows(result.figures))
        for result in results
        if len(result.figures.pools) > 1
    ]
    return render_page(
        "simulate/simulation.html.j2",
        source=source,
        jobs=results[0].figures.jobs,
        columns=_columns(results),
        rows=_rows(results),
        pool_columns=_POOL_COLUMNS,
        pools=pools,
        charts=_charts(results),
        moves=[line for result in results for line in _moves(result.figures)],
        stuck=[line for result in results for line in _stuck(result.figures)],
        speeds=[_speed(result.figures) for result in results],
        meanings=MEANINGS,
    )


def _charts(results: Sequence[Simulated]) -> list[str]:
    def curves(values: Callable[[Simulated], list[tuple[float, float]]]) -> list[Curve]:
        return [Curve(result.figures.profile, values(result)) for result in results]

    def series(name: str, scale: float) -> list[Curve]:
        def values(result: Simulated) -> list[tuple[float, float]]:
            points = result.figures.series
            first_s = points[0].at_s if points else 0.0
            return [(point.at_s - first_s, scale * getattr(point, name)) for point in points]

        return curves(values)

    wanted = [("CPUs in use, %", series("cpu", 100.0))]
    if any(result.figures.gpu_utilisation is not None for result in results):
        wanted.append(("GPUs in use, %", series("gpu", 100.0)))
    wanted.append(("free in fragments, %", series("fragmentation", 100.0)))
    wanted.append(("jobs waiting", series("waiting", 1.0)))
    wanted.append(("jobs ended within so long after arrival, %", curves(_ended_within)))
    return [line_chart(title, lines, duration) for title, lines in wanted]


def _ended_within(result: Simulated) -> list[tuple[float, float]]:
    """The distribution of completion times, in 200 steps."""
    times = sorted(
        record.ended_s - record.arrived_s for record in result.records if record.ended_s is not None
    )
    if not times:
        return []
    at = sorted({min(len(times) - 1, len(times) * step // 200) for step in range(201)})
    return [(times[index], 100 * (index + 1) / len(times)) for index in at]
