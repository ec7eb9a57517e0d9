"""Do thread counts that follow from the CPU budget beat one thread for each CPU of a big host?

A library in a container counts the CPUs of the host, not those that the container may use.
`threads: 80` reproduces a host with 80; `threads: auto` is what the launcher sets from the budget.
Two jobs: TensorFlow with parameter servers (examples/wide-deep) and PyTorch (an MLP, two workers).
And members that share the machine's CPUs: a thread for each CPU in every member, as libraries have
it, against the CPUs divided among them; a small transformer with DistributedDataParallel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from moored import Moor, temporary_moor
from pairs import interleave, ratios
from results import EXAMPLES, Machine, options, say, show, write
from steps import examples_per_s
from training import command, command_setting, moored
from versus_ways import job_file, moor_way

HOST_THREADS = 80
SHARED_STEPS = 40


@dataclass(frozen=True)
class Outcome:
    """One run: how fast it trained, and how often the kernel switched for a thousand examples."""

    examples_per_s: float
    switches_per_1000: float


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=5.0)
    parser.add_argument("--steps", type=int, default=480, help="of the TensorFlow job")
    arguments = parser.parse_args()
    machine = Machine("tensorflow-cpu", "torch")
    rows: list[Sequence[str]] = []
    figures: dict[str, object] = {}
    with temporary_moor() as moor:
        jobs: dict[str, Callable[[str], Outcome]] = {
            "TensorFlow, wide & deep": partial(_wide_deep, moor, arguments.steps),
            "PyTorch, MLP": partial(_mlp, moor, arguments.seconds),
        }
        for name, run in jobs.items():
            say(f"{name}: {arguments.pairs} pairs")
            pairs = interleave(
                partial(run, str(HOST_THREADS)), partial(run, "auto"), arguments.pairs
            )
            speed = ratios(pairs, lambda outcome: outcome.examples_per_s)
            calm = ratios(
                [(auto, many) for many, auto in pairs], lambda outcome: outcome.switches_per_1000
            )
            many, auto = pairs[0]
            rows.append(
                [
                    name,
                    f"{many.examples_per_s:,.0f}",
                    f"{auto.examples_per_s:,.0f}",
                    str(speed),
                    str(calm),
                ]
            )
            figures[name] = {
                "examples_per_s": [
                    [round(one.examples_per_s, 1) for one in pair] for pair in pairs
                ],
                "switches_per_1000_examples": [
                    [round(one.switches_per_1000, 1) for one in pair] for pair in pairs
                ],
                "examples_per_s_auto_over_80": speed.document(),
                "switches_80_over_auto": calm.document(),
            }
    columns = [
        "job",
        f"examples/s, {HOST_THREADS} threads",
        "auto",
        "auto / 80",
        "switches per example, 80 / auto",
    ]
    show("Threads from the budget", columns, rows)
    say(f"members that share CPUs: {arguments.pairs} pairs")
    shared = _shared(arguments.pairs)
    show(
        "Two members that share the CPUs",
        ["", "step, all for each", "divided", "times"],
        [shared.row],
    )
    figures["shared CPUs"] = shared.figures
    write("threads", machine, {"host_threads": HOST_THREADS, "rows": figures})


@dataclass(frozen=True)
class Shared:
    row: list[str]
    figures: dict[str, object]


def _shared(count: int) -> Shared:
    """Steps of two ranks that share all CPUs: every rank a thread for each CPU, and divided."""
    cpus = len(os.sched_getaffinity(0))
    with (
        temporary_moor() as moor,
        job_file("pytorch", {"worker": {"replicas": 2}}, command=["python", "ddp.py"]) as job,
    ):
        ways = [moor_way(moor, job, "--set", f"threads={value}") for value in (cpus, "auto")]
        pairs = interleave(
            lambda: ways[0].run(SHARED_STEPS), lambda: ways[1].run(SHARED_STEPS), count
        )
    faster = ratios([(auto, every) for every, auto in pairs], lambda outcome: outcome.step_ms)
    steps_ms = [[round(outcome.step_ms, 2) for outcome in pair] for pair in pairs]
    every, auto = (median(pair[which] for pair in steps_ms) for which in (0, 1))
    row = ["PyTorch, DDP", f"{every:.1f} ms", f"{auto:.1f} ms", str(faster)]
    return Shared(row, {"step_ms": steps_ms, "times_as_fast": faster.document()})


def _wide_deep(moor: Moor, steps: int, threads: str) -> Outcome:
    report = moor.run(
        EXAMPLES / "wide-deep" / "job.yaml",
        settings=[
            command_setting(["python", "train.py", "--steps", str(steps)]),
            f"threads={threads}",
        ],
    )
    return Outcome(report["examples_per_s"], _switches_per_1000(report))


def _mlp(moor: Moor, seconds: float, threads: str) -> Outcome:
    steps, report = moored(moor, command(seconds), ["pinning=shared", f"threads={threads}"])
    return Outcome(examples_per_s(steps), _switches_per_1000(report))


def _switches_per_1000(report: dict[str, Any]) -> float:
    switches = sum(
        member["context_switches_voluntary"] + member["context_switches_involuntary"]
        for member in report["members"]
    )
    return float(1000 * switches / report["examples"])


if __name__ == "__main__":
    main()
