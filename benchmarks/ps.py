"""What do lazy Adam, the placement of variables and the placement of servers bring?

Wide & Deep with parameter servers (examples/wide-deep), two ways of each row in turn. Where the
network matters, on virtual nodes with rate-limited NICs (root on Linux). Name rows to run only
those.

lazy       lazy Adam against Keras' own, a table of 2,000,000 x 16, rows fetched in both
fused      lazy Adam against dense Adam as one operation on the server, which Keras does not use
partition  one hot table on four servers: cut by rows against placed in turn, NICs the limit
spread     four servers on four nodes against all on one
beside     servers beside the workers against servers on nodes of their own
lookups    Keras' Embedding: rows (`variables.lookups`) against whole tables, lazy Adam in both
all        `moor run --fix` of the plain example against `moor run`, 2,000,000 rows
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from moored import Moor, Started, temporary_moor
from pairs import interleave, ratios
from results import EXAMPLES, Machine, say, show, write
from training import command_setting

FOLDER = EXAMPLES / "wide-deep"
_HELD_OUT = re.compile(r"held out: loss (\S+) accuracy (\S+)")


@dataclass(frozen=True)
class Way:
    """One way of doing a row's work."""

    name: str
    script: tuple[str, ...]
    settings: tuple[str, ...] = ()
    job: str = "job.yaml"
    fix: bool = False


