"""How much slower is a training step under `moor run` than in a bare process?

Two workers, one CPU and one thread each, so that no CPU is idle: the launcher of a worker shares
the worker's CPU, and `moor` itself takes its time from one of them.

fresh: new processes each time, bare against `moor run`. This is what a user sees, but two starts of
one program differ by themselves (memory layout, huge pages), which is the row's noise.
paused: the same running processes, with the launchers and `moor` stopped (SIGSTOP) in every other
window. Nothing else differs, so this is the cost of launching and sampling itself.
taken: the CPU time that launchers and `moor` used in their windows, as a part of the workers' CPUs:
what the ratio must come to, and hardly subject to noise.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from moored import Moor, Started, temporary_moor
from pairs import Ratios, interleave, orders, ratios
from results import machine_facts, options, say, show, write
from steps import Steps, mean_step_s, median_step_s, read_steps
from training import MLP, WORKERS, bare, command, command_setting, moored, new_folder, variables

TARGET = 1.01
#: After a switch between running and paused, and before the next: not measured.
_SETTLE_S = 0.25
_START_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Row:
    """Pairs of (without, with Mooring), and the part of the CPUs that Mooring used in `with`."""

    pairs: list[tuple[list[Steps], list[Steps]]]
    taken: float | None = None


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=8.0)
    parser.add_argument("--windows", type=int, default=12, help="pairs of the paused rows")
    parser.add_argument("--window-seconds", type=float, default=2.5, help="each window of those")
    arguments = parser.parse_args()
    facts = machine_facts("torch")
    found: dict[str, Row] = {}
    with temporary_moor() as moor:
        say(f"fresh: {arguments.pairs} pairs of {arguments.seconds:g} s")
        argv = command(arguments.seconds)
        found["fresh"] = Row(
            interleave(
                lambda: bare(moor, argv), lambda: moored(moor, argv)[0], pairs=arguments.pairs
            )
        )
        for name, flag in (("paused", "--report"), ("paused, no step reports", "--no-report")):
            say(f"{name}: {arguments.windows} pairs of {arguments.window_seconds:g} s")
            found[name] = _paused(moor, arguments.windows, arguments.window_seconds, flag)
    rows, figures = [], {}
    for name, row in found.items():
        mean, median = ratios(row.pairs, mean_step_s), ratios(row.pairs, median_step_s)
        rows.append(_cells(name, row, mean, median))
        figures[name] = {
            "bare_step_ms": round(1000 * _bare_step_s(row), 3),
            "mean_step_ratio": mean.document(),
            "median_step_ratio": median.document(),
            "cpu_taken": None if row.taken is None else round(row.taken, 5),
        }
    columns = ["moor / bare", "bare step", "mean step", "interval", "median step", "taken"]
    show(f"Step time under `moor run` (target ≤ {TARGET})", columns, rows)
    write("overhead", facts, {"target": TARGET, "rows": figures})


def _paused(moor: Moor, pairs: int, window_s: float, flag: str) -> Row:
    """Windows of one run, in pairs (launchers stopped, launchers running)."""
    folder = new_folder(moor)
    total_s = 2 * pairs * (window_s + 2 * _SETTLE_S) + 1.0
    argv = command(total_s, flag)
    windows: list[dict[int, tuple[float, float]]] = []
    taken: list[float] = []
    settings = [command_setting(argv)]
    with moor.started(MLP, settings=settings, env=variables(folder)) as run:
        _wait_for_training(run, folder)
        watchers = [run.process.pid, *run.launcher_pids()]
        for order in orders(pairs):
            pair: dict[int, tuple[float, float]] = {}
            for which in order:
                with _stopped(watchers if which == 0 else ()):
                    time.sleep(_SETTLE_S)
                    begin_s, used_s = time.monotonic(), _cpu_s(watchers)
                    time.sleep(window_s)
                    pair[which] = (begin_s, time.monotonic())
                    if which == 1:
                        taken.append((_cpu_s(watchers) - used_s) / (window_s * WORKERS))
                    time.sleep(_SETTLE_S)
            windows.append(pair)
        output, _ = run.process.communicate()
        if run.process.returncode:
            raise SystemExit(f"moor run failed:\n{output}")
    workers = read_steps(folder, WORKERS)
    compared = [
        (
            [worker.between(*pair[0]) for worker in workers],
            [worker.between(*pair[1]) for worker in workers],
        )
        for pair in windows
    ]
    return Row(compared, statistics.fmean(taken))


def _cpu_s(pids: Sequence[int]) -> float:
    """CPU time of these processes; unlike `stat`, `schedstat` counts nanoseconds."""
    tasks = [path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9


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


def _bare_step_s(row: Row) -> float:
    return statistics.median(mean_step_s(without) for without, _ in row.pairs)


def _cells(name: str, row: Row, mean: Ratios, median: Ratios) -> list[str]:
    interval = mean.interval()
    return [
        f"{name}, {len(row.pairs)} pairs",
        f"{1000 * _bare_step_s(row):.1f} ms",
        str(mean),
        f"{interval.low:.3f}–{interval.high:.3f} ({interval.coverage:.0%})",
        str(median),
        "–" if row.taken is None else f"{row.taken:.2%}",
    ]


if __name__ == "__main__":
    main()
