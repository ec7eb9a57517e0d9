"""How much slower is a training step under `moor run` than in a bare process?

Two workers, one CPU and one thread each, so that no CPU is idle: the launcher of a worker shares
the worker's CPU, and `moor` itself takes its time from one of them. Every step is reported.

For each pair both are started anew, bare and under `moor run`, and from then on only one of the two
runs, in turn: the other is stopped (SIGSTOP) with all that belongs to it. The turns are short,
because the speed of a shared machine changes within seconds by more than what is measured here.

taken: the CPU time that the launchers and `moor` used, as a part of the workers' CPUs. The ratio
comes to this and to what caches lose; and it is hardly subject to noise.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moored import Moor, Started, temporary_moor
from pairs import Ratios, mean_interval, orders
from results import machine_facts, options, say, show, write
from steps import Steps, mean_step_s, pooled_step_s, read_steps
from training import (
    MLP,
    WORKERS,
    bare_started,
    command,
    command_setting,
    new_folder,
    variables,
    wait_for_training,
)

TARGET = 1.01
_TURN_S = 0.25
#: At the start of a turn caches are cold and signals are handled: not measured.
_SETTLE_S = 0.05
_TAKEN_S = 4.0
_LONGEST_S = 600.0


@dataclass(frozen=True)
class Pair:
    """The turns of one start of both; steps of all workers for each turn."""

    bare: list[list[Steps]]
    moored: list[list[Steps]]
    taken: float

    @property
    def ratio(self) -> float:
        return pooled_step_s(self.moored) / pooled_step_s(self.bare)

    @property
    def turn_ratios(self) -> list[float]:
        turns = zip(self.bare, self.moored, strict=True)
        return [mean_step_s(moored) / mean_step_s(bare) for bare, moored in turns]


def main() -> None:
    arguments = options(__doc__, pairs=5, seconds=12.0).parse_args()
    facts = machine_facts("torch")
    rows, figures = [], {}
    with temporary_moor() as moor:
        for name, flag in (("a report each step", "--report"), ("no reports", "--no-report")):
            pairs = []
            for number in range(arguments.pairs):
                say(f"{name}: pair {number + 1} of {arguments.pairs}, {arguments.seconds:g} s each")
                pairs.append(_pair(moor, arguments.seconds, flag))
            rows.append(_cells(name, pairs))
            figures[name] = _document(pairs)
    columns = ["moor / bare", "bare step", "ratio", "over all turns, 95%", "taken"]
    show(f"Step time under `moor run` (target ≤ {TARGET})", columns, rows)
    write("overhead", facts, {"target": TARGET, "rows": figures})


def _pair(moor: Moor, seconds: float, flag: str) -> Pair:
    argv = command(_LONGEST_S, flag)
    folders = (new_folder(moor), new_folder(moor))
    with bare_started(moor, folders[0], argv) as running:
        wait_for_training(folders[0], lambda: all(one.poll() is None for one in running))
        bare_pids = [process.pid for process in running]
        _signal(bare_pids, signal.SIGSTOP)
        settings = [command_setting(argv)]
        with moor.started(MLP, settings=settings, env=variables(folders[1])) as run:
            wait_for_training(folders[1], lambda: run.process.poll() is None)
            watchers = [run.process.pid, *run.launcher_pids()]
            taken = _taken(watchers)
            turns = _take_turns((bare_pids, [*watchers, *run.worker_pids()]), seconds)
            _end(run, bare_pids)
        for process in running:
            process.wait()
    found = [read_steps(folder, WORKERS) for folder in folders]
    bare, moored = (
        [[worker.between(*turn) for worker in found[which]] for turn in turns[which]]
        for which in (0, 1)
    )
    return Pair(bare, moored, taken)


def _take_turns(
    pids: tuple[Sequence[int], Sequence[int]], seconds: float
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Let one of both run at a time; returns the measured part of each one's turns."""
    turns: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    _signal(pids[1], signal.SIGSTOP)
    try:
        for order in orders(int(seconds / _TURN_S)):
            for which in order:
                _signal(pids[which], signal.SIGCONT)
                time.sleep(_SETTLE_S)
                begin_s = time.monotonic()
                time.sleep(_TURN_S)
                turns[which].append((begin_s, time.monotonic()))
                _signal(pids[which], signal.SIGSTOP)
    finally:
        _signal(pids[1], signal.SIGCONT)
    return turns


def _taken(watchers: Sequence[int]) -> float:
    """While nothing else happens: all of a second's work of Mooring in each second."""
    begin_s, used_s = time.monotonic(), _cpu_s(watchers)
    time.sleep(_TAKEN_S)
    return (_cpu_s(watchers) - used_s) / (time.monotonic() - begin_s) / WORKERS


def _cpu_s(pids: Sequence[int]) -> float:
    """CPU time of these processes; unlike `stat`, `schedstat` counts nanoseconds."""
    tasks = [path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9


def _end(run: Started, bare_pids: Sequence[int]) -> None:
    """Both write down their steps and end by themselves."""
    _signal(run.worker_pids(), signal.SIGUSR1)
    _signal(bare_pids, signal.SIGUSR1)
    _signal(bare_pids, signal.SIGCONT)
    output, _ = run.process.communicate()
    if run.process.returncode:
        raise SystemExit(f"moor run failed:\n{output}")


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def _cells(name: str, pairs: Sequence[Pair]) -> list[str]:
    turns = [ratio for pair in pairs for ratio in pair.turn_ratios]
    return [
        name,
        f"{1000 * statistics.median(pooled_step_s(pair.bare) for pair in pairs):.1f} ms",
        str(Ratios(tuple(pair.ratio for pair in pairs))),
        f"{mean_interval(turns)} ({len(turns)} turns)",
        f"{statistics.median(pair.taken for pair in pairs):.2%}",
    ]


def _document(pairs: Sequence[Pair]) -> dict[str, object]:
    turns = [ratio for pair in pairs for ratio in pair.turn_ratios]
    interval = mean_interval(turns)
    return {
        "bare_step_ms": [round(1000 * pooled_step_s(pair.bare), 3) for pair in pairs],
        "step_ratio": Ratios(tuple(pair.ratio for pair in pairs)).document(),
        "turns": len(turns),
        "turns_mean_interval_95": [round(interval.low, 5), round(interval.high, 5)],
        "cpu_taken": [round(pair.taken, 5) for pair in pairs],
    }


if __name__ == "__main__":
    main()
