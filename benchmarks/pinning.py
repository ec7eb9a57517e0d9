"""Is training faster when each worker holds a CPU of its own than when the kernel moves it about?

Two PyTorch workers with one thread each on two CPUs: `pinning: exclusive` against `pinning: none`;
alone, and beside a neighbour that computes without end on whichever CPU it is put.
Workers that wait for each other at every step go as fast as the slowest: so that is shown too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from moored import Moor, temporary_moor
from pairs import interleave, ratios
from results import Machine, options, say, show, write
from steps import Steps, examples_per_s, slowest_per_s
from training import command, moored

_BUSY = "while True: pass"


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=5.0)
    parser.add_argument("--neighbours", type=int, default=1, help="busy loops beside the job")
    arguments = parser.parse_args()
    machine = Machine("torch")
    rows: list[Sequence[str]] = []
    figures: dict[str, object] = {}
    with temporary_moor() as moor:
        for name, neighbours in (("alone", 0), ("noisy neighbour", arguments.neighbours)):
            say(f"{name}: {arguments.pairs} pairs of {arguments.seconds:g} s")
            with _busy(neighbours):
                pairs = interleave(
                    lambda: _train(moor, arguments.seconds, "none"),
                    lambda: _train(moor, arguments.seconds, "exclusive"),
                    arguments.pairs,
                )
            total, slowest = ratios(pairs, examples_per_s), ratios(pairs, slowest_per_s)
            floating, pinned = pairs[0]
            rows.append(
                [
                    name,
                    f"{examples_per_s(floating):,.0f}",
                    f"{examples_per_s(pinned):,.0f}",
                    str(total),
                    str(slowest),
                ]
            )
            figures[name] = {
                "neighbours": neighbours,
                "examples_per_s": [
                    [[round(worker.examples_per_s, 1) for worker in half] for half in pair]
                    for pair in pairs
                ],
                "pinned_over_floating": total.document(),
                "slowest_pinned_over_floating": slowest.document(),
            }
    columns = [
        "two workers",
        "examples/s floating",
        "pinned",
        "pinned / floating",
        "slowest worker, pinned / floating",
    ]
    show("Pinned to disjoint CPUs", columns, rows)
    write("pinning", machine, {"rows": figures})


def _train(moor: Moor, seconds: float, pinning: str) -> list[Steps]:
    steps, _ = moored(moor, command(seconds), [f"pinning={pinning}"])
    return steps


@contextmanager
def _busy(count: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-S", "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
