"""How much slower is a training step under `moor run` than in a bare process?

Two workers, one CPU and one thread each, so that no CPU is idle: the launcher of a worker shares
the worker's CPU, and `moor` itself takes its time from one of them. Every step is reported.

For each pair both are started anew, bare and under `moor run`, and measured in short turns, because
the speed of a shared machine changes within seconds by more than what is looked for here:
bare processes: one of both runs, the other is stopped (SIGSTOP) with all that belongs to it. Two
starts of one program differ by themselves (where its memory lies); that is this row's noise.
same processes: those under `moor run`, with the launchers and `moor` stopped in every other turn.
taken: the CPU time that launchers and `moor` used, as a part of the workers' CPUs. The ratio is
this and what caches lose; and it is hardly subject to noise.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from moored import Moor, Started, temporary_moor
from pairs import Ratios, mean_interval, orders
from results import Machine, options, say, show, write
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
#: At the start of another process's turn caches are cold: not measured.
_SETTLE_S = 0.05
_TAKEN_S = 3.0
_LONGEST_S = 600.0

Window = tuple[float, float]
#: For each turn the steps of all workers.
Turns = list[list[Steps]]


@dataclass(frozen=True)
class Pair:
    """One start of both."""

    bare: Turns
    moored: Turns
    paused: Turns
    running: Turns
    taken: float

    def started_anew(self) -> tuple[float, list[float]]:
        """The ratio of the pair, and of each turn."""
        turns = zip(self.bare, self.moored, strict=True)
        return (
            pooled_step_s(self.moored) / pooled_step_s(self.bare),
            [mean_step_s(moored) / mean_step_s(bare) for bare, moored in turns],
        )

    def same_processes(self) -> tuple[float, list[float]]:
        """What the launchers put off while they are stopped they do in the turn after: two turns'
        work in one, so half of what that turn loses is lost in each."""
        turns = zip(self.paused, self.running, strict=True)
        return (
            _halved(pooled_step_s(self.running) / pooled_step_s(self.paused)),
            [_halved(mean_step_s(running) / mean_step_s(paused)) for paused, running in turns],
        )


def _halved(ratio: float) -> float:
    return (1 + ratio) / 2


def main() -> None:
    arguments = options(__doc__, pairs=5, seconds=6.0).parse_args()
    machine = Machine("torch")
    pairs: list[Pair] = []
    with temporary_moor() as moor:
        for number in range(arguments.pairs):
            say(f"pair {number + 1} of {arguments.pairs}")
            pairs.append(_pair(moor, arguments.seconds))
        say("without step reports")
        silent = _taken_without_reports(moor)
    taken = statistics.median(pair.taken for pair in pairs)
    step_s = statistics.median(pooled_step_s(pair.bare) for pair in pairs)
    rows, figures = [], {}
    for name, compared in (
        ("against bare processes", [pair.started_anew() for pair in pairs]),
        ("the same processes", [pair.same_processes() for pair in pairs]),
    ):
        ratios = Ratios(tuple(ratio for ratio, _ in compared))
        turns = [ratio for _, ratios_of_turns in compared for ratio in ratios_of_turns]
        interval = mean_interval(turns)
        rows.append([name, str(ratios), f"{interval} ({len(turns)} turns)"])
        figures[name] = {
            "step_ratio": ratios.document(),
            "turns": len(turns),
            "turns_mean_interval_95": [round(interval.low, 5), round(interval.high, 5)],
        }
    columns = ["step time, moor / without", "of each pair", "mean over all turns, 95%"]
    show(f"A step of {1000 * step_s:.1f} ms under `moor run` (target ≤ {TARGET})", columns, rows)
    say(f"taken: {taken:.2%} with a report each step, {silent:.2%} without reports")
    write(
        "overhead",
        machine,
        {
            "target": TARGET,
            "bare_step_ms": round(1000 * step_s, 3),
            "rows": figures,
            "cpu_taken": [round(pair.taken, 5) for pair in pairs],
            "cpu_taken_without_reports": round(silent, 5),
        },
    )


def _pair(moor: Moor, seconds: float) -> Pair:
    argv = command(_LONGEST_S)
    folders = (new_folder(moor), new_folder(moor))
    with bare_started(moor, folders[0], argv) as running:
        wait_for_training(folders[0], lambda: all(one.poll() is None for one in running))
        bare = [process.pid for process in running]
        _signal(bare, signal.SIGSTOP)
        settings = [command_setting(argv)]
        with moor.started(MLP, settings=settings, env=variables(folders[1])) as run:
            wait_for_training(folders[1], lambda: run.process.poll() is None)
            watchers = [run.process.pid, *run.launcher_pids()]
            moored = [*watchers, *run.worker_pids()]
            try:
                taken = _taken(watchers)
                anew = _take_turns(lambda which: _only((bare, moored), which), seconds, _SETTLE_S)
                _only((bare, moored), 1)
                # The step in which the workers were last stopped must have ended.
                time.sleep(_TURN_S)
                same = _take_turns(lambda which: _hold(watchers, which == 0), seconds)
            finally:
                _signal(moored, signal.SIGCONT)
            _end(run, bare)
        for process in running:
            process.wait()
    without, under = (read_steps(folder, WORKERS) for folder in folders)
    return Pair(
        bare=[[worker.between(*turn) for worker in without] for turn in anew[0]],
        moored=[[worker.between(*turn) for worker in under] for turn in anew[1]],
        # With the step that was cut: what was put off is done at the very start of a turn.
        paused=[[worker.ending_in(*turn) for worker in under] for turn in same[0]],
        running=[[worker.ending_in(*turn) for worker in under] for turn in same[1]],
        taken=taken,
    )


def _taken_without_reports(moor: Moor) -> float:
    folder = new_folder(moor)
    settings = [command_setting(command(_LONGEST_S, "--no-report"))]
    with moor.started(MLP, settings=settings, env=variables(folder)) as run:
        wait_for_training(folder, lambda: run.process.poll() is None)
        taken = _taken([run.process.pid, *run.launcher_pids()])
        _end(run, ())
    return taken


def _take_turns(
    switch: Callable[[int], None], seconds: float, settle_s: float = 0.0
) -> tuple[list[Window], list[Window]]:
    """Switch between two states, A B then B A; returns the measured part of each one's turns."""
    turns: tuple[list[Window], list[Window]] = ([], [])
    for order in orders(int(seconds / _TURN_S)):
        for which in order:
            begin_s = time.monotonic() + settle_s
            switch(which)
            time.sleep(settle_s + _TURN_S)
            turns[which].append((begin_s, time.monotonic()))
    return turns


def _only(sets: tuple[Sequence[int], Sequence[int]], which: int) -> None:
    """Let one set of processes run and no other."""
    _signal(sets[1 - which], signal.SIGSTOP)
    _signal(sets[which], signal.SIGCONT)


def _hold(pids: Sequence[int], stopped: bool) -> None:
    _signal(pids, signal.SIGSTOP if stopped else signal.SIGCONT)


def _taken(watchers: Sequence[int]) -> float:
    begin_s, used_s = time.monotonic(), _cpu_s(watchers)
    time.sleep(_TAKEN_S)
    return (_cpu_s(watchers) - used_s) / (time.monotonic() - begin_s) / WORKERS


def _cpu_s(pids: Sequence[int]) -> float:
    """CPU time of these processes; unlike `stat`, `schedstat` counts nanoseconds."""
    tasks = [path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9


def _end(run: Started, bare: Sequence[int]) -> None:
    """All write down their steps and end by themselves."""
    _signal([*run.worker_pids(), *bare], signal.SIGUSR1)
    _signal(bare, signal.SIGCONT)
    output, _ = run.process.communicate()
    if run.process.returncode:
        raise SystemExit(f"moor run failed:\n{output}")


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


if __name__ == "__main__":
    main()
