"""What every benchmark shares: its options, the facts about the machine, the table and the JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"
JOBS = Path(__file__).parent / "jobs"
EXAMPLES = Path(__file__).parent.parent / "examples"
#: Above this 1-minute load somebody else is using the machine, and ratios get wide.
_QUIET_LOAD = 0.5
#: What is told of each part that can be measured alone.
_CIRCUMSTANCES = ("measured", "load_before", "taken_by_other_processes", "taken_by_other_machines")
_CONSOLE = Console(highlight=False)
if not _CONSOLE.is_terminal:
    _CONSOLE.width = 110


def options(description: str | None, pairs: int, seconds: float) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=pairs, help="interleaved pairs")
    parser.add_argument("--seconds", type=float, default=seconds, help="measured, each half")
    return parser


class Machine:
    """What a reader needs to judge the figures; nothing that names the machine."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages
        self._load = os.getloadavg()[0]
        if self._load > _QUIET_LOAD:
            say(f"load is {self._load:.1f}: somebody else uses this machine, expect wide ranges")
        self._began_s = time.monotonic()
        self._times = psutil.cpu_times()
        self._own_s = _own_cpu_s()

    def facts(self) -> dict[str, object]:
        """Call it at the end: it tells what others took of the CPUs in the meantime."""
        cpus = len(os.sched_getaffinity(0))
        span_s = (time.monotonic() - self._began_s) * (os.cpu_count() or cpus)
        now, before = psutil.cpu_times(), self._times
        idle_s = now.idle - before.idle + now.iowait - before.iowait
        stolen_s = now.steal - before.steal
        others_s = span_s - idle_s - stolen_s - (_own_cpu_s() - self._own_s)
        return {
            "cpus": cpus,
            "cpu_model": _cpu_model(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "versions": {name: metadata.version(name) for name in ("mooring", *self._packages)},
            "measured": time.strftime("%Y-%m-%d", time.gmtime()),
            "load_before": round(self._load, 2),
            "taken_by_other_processes": round(max(0.0, others_s / span_s), 3),
            "taken_by_other_machines": round(stolen_s / span_s, 3),
        }


def _own_cpu_s() -> float:
    """Of this program and all processes below it that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def say(text: str) -> None:
    _CONSOLE.print(text, style="dim", soft_wrap=True)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", header_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    _CONSOLE.print(table)


def write(
    name: str, machine: Machine, figures: Mapping[str, object], parts: Sequence[str] = ()
) -> None:
    """`parts` are keys of the figures that may be measured alone: of those that were not, what an
    earlier run found is kept. Each tells when it was measured, and what others took of the CPUs."""
    facts = machine.facts()
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    document: dict[str, Any] = {"benchmark": name, "machine": facts, **figures}
    before = json.loads(path.read_text(encoding="utf-8")) if parts and path.exists() else {}
    for part in parts:
        if part in figures:
            document[part] = {"circumstances": _circumstances(facts), **document[part]}
        elif part in before:
            earlier = _circumstances(before["machine"])
            document[part] = {"circumstances": earlier, **before[part]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    say(
        f"meanwhile other processes took {facts['taken_by_other_processes']:.1%} of the CPUs, other"
        f" machines on the same host {facts['taken_by_other_machines']:.1%}"
    )
    say(f"wrote benchmarks/results/{path.name}")


def _circumstances(facts: Mapping[str, object]) -> dict[str, object]:
    return {key: facts[key] for key in _CIRCUMSTANCES}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "")