@dataclass(frozen=True)
class Row:
    """Two ways of the same work, the slower one first."""

    title: str
    first: Way
    second: Way
    nodes: int = 0
    nic_mbps: int = 0
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """One run. imbalance: bytes through the busiest server over the mean of all."""

    examples_per_s: float
    last_loss: float
    held_out_loss: float
    accuracy: float
    imbalance: float
    megabytes_per_step: float

    def document(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Sizes:
    """How much each run trains; `--quick` is for trying the benchmark out."""

    steps: int = 240
    table_rows: int = 2_000_000
    network_steps: int = 60
    plain_steps: int = 80
    burst: int = 12
    judged: int = 40


QUICK = Sizes(36, 100_000, network_steps=24, plain_steps=36, burst=6, judged=4)


def rows(sizes: Sizes) -> dict[str, Row]:
    table = ("--rows", str(sizes.table_rows), "--judge", str(sizes.judged))
    trained = (*table, "--steps", str(sizes.steps), "--burst", str(sizes.burst))
    plain = ("plain.py", *table, "--steps", str(sizes.plain_steps), "--burst", "4")
    # Rows of 64 numbers and a small dense part: nearly all bytes belong to one table.
    hot = (
        *("--rows", "200000", "--width", "64", "--hidden", "8", "--batch", "1024", "--judge", "0"),
        *("--steps", str(sizes.network_steps), "--burst", str(sizes.burst)),
    )
    return {
        "lazy": Row(
            f"lazy Adam, {sizes.table_rows:,} x 16",
            Way("Keras' Adam", plain, ("variables={lookups: rows}",), "plain.yaml"),
            Way("lazy", plain, ("variables={lookups: rows, optimizer: lazy}",), "plain.yaml"),
        ),
        "fused": Row(
            f"lazy Adam, {sizes.table_rows:,} x 16",
            Way("dense", ("train.py", *trained, "--optimizer", "adam")),
            Way("lazy", ("train.py", *trained)),
        ),
        "partition": Row(
            "one hot table on 4 servers, 6 workers, 20 Mbit/s",
            Way("round-robin", ("train.py", *hot), ("variables.placement=round-robin",)),
            Way("partitioned", ("train.py", *hot), ("variables.placement=partitioned",)),
            nodes=11,
            nic_mbps=20,
            settings=("placement.preset=isolate", "pinning=none", *_members(4, 6, 90)),
        ),
        "spread": Row(
            "4 servers, 2 workers, 20 Mbit/s",
            Way("servers on one node", ("train.py", *hot), ("roles.ps.nodeName=node-0",)),
            Way("servers on four nodes", ("train.py", *hot)),
            nodes=7,
            nic_mbps=20,
            settings=("pinning=none", "placement.preset=isolate", *_members(4, 2, 70)),
        ),
        "beside": Row(
            "2 servers, 2 workers, 20 Mbit/s",
            Way("servers apart", ("train.py", *hot), ("placement.preset=isolate",)),
            Way("servers beside workers", ("train.py", *hot), ("placement.preset=colocate",)),
            nodes=5,
            nic_mbps=20,
            settings=("pinning=none", *_members(2, 2, 150)),
        ),
        "lookups": Row(
            f"Keras' Embedding, {sizes.table_rows:,} x 16",
            Way("whole tables", plain, ("variables={optimizer: lazy}",), "plain.yaml"),
            Way("rows", plain, ("variables={optimizer: lazy, lookups: rows}",), "plain.yaml"),
        ),
        "all": Row(
            f"the plain example, {sizes.table_rows:,} rows",
            Way("moor run", plain, job="plain.yaml"),
            Way("moor run --fix", plain, job="plain.yaml", fix=True),
        ),
    }


def _members(servers: int, workers: int, millis: int) -> tuple[str, ...]:
    resources = f"{{cpu: {millis}m, memory: 800Mi}}"
    return (
        f"roles.ps.replicas={servers}",
        f"roles.worker.replicas={workers}",
        *(f"roles.{role}.resources={resources}" for role in ("chief", "ps", "worker")),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="lazy, partition, ...; all if none")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs")
    parser.add_argument("--quick", action="store_true", help="small sizes: to try it out")
    arguments = parser.parse_args()
    known = rows(QUICK if arguments.quick else Sizes())
    for name in arguments.rows:
        if name not in known:
            parser.error(f"no row {name!r}: there are {', '.join(known)}")
    for name in arguments.rows or known:
        _measure(name, known[name], arguments.pairs, arguments.quick)


def _measure(name: str, row: Row, pairs: int, quick: bool) -> None:
    machine = Machine("tensorflow-cpu")
    say(f"{name}: {pairs} pairs")
    with temporary_moor() as moor:
        found = interleave(
            partial(_train, moor, row, row.first), partial(_train, moor, row, row.second), pairs
        )
    speed = ratios(found, lambda outcome: outcome.examples_per_s)
    loss = ratios(found, lambda outcome: outcome.held_out_loss or outcome.last_loss)
    table: list[Sequence[str]] = []
    for way, index in ((row.first, 0), (row.second, 1)):
        outcomes = sorted((pair[index] for pair in found), key=lambda one: one.examples_per_s)
        middle = outcomes[len(outcomes) // 2]
        table.append(
            [
                way.name,
                f"{middle.examples_per_s:,.0f}",
                f"{middle.held_out_loss or middle.last_loss:.4f}",
                f"{middle.accuracy:.4f}",
                f"{middle.imbalance:.2f}",
                f"{middle.megabytes_per_step:.2f}",
            ]
        )
    columns = ["way", "examples/s", "loss", "accuracy", "max/mean of servers", "MB/step"]
    show(f"{row.title}: {row.second.name} / {row.first.name} = {speed}", columns, table)
    if not quick:
        figures = {
            "title": row.title,
            "ways": [row.first.name, row.second.name],
            "pairs": [[one.document() for one in pair] for pair in found],
            "examples_per_s": speed.document(),
            "loss": loss.document(),
        }
        write(f"ps-{name}", machine, figures)


def _train(moor: Moor, row: Row, way: Way) -> Outcome:
    settings = [*row.settings, *way.settings, command_setting(["python", *way.script])]
    run = moor.finished(
        FOLDER / way.job,
        settings=settings,
        nodes=row.nodes,
        nic_mbps=row.nic_mbps,
        # The pairs are made here.
        more=["--fix", "--probes", "0"] if way.fix else [],
    )
    outcome = _outcome(run)
    say(
        f"  {way.name}: {outcome.examples_per_s:,.0f} examples/s, loss {outcome.last_loss:.4f}, "
        f"max/mean {outcome.imbalance:.2f}"
    )
    return outcome


def _outcome(run: Started) -> Outcome:
    report = run.report()
    moved = [server["received_bytes"] + server["sent_bytes"] for server in report["servers"]]
    judged = _HELD_OUT.search(run.log("chief-0"))
    return Outcome(
        examples_per_s=report["examples_per_s"],
        last_loss=report["last_loss"],
        held_out_loss=float(judged[1]) if judged else 0.0,
        accuracy=float(judged[2]) if judged else 0.0,
        imbalance=max(moved) * len(moved) / sum(moved),
        megabytes_per_step=sum(moved) / report["steps"] / 1e6,
    )


if __name__ == "__main__":
    main()
