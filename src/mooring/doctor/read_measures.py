"""A run to measures that can be compared with another run's: speed, and what an example costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from mooring.doctor.comparing import PROGRAM, Better, Measure, Side
from mooring.doctor.facts import RunFacts
from mooring.doctor.read_run import read_run, step_rates
from mooring.record import RunRecord
from mooring.record.start import Start, read_start
from mooring.report.figures import Report
from mooring.report.finish import read_report

#: Slices of the time in which a run trained: their spread is that of its speed.
_SLICES = 5
#: Digits of a file's hash that tell two versions apart.
_DIGEST = 12


def read_measures(run: RunRecord) -> Side:
    facts = read_run(run)
    rates = step_rates(run, _SLICES, lambda step: step.examples or 0)
    name = "examples/s"
    if not rates:
        rates, name = step_rates(run, _SLICES, lambda step: step.count), "steps/s"
    measures = [Measure(name, "/s", tuple(rates), Better.HIGHER)] if rates else []
    measures += _costs(facts)
    measures += _totals(read_report(run))
    context = {**_context(facts), **program_context(read_start(run)), **_surroundings(facts)}
    return Side(facts.run, tuple(measures), context, whole=True)


def _totals(report: Report) -> Iterator[Measure]:
    """Of the run as a whole: all that can be compared of one that reports no steps."""
    moved = sum(member.received_bytes + member.sent_bytes for member in report.members)
    totals = {
        "duration": ("ms", 1e3 * (report.wall_s or 0.0)),
        "CPU time": ("ms", 1e3 * sum(member.cpu_s for member in report.members)),
        "bytes moved": ("B", float(moved)),
        "peak memory": (
            "B",
            float(sum(member.peak_memory_bytes or 0 for member in report.members)),
        ),
    }
    for name, (unit, amount) in totals.items():
        if amount > 0:
            yield Measure(f"{name} in all", unit, (amount,))


def _costs(facts: RunFacts) -> Iterator[Measure]:
    """For each example: rates of two runs of different speed cannot be compared by themselves."""
    rate = facts.examples_per_s
    uses = [member.use for member in facts.members if member.use is not None]
    if not rate or not uses:
        return
    costs = {
        "CPU time an example": ("ms", [1e3 * use.cpu_s / use.span_s for use in uses]),
        "waited for a CPU an example": (
            "ms",
            [1e3 * (use.wait_s or 0) / use.span_s for use in uses],
        ),
        "context switches an example": ("", [use.switches / use.span_s for use in uses]),
        "bytes an example": ("B", [use.moved_bytes / use.span_s for use in uses]),
    }
    for name, (unit, amounts) in costs.items():
        if sum(amounts) > 0:
            yield Measure(name, unit, (sum(amounts) / rate,))


def _context(facts: RunFacts) -> dict[str, str]:
    context = dict(_flat(facts.job.to_dict(defaults=True)["spec"], "spec"))
    for member in facts.members:
        context[f"{member.name} on"] = member.node
        context[f"{member.name} may use CPUs"] = f"{member.usable_cpus:g}"
        context[f"{member.name} threads told"] = str(member.threads_told)
    return context


def program_context(start: Start | None) -> dict[str, str]:
    """The program's own files by their content, its Python, and variables that were set outside of
    the job. Nothing of a run that did not write it down."""
    if start is None:
        return {}
    context = {
        f"{PROGRAM}{_inside(path, start.folder)}": f"content {digest[:_DIGEST]}"
        for path, digest in start.hashes.items()
    }
    context["Python"] = start.python_said or "not known"
    context.update({f"variable {name}": value for name, value in start.values.items()})
    return context


def _inside(path: str, folder: str) -> str:
    """As the job names it: two copies of a program lie in different folders."""
    try:
        return str(PurePath(path).relative_to(folder))
    except ValueError:
        return PurePath(path).name


def _surroundings(facts: RunFacts) -> dict[str, str]:
    """What others did on the machine meanwhile, coarse: less than half a CPU is noise."""
    if facts.machine is None:
        return {}
    ours = sum(member.use.cpus for member in facts.members if member.use is not None)
    others = max(0.0, facts.machine.used_cpus - ours)
    return {"CPUs that others used": f"{round(2 * others) / 2:g} of {facts.machine.cpus}"}


def _flat(value: Any, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _flat(below, f"{at}.{key}")
    else:
        yield at, str(value)
