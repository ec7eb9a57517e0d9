"""Is a default job as fast as with what people use today?

The same program, started by `moor run` with a job file of a framework, a command and counts, and
by torchrun, TorchX, mpirun, a shell script with TF_CONFIG, and Ray Train, each as its own
documentation says; in turns. Two figures a row: the median time of a step, and everything else from
the command to its end (starting, importing, connecting, ending). Then the same beside a neighbour
that computes without end, with two jobs side by side, and on four nodes with slow network cards.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from moored import Moor, temporary_moor
from pairs import interleave, ratios
from results import Machine, options, say, show, write
from versus_ways import (
    PROGRAMS,
    Outcome,
    Way,
    four_nodes,
    job_file,
    missing,
    moor_way,
    mpirun,
    peer_way,
    torchrun,
    torchx,
)

NIC_MBPS = 50
#: Rows of one batch: 512 × 16 ids with 16 floats each.
BYTES_PER_STEP = 512 * 16 * 16 * 4
Ways = AbstractContextManager[tuple[Way, Way]]


@dataclass(frozen=True)
class Row:
    """One comparison. `ways` gives Mooring's and the peer's."""

    name: str
    peer: str
    steps: int
    ways: Callable[[Moor], Ways]
    meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=0.0)
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=[row.name for row in ROWS])
    arguments = parser.parse_args()
    machine = Machine("torch", "tensorflow-cpu", "mpi4py")
    lines: list[list[str]] = []
    figures: dict[str, object] = {}
    with temporary_moor() as moor:
        for row in ROWS:
            if arguments.only and row.name not in arguments.only:
                continue
            if reason := missing(row.peer):
                say(f"{row.name}: left out, {reason}")
                continue
            say(f"{row.name}: {arguments.pairs} pairs")
            line, figures[row.name] = _compare(row, moor, arguments.pairs)
            lines.append(line)
            # Row by row: one that fails does not cost the others theirs.
            write("versus", machine, figures, parts=[row.name for row in ROWS])
    columns = ["", "step, peer", "moor", "moor / peer", "the rest, peer", "moor", "more"]
    show("moor run beside what people use", columns, lines)


def _compare(row: Row, moor: Moor, pairs: int) -> tuple[list[str], dict[str, object]]:
    with row.ways(moor) as (ours, theirs), row.meanwhile():
        runs = interleave(lambda: theirs.run(row.steps), lambda: ours.run(row.steps), pairs)
    step = ratios(runs, lambda outcome: outcome.step_ms)
    more_s = [ours.around_s - theirs.around_s for theirs, ours in runs]
    peer, mine = ([pair[which] for pair in runs] for which in (0, 1))
    line = [
        row.name,
        f"{_median(peer, 'step_ms'):.1f} ms",
        f"{_median(mine, 'step_ms'):.1f} ms",
        str(step),
        f"{_median(peer, 'around_s'):.1f} s",
        f"{_median(mine, 'around_s'):.1f} s",
        f"{statistics.median(more_s):+.1f} s ({min(more_s):+.1f} to {max(more_s):+.1f})",
    ]
    document: dict[str, object] = {
        "step_moor_over_peer": step.document(),
        "rest_more_s": [round(value, 3) for value in more_s],
        "pairs": [{"peer": _document(theirs), "moor": _document(ours)} for theirs, ours in runs],
    }
    return line, document


def _median(outcomes: list[Outcome], figure: str) -> float:
    return statistics.median(getattr(outcome, figure) for outcome in outcomes)


def _document(outcome: Outcome) -> dict[str, float]:
    return {
        "wall_s": round(outcome.wall_s, 3),
        "step_ms": round(outcome.step_ms, 3),
        "around_s": round(outcome.around_s, 3),
    }


def _ddp(
    peer: Callable[[int], list[str]], ranks: int, copies: int = 1, **role: object
) -> Callable[[Moor], Ways]:
    """`role`: what the job says of its workers beside their count."""

    @contextmanager
    def ways(moor: Moor) -> Iterator[tuple[Way, Way]]:
        worker = {"replicas": ranks, **role}
        with job_file("pytorch", {"worker": worker}, command=["python", "ddp.py"]) as job:
            yield moor_way(moor, job, copies=copies), peer_way(moor, peer(ranks), copies)

    return ways


@contextmanager
def _mpi(moor: Moor) -> Iterator[tuple[Way, Way]]:
    roles = {
        "launcher": {"replicas": 1, "command": ["mpirun", "python", "mpi.py"]},
        "worker": {"replicas": 2},
    }
    with job_file("mpi", roles) as job:
        yield moor_way(moor, job), peer_way(moor, mpirun(2))


@contextmanager
def _mirrored(moor: Moor) -> Iterator[tuple[Way, Way]]:
    with job_file(
        "tensorflow",
        {"worker": {"replicas": 2}},
        strategy="all-reduce",
        command=["python", "tf_mirrored.py"],
    ) as job:
        script = ["bash", "tf_config.sh", "tf_mirrored.py", "mirrored"]
        yield moor_way(moor, job), peer_way(moor, script)


@contextmanager
def _servers(moor: Moor) -> Iterator[tuple[Way, Way]]:
    counts = {"chief": 1, "ps": 1, "worker": 2}
    roles = {role: {"replicas": count} for role, count in counts.items()}
    with job_file("tensorflow", roles, command=["python", "tf_servers.py"]) as job:
        script = ["bash", "tf_config.sh", "tf_servers.py", "servers"]
        yield moor_way(moor, job), peer_way(moor, script)


@contextmanager
def _slow_cards(moor: Moor) -> Iterator[tuple[Way, Way]]:
    """Four nodes: by hand one process on each, as tutorials have it; Mooring is told what a step
    moves (an earlier run's report says it), and chooses the nodes."""
    counts = {"chief": 1, "ps": 1, "worker": 2}
    roles = {role: {"replicas": count} for role, count in counts.items()}
    with (
        job_file(
            "tensorflow",
            roles,
            command=["python", "tf_servers.py"],
            traffic={"bytesPerStep": BYTES_PER_STEP},
        ) as job,
        four_nodes(NIC_MBPS) as places,
    ):
        script = ["bash", "tf_config.sh", "tf_servers.py", "servers"]
        ours = moor_way(moor, job, "--nodes", "4", "--nic-mbps", str(NIC_MBPS))
        yield ours, peer_way(moor, script, **places)


@contextmanager
def _ray(moor: Moor) -> Iterator[tuple[Way, Way]]:
    with job_file("pytorch", {"worker": {"replicas": 2}}, command=["python", "ddp.py"]) as job:
        yield moor_way(moor, job), peer_way(moor, [sys.executable, "ray_ddp.py"])


@contextmanager
def _neighbour() -> Iterator[None]:
    """A process for each CPU that computes, in a session of its own, as another user's would be."""
    burning = subprocess.Popen([sys.executable, PROGRAMS / "neighbour.py"], start_new_session=True)
    try:
        yield
    finally:
        # The whole session: its children would burn on.
        os.killpg(burning.pid, signal.SIGKILL)
        burning.wait()


ROWS = (
    Row("torchrun-2", "torchrun", 120, _ddp(torchrun, 2)),
    Row("torchrun-4", "torchrun", 80, _ddp(torchrun, 4)),
    Row("torchx-2", "torchx", 120, _ddp(torchx, 2)),
    Row("mpirun-2", "mpirun", 300, _mpi),
    Row("tf-config-all-reduce", "bash", 300, _mirrored),
    Row("tf-config-servers", "bash", 400, _servers),
    Row("ray-train-2", "ray", 120, _ray),
    Row("torchrun-2-neighbour", "torchrun", 60, _ddp(torchrun, 2), _neighbour),
    Row(
        "torchrun-2-neighbour-cpu-asked",
        "torchrun",
        60,
        _ddp(torchrun, 2, resources={"cpu": 1}),
        _neighbour,
    ),
    Row("tf-config-servers-slow-cards", "virtual nodes", 40, _slow_cards),
    Row("torchrun-2-two-jobs", "torchrun", 60, _ddp(torchrun, 2, copies=2)),
)

if __name__ == "__main__":
    main()
