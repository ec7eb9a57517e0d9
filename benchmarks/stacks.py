"""What do looks at trainers' stacks cost, and what do the remedies bring that follow from them?

Looks: one PyTorch trainer whose launcher looks at it or does not: the CPU time of a step, which
hardly depends on who else uses the machine; and the CPU time of the launcher. Remedies:
`jobs/beside.py` does something beside training; then what the doctor says: a loader process, one
file instead of many, or so many times less often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from moored import Moor, temporary_moor
from pairs import Ratios, interleave, orders, ratios
from results import JOBS, Machine, options, say, show, write
from training import command_setting

from mooring.doctor.findings.often import times_less
from mooring.doctor.read_run import read_run
from mooring.record.runs import open_run
from mooring.stacks import Category
from mooring.wire import read_journal
from mooring.wire.members import Step
from mooring.wire.samples import Sample

BESIDE = JOBS / "beside.yaml"
_LOOKED_S = 45.0
OFTEN = {
    "save": Category.CHECKPOINT,
    "log": Category.LOGGING,
    "evaluate": Category.EVALUATION,
}


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=6.0)
    parser.add_argument("--only", default="", help="looks, or a cause")
    arguments = parser.parse_args()
    machine = Machine("torch")
    figures: dict[str, object] = {}
    rows: list[Sequence[str]] = []
    with temporary_moor() as moor:
        if arguments.only in ("", "looks"):
            figures["looks"] = _looks(moor, arguments.pairs)
        for cause in ("decode", "files", "save", "log", "evaluate"):
            if arguments.only not in ("", cause):
                continue
            before = partial(_speed, moor, arguments.seconds, "--cause", cause)
            remedy = _remedy(moor, cause)
            say(f"{cause}: {' '.join(remedy)}, {arguments.pairs} pairs")
            after = partial(_speed, moor, arguments.seconds, *remedy)
            pairs = interleave(before, after, arguments.pairs)
            gain = ratios(pairs, lambda speed: speed)
            rows.append([cause, " ".join(remedy), str(gain)])
            figures[cause] = {
                "remedy": list(remedy),
                "examples_per_s": [[round(one, 1) for one in pair] for pair in pairs],
                "after_over_before": gain.document(),
            }
    if rows:
        show("Remedies", ["cause", "remedy", "examples/s, after / before"], rows)
    write("stacks", machine, figures)


def _remedy(moor: Moor, cause: str) -> tuple[str, ...]:
    """As the doctor says it of a run with the cause."""
    if cause == "decode":
        return "--cause", cause, "--workers", "1"
    if cause == "files":
        return "--cause", "packed"
    run = moor.finished(BESIDE, settings=[_setting(8.0, "--cause", cause)])
    record = open_run(run.folder)
    assert record is not None
    [member] = read_run(record).members
    share = member.stacks[0].share(OFTEN[cause])
    return "--cause", cause, "--every", str(times_less(share))


def _setting(seconds: float, *more: str) -> str:
    return command_setting(["python", "beside.py", "--seconds", str(seconds), *more])


def _speed(moor: Moor, seconds: float, *more: str) -> float:
    report = moor.run(BESIDE, settings=[_setting(seconds, *more)])
    return float(report["examples_per_s"])


def _looks(moor: Moor, pairs: int) -> dict[str, object]:
    """CPU time of a step while the launcher looks and while it does not; and the launcher's own."""
    say(f"looks: {pairs} pairs of runs")
    measured: list[tuple[_Cost, _Cost]] = []
    for order in orders(pairs):
        costs = {looked: _cost(moor, bool(looked)) for looked in order}
        measured.append((costs[0], costs[1]))
    speed = Ratios(tuple(looked.step_cpu_s / plain.step_cpu_s for plain, looked in measured))
    first = median(looked.first for _, looked in measured)
    later = median(looked.later for _, looked in measured)
    without = median(plain.later for plain, _ in measured)
    rows = [
        ["the first 20 s", f"{100 * first:.2f} %", ""],
        ["later", f"{100 * later:.2f} %", str(speed)],
        ["without looks", f"{100 * without:.2f} %", ""],
    ]
    columns = ["launcher", "of one CPU", "CPU time a step, with / without"]
    show("Looking at one trainer", columns, rows)
    return {
        "launcher_cpu_share": {
            "first_20_s": round(first, 5),
            "later": round(later, 5),
            "without": round(without, 5),
        },
        "with_over_without": speed.document(),
    }


@dataclass(frozen=True)
class _Cost:
    """Parts of a CPU that the launcher used, and what a step cost the trainer."""

    first: float
    later: float
    step_cpu_s: float


def _cost(moor: Moor, looked: bool) -> _Cost:
    more = () if looked else ("--no-stacks",)
    run = moor.finished(BESIDE, settings=[_setting(_LOOKED_S)], more=more)
    file = run.folder / "samples" / "worker-0.jsonl"
    steps, samples = list(read_journal(file, Step)), list(read_journal(file, Sample))
    from_s = steps[0].t
    early = [sample for sample in samples if from_s <= sample.t <= from_s + 20]
    late = [sample for sample in samples if sample.t > from_s + 21][:-1]
    used = late[-1].cpu_s - late[0].cpu_s
    done = sum(step.count for step in steps if late[0].t < step.t <= late[-1].t)
    return _Cost(_share(early), _share(late), used / max(1, done))


def _share(samples: Sequence[Sample]) -> float:
    first, last = samples[0], samples[-1]
    return (last.launcher_cpu_s - first.launcher_cpu_s) / (last.t - first.t)


if __name__ == "__main__":
    main()
