"""How much slower is a training step under `moor run` than in a bare process?

Two workers, one CPU and one thread each, so that no CPU is idle: the launcher of a worker shares
the worker's CPU, and `moor` itself takes its time from one of them.

fresh: new processes each time, bare against `moor run`. This is what a user sees, but two starts of
one program differ by themselves (memory layout, huge pages), which is the row's noise.
paused: the same running processes, with the launchers and `moor` stopped (SIGSTOP) in every other
window. Nothing else differs, so this is the cost of launching and sampling itself.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moored import Moor, Started, temporary_moor
from pairs import Ratios, interleave, orders, ratios
from results import machine_facts, options, say, show, write
from steps import Steps, mean_step_s, median_step_s, read_steps
from training import MLP, WORKERS, bare, command, command_setting, moored, new_folder, variables

TARGET = 1.01
#: After a switch between running and paused, and before the next: not measured.
_SETTLE_S = 0.25
_START_DEADLINE_S = 60.0


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=8.0)
    parser.add_argument("--windows", type=int, default=12, help="pairs of the paused rows")
    parser.add_argument("--window-seconds", type=float, default=3.0, help="each window of those")
    arguments = parser.parse_args()
    facts = machine_facts("torch")
    with temporary_moor() as moor:
        say(f"fresh: {arguments.pairs} pairs of {arguments.seconds:g} s")
        fresh, cpu_share = _fresh(moor, arguments.seconds, arguments.pairs)
        found: dict[str, list[tuple[list[Steps], list[Steps]]]] = {"fresh processes": fresh}
        for name, flag in (("paused", "--report"), ("paused, no step reports", "--no-report")):
            say(f"{name}: {arguments.windows} pairs of {arguments.window_seconds:g} s")
            found[name] = _paused(moor, arguments.windows, arguments.window_seconds, flag)
    rows, figures = [], {}
    for name, pairs in found.items():
        mean, median = ratios(pairs, mean_step_s), ratios(pairs, median_step_s)
        rows.append(_row(name, pairs, mean, median))
        figures[name] = {
            "bare_step_ms": round(1000 * mean_step_s(pairs[0][0]), 3),
            "mean_step_ratio": mean.document(),
            "median_step_ratio": median.document(),
        }
    columns = ["moor / bare", "step", "mean step (min–max)", "interval", "median step"]
    show(f"Step time under `moor run` (target ≤ {TARGET})", columns, rows)
    say(f"the launchers used {cpu_share:.2%} of a CPU each")
    write(
        "overhead",
        facts,
        {"target": TARGET, "launcher_cpu_share": round(cpu_share, 5), "rows": figures},
    )


def _fresh(
    moor: Moor, seconds: float, pairs: int
) -> tuple[list[tuple[list[Steps], list[Steps]]], float]:
    argv = command(seconds)
    shares: list[float] = []

    def under_moor() -> list[Steps]:
        steps, report = moored(moor, argv)
        shares.append(_launcher_share(report))
        return steps

    found = interleave(lambda: bare(moor, argv), under_moor, pairs)
    return found, sum(shares) / len(shares)


def _launcher_share(report: dict[str, Any]) -> float:
    """CPU time of a launcher for each second of its member."""
    used = sum(member["launcher_cpu_s"] for member in report["members"])
    return float(used / report["wall_s"] / len(report["members"]))


def _paused(
    moor: Moor, pairs: int, window_s: float, flag: str
) -> list[tuple[list[Steps], list[Steps]]]:
    """Windows of one run, in pairs (launchers stopped, launchers running)."""
    folder = new_folder(moor)
    total_s = 2 * pairs * (window_s + 2 * _SETTLE_S) + 1.0
    argv = command(total_s, flag)
    windows: list[dict[int, tuple[float, float]]] = []
    settings = [command_setting(argv)]
    with moor.started(MLP, settings=settings, env=variables(folder)) as run:
        _wait_for_training(run, folder)
        watchers = [run.process.pid, *run.launcher_pids()]
        for order in orders(pairs):
            pair: dict[int, tuple[float, float]] = {}
            for which in order:
                with _stopped(watchers if which == 0 else ()):
                    time.sleep(_SETTLE_S)
                    begin_s = time.monotonic()
                    time.sleep(window_s)
                    pair[which] = (begin_s, time.monotonic())
                    time.sleep(_SETTLE_S)
            windows.append(pair)
        output, _ = run.process.communicate()
        if run.process.returncode:
            raise SystemExit(f"moor run failed:\n{output}")
    workers = read_steps(folder, WORKERS)
    return [
        (
            [worker.between(*pair[0]) for worker in workers],
            [worker.between(*pair[1]) for worker in workers],
        )
        for pair in windows
    ]


def _wait_for_training(run: Started, folder: Path) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while len(list(folder.glob("training-*"))) < WORKERS:
        if time.monotonic() > deadline or run.process.poll() is not None:
            run.process.terminate()
            output, _ = run.process.communicate()
            raise SystemExit(f"the training did not begin:\n{output}")
        time.sleep(0.02)


@contextmanager
def _stopped(pids: Sequence[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _row(
    name: str, pairs: Sequence[tuple[list[Steps], list[Steps]]], mean: Ratios, median: Ratios
) -> list[str]:
    interval = mean.interval()
    return [
        f"{name}, {len(pairs)} pairs",
        f"{1000 * mean_step_s(pairs[0][0]):.1f} ms",
        str(mean),
        f"{interval.low:.3f}–{interval.high:.3f} ({interval.coverage:.0%})",
        str(median),
    ]


if __name__ == "__main__":
    main()
