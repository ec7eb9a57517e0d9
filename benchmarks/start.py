"""How long until all members of a gang run, against starting the same processes bare?

The program says through a pipe that it runs, and stays: the clock stops when all have said so.
bare: one Popen after the other. moor: from the start of the `moor` command, with reading the job,
placing it, a launcher and a control group for each member, and the gate that lets none begin before
all are ready. On virtual nodes (root) also the namespaces, the bridge and their NICs.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from moored import Moor, temporary_moor
from pairs import Ratios, interleave, ratios
from results import JOBS, Machine, options, say, show, write

from mooring.backends.local import netns

_DEADLINE_S = 120.0
_PYTHON = "import os, time; os.write(os.open(os.environ['BENCH_FIFO'], 1), b'.'); time.sleep(600)"


@dataclass(frozen=True)
class Start:
    """Seconds until all had said that they run; the last two as the run's own events tell."""

    all_running_s: float
    before_members_s: float = 0.0
    members_s: float = 0.0


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=0)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=2, help="virtual nodes, where they can be")
    arguments = parser.parse_args()
    machine = Machine()
    rows: list[Sequence[str]] = []
    figures: dict[str, object] = {}
    obstacle = netns.why_not()
    with temporary_moor() as moor:
        bare = Bare(moor, arguments.members)
        ways: dict[str, Callable[[], Start]] = {
            "moor, plain processes": lambda: _moored(moor, arguments.members, 0),
            f"moor, {arguments.nodes} virtual nodes": lambda: _moored(
                moor, arguments.members, arguments.nodes
            ),
            "bare, as Python programs": bare.python,
        }
        for name, way in ways.items():
            if "virtual" in name and obstacle:
                say(f"{name}: left out, {obstacle}")
                continue
            say(f"{name}: {arguments.pairs} pairs")
            way()  # files into the page cache, byte code written
            pairs = interleave(bare.shell, way, arguments.pairs)
            ratio = ratios(pairs, lambda start: start.all_running_s)
            rows.append(_row(name, pairs, ratio, arguments.members))
            figures[name] = {
                "bare_s": [round(first.all_running_s, 4) for first, _ in pairs],
                "all_running_s": [round(second.all_running_s, 4) for _, second in pairs],
                "before_members_s": [round(second.before_members_s, 4) for _, second in pairs],
                "members_s": [round(second.members_s, 4) for _, second in pairs],
                "over_bare": ratio.document(),
            }
    columns = ["start", "bare", "all running", "of it the members", "a member more", "ratio"]
    show(f"{arguments.members} members that do nothing, until all run", columns, rows)
    write("start", machine, {"members": arguments.members, "rows": figures})


class Bare:
    """The same programs without Mooring, one Popen after the other."""

    def __init__(self, moor: Moor, members: int) -> None:
        self._moor = moor
        self._members = members

    def shell(self) -> Start:
        return self._start(["sh", "noop.sh"])

    def python(self) -> Start:
        """What any start through Python costs: each launcher is one."""
        return self._start([sys.executable, "-I", "-S", "-c", _PYTHON])

    def _start(self, command: Sequence[str]) -> Start:
        with _fifo(self._moor) as (path, fd):
            env = self._moor.env({"BENCH_FIFO": str(path)})
            begin_s = time.time()
            running = []
            try:
                for _ in range(self._members):
                    running.append(subprocess.Popen(command, cwd=JOBS, env=env))
                _wait_for(fd, self._members)
                return Start(time.time() - begin_s)
            finally:
                for process in running:
                    process.kill()
                for process in running:
                    process.wait()


def _moored(moor: Moor, members: int, nodes: int) -> Start:
    with _fifo(moor) as (path, fd):
        begin_s = time.time()
        with moor.started(
            JOBS / "noop.yaml",
            settings=[f"roles.worker.replicas={members}"],
            nodes=nodes,
            env={"BENCH_FIFO": str(path)},
        ) as run:
            _wait_for(fd, members)
            all_running_s = time.time() - begin_s
            starting_s, running_s = _phases(lambda name: run.phase_at_s(name))
            return Start(all_running_s, starting_s - begin_s, running_s - starting_s)


def _phases(phase_at_s: Callable[[str], float | None]) -> tuple[float, float]:
    """The run itself learns some milliseconds later that all run."""
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        starting_s, running_s = phase_at_s("Starting"), phase_at_s("Running")
        if starting_s is not None and running_s is not None:
            return starting_s, running_s
        time.sleep(0.01)
    raise SystemExit("the run never said that it runs")


@contextmanager
def _fifo(moor: Moor) -> Iterator[tuple[Path, int]]:
    """A named pipe that every member writes one byte to; open for writing too, so never at end."""
    path = moor.home / "fifo"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield path, fd
    finally:
        os.close(fd)
        path.unlink()


def _wait_for(fd: int, count: int) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    seen = 0
    while seen < count:
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise SystemExit(f"only {seen} of {count} said that they run")
        seen += len(os.read(fd, 4096))


def _row(name: str, pairs: Sequence[tuple[Start, Start]], ratio: Ratios, members: int) -> list[str]:
    bare_s = statistics.median(first.all_running_s for first, _ in pairs)
    all_s = statistics.median(second.all_running_s for _, second in pairs)
    members_s = statistics.median(second.members_s for _, second in pairs)
    return [
        name,
        f"{bare_s:.2f} s",
        f"{all_s:.2f} s",
        f"{members_s:.2f} s" if members_s else "–",
        f"{1000 * (all_s - bare_s) / members:.0f} ms",
        str(ratio),
    ]


if __name__ == "__main__":
    main()
