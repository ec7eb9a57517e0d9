"""How long does a run go on after its program has said its last word?

examples/wide-deep as `make run` starts it, on two virtual nodes where they can be. The chief's last
line comes after the evaluation: from there on it only has to end. As it is: `python -E`, so that
nothing of Mooring is inside the program. Both ways run in turn.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from moored import Moor, temporary_moor
from pairs import interleave
from results import EXAMPLES, Machine, options, say, show, write

from mooring.backends.local import netns

_JOB = EXAMPLES / "wide-deep" / "job.yaml"


@dataclass(frozen=True)
class End:
    """Seconds until the end of the run, since the chief's last step and its last line."""

    since_step_s: float
    since_line_s: float


def main() -> None:
    parser = options(__doc__, pairs=10, seconds=0)
    parser.add_argument("--steps", type=int, default=1200)
    arguments = parser.parse_args()
    machine = Machine("tensorflow-cpu")
    nodes = 0 if netns.why_not() else 2
    with temporary_moor() as moor:
        say(f"{arguments.pairs} pairs of {arguments.steps} steps")
        pairs = interleave(
            lambda: _end(moor, nodes, arguments.steps, "-E"),
            lambda: _end(moor, nodes, arguments.steps),
            arguments.pairs,
        )
    ways = {
        "TensorFlow as it is": [first for first, _ in pairs],
        "with Mooring inside": [second for _, second in pairs],
    }
    columns = ["last line to end of run", "median", "worst", "within 2 s", "from last step, worst"]
    show(
        f"examples/wide-deep, {len(pairs)} runs each", columns, [_row(*way) for way in ways.items()]
    )
    figures = {name: [asdict(end) for end in ends] for name, ends in ways.items()}
    write("end", machine, {"steps": arguments.steps, "rows": figures})


def _end(moor: Moor, nodes: int, steps: int, *python: str) -> End:
    command = ", ".join(["python", *python, "train.py", "--steps", f'"{steps}"'])
    run = moor.finished(_JOB, settings=[f"command=[{command}]"], nodes=nodes)
    ended_s = run.phase_at_s("Succeeded")
    if ended_s is None:
        raise SystemExit("the run did not succeed")
    last_line = run.log("chief-0").splitlines()[-1].split(" ", 1)[0]
    return End(
        since_step_s=round(run.report()["after_last_step_s"], 2),
        since_line_s=round(ended_s - datetime.fromisoformat(last_line).timestamp(), 2),
    )


def _row(name: str, ends: Sequence[End]) -> list[str]:
    waits_s = [end.since_line_s for end in ends]
    return [
        name,
        f"{statistics.median(waits_s):.1f} s",
        f"{max(waits_s):.1f} s",
        f"{sum(wait_s <= 2.0 for wait_s in waits_s)} of {len(waits_s)}",
        f"{max(end.since_step_s for end in ends):.1f} s",
    ]


if __name__ == "__main__":
    main()
