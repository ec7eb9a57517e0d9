"""A run's figures in Prometheus' text format: for the textfile collector, or to push somewhere.

Only what holds now, without times: the collector refuses them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mooring.model.status import Phase
from mooring.report.figures import MemberFigures, Report

Sample = tuple[Mapping[str, str], float | None]


def to_prometheus(figures: Report) -> str:
    """Metrics that nobody reports are left out."""
    run = {"run": figures.run, "job": figures.job}
    lines: list[str] = []

    def add(name: str, kind: str, says: str, samples: Sequence[Sample]) -> None:
        told = [(labels, value) for labels, value in samples if value is not None]
        if told:
            lines.append(f"# HELP {name} {says}")
            lines.append(f"# TYPE {name} {kind}")
            lines.extend(f"{name}{_labels(labels)} {_number(value)}" for labels, value in told)

    def of_members(value: str) -> list[Sample]:
        return [
            ({**run, "member": each.member, "role": each.role}, _value(each, value))
            for each in figures.members
        ]

    phases = [phase.value for phase in Phase] + ["Lost"]
    add(
        "mooring_run_phase",
        "gauge",
        "1 for the phase that the run is in.",
        [({**run, "phase": phase}, float(phase == figures.phase)) for phase in phases],
    )
    add("mooring_run_start_time_seconds", "gauge", "Unix time.", [(run, figures.started_s)])
    add("mooring_run_duration_seconds", "gauge", "From its start.", [(run, figures.wall_s)])
    add("mooring_run_restarts_total", "counter", "Of the gang.", [(run, figures.restarts)])
    add("mooring_run_steps_total", "counter", "Steps done.", [(run, figures.steps)])
    add("mooring_run_examples_total", "counter", "Of all members.", [(run, figures.examples)])
    rate = [(run, figures.examples_per_s)]
    add("mooring_run_examples_per_second", "gauge", "From the first report to the last.", rate)
    add("mooring_run_loss", "gauge", "The last that was reported.", [(run, figures.last_loss)])
    for name, kind, says, value in _OF_MEMBERS:
        add(f"mooring_member_{name}", kind, says, of_members(value))
    return "\n".join([*lines, ""])


_OF_MEMBERS = (
    ("steps_total", "counter", "Steps done.", "steps"),
    ("examples_total", "counter", "Examples done.", "examples"),
    ("examples_per_second", "gauge", "From the first report to the last.", "examples_per_s"),
    ("cpu_seconds_total", "counter", "User and system time of all processes.", "cpu_s"),
    ("peak_memory_bytes", "gauge", "The most that was in memory.", "peak_memory_bytes"),
    ("received_bytes_total", "counter", "On TCP sockets.", "received_bytes"),
    ("sent_bytes_total", "counter", "On TCP sockets.", "sent_bytes"),
    ("throttled_seconds_total", "counter", "Held back by a CPU quota.", "throttled_s"),
    ("restarts_total", "counter", "Of this member alone.", "restarts"),
    ("exit_code", "gauge", "Of its last attempt.", "exit_code"),
)


def _value(member: MemberFigures, name: str) -> float | None:
    value = getattr(member, name)
    return None if value is None else float(value)


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """Every digit of a count, and of a loss as many as it has."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
