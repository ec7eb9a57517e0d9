"""What every benchmark shares: its options, the facts about the machine, the table and the JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"
JOBS = Path(__file__).parent / "jobs"
EXAMPLES = Path(__file__).parent.parent / "examples"
#: Above this 1-minute load somebody else is using the machine, and ratios get wide.
_QUIET_LOAD = 0.5
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


def machine_facts(*packages: str) -> dict[str, object]:
    """What a reader needs to judge the figures; nothing that names the machine."""
    load = os.getloadavg()[0]
    if load > _QUIET_LOAD:
        say(f"load is {load:.1f}: somebody else is using this machine, expect wide ranges")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_model": _cpu_model(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in ("mooring", *packages)},
        "load_before": round(load, 2),
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def say(text: str) -> None:
    _CONSOLE.print(text, style="dim", soft_wrap=True)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", header_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    _CONSOLE.print(table)


def write(name: str, facts: Mapping[str, object], figures: Mapping[str, object]) -> None:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    document = {"benchmark": name, "machine": dict(facts), **figures}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    say(f"wrote benchmarks/results/{path.name}")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "")
