"""How long is a run of members that do nothing, from the command to its end?

Seconds on the clock, and of CPU time with all its children. With `--before FOLDER`, the `src` of
another state of Mooring, the two take turns, and the ratio holds on a busy machine, too.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moored import Moor, temporary_moor
from pairs import interleave, ratios
from results import JOBS, Machine, options, say, show, write


@dataclass(frozen=True)
class Run:
    wall_s: float
    cpu_s: float


def main() -> None:
    parser = options(__doc__, pairs=10, seconds=0)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--before", type=Path, help="the folder `src` to compare with")
    arguments = parser.parse_args()
    machine = Machine()
    rows: list[Sequence[str]] = []
    figures: dict[str, object] = {"members": arguments.members}
    with temporary_moor() as moor:

        def now() -> Run:
            return _run(moor, arguments.members, None)

        def other() -> Run:
            return _run(moor, arguments.members, arguments.before) if arguments.before else now()

        say(f"{arguments.pairs} pairs")
        now(), other()  # byte code written, the launcher packed
        pairs = interleave(other, now, arguments.pairs)
    runs = {"now": [second for _, second in pairs]}
    if arguments.before:
        runs["before"] = [first for first, _ in pairs]
        figures["cpu_over_before"] = ratios(pairs, lambda run: run.cpu_s).document()
        figures["wall_over_before"] = ratios(pairs, lambda run: run.wall_s).document()
    for name, found in runs.items():
        walls, cpus = [run.wall_s for run in found], [run.cpu_s for run in found]
        rows.append(
            [name, *(f"{s:.2f} s" for s in _spread(walls)), *(f"{s:.2f} s" for s in _spread(cpus))]
        )
        figures[name] = {
            "wall_s": [round(value, 4) for value in walls],
            "cpu_s": [round(value, 4) for value in cpus],
        }
    columns = ["state", "wall, least", "median", "CPU, least", "median"]
    show(f"a run of {arguments.members} members that do nothing", columns, rows)
    write("short", machine, figures)


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return min(values), statistics.median(values)


def _run(moor: Moor, members: int, source: Path | None) -> Run:
    more = {"PYTHONPATH": str(source.absolute())} if source else {}
    command = [sys.executable, "-m", "mooring", "run", str(JOBS / "noop.yaml")]
    command += ["--set", f"roles.worker.replicas={members}", "--set", 'command=["true"]']
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    done = subprocess.run(command, env=moor.env(more), capture_output=True, check=False)
    wall_s = time.perf_counter() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"moor run failed:\n{done.stderr.decode()}")
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Run(wall_s, cpu_s)


if __name__ == "__main__":
    main()
