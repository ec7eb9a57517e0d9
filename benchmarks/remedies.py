"""What does each remedy of the doctor bring? The run that it is for, and the same run with it.

Remedies that have a benchmark of their own are not here: threads and pinning (threads.py,
pinning.py), variables, lookups, optimizers and where servers run (ps.py), data, checkpoints,
logging and evaluation (stacks.py). Some free what nobody used or keep a run alive: those should
change nothing. Needs root.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cases import Case, run_case
from injections import SMALL_SHM, compute, neighbours, quota, traffic
from moored import Moor, temporary_moor
from pairs import interleave, ratios
from results import Machine, say, show, write

from mooring.report.finish import read_report

_ONE: dict[str, Any] = {"resources": {"cpu": 1}}
_PAIR: dict[str, Any] = {"replicas": 2}


@dataclass(frozen=True)
class Remedy:
    """A finding, what is done about it, and the run before and after."""

    finding: str
    does: str
    before: Case
    after: Case


def remedies() -> Sequence[Remedy]:
    own = {"pinning": "exclusive", "worker": _ONE}
    alone = Case("", "", compute(worker=_ONE))
    exclusive = Case("", "", compute(**own))
    on_cards = {"nodes": 4, "nic_mbps": 20}
    workers = {"replicas": 2, "nodeName": "node-3"}
    server = traffic(
        "--bytes", "20000", "--spin", "0.02", "--narrow", "--pause", "0", ps={}, worker=_PAIR
    )
    servers = traffic("--bytes", "10000", "--spin", "0.01", "--pause", "0", ps=_PAIR, worker=_PAIR)
    return (
        Remedy("cpu-throttled", "no quota", replace(alone, disturb=quota), alone),
        Remedy("cpu-overlap", "not bound by the program",
               Case("", "", compute("--bind", worker=_PAIR)), Case("", "", compute(worker=_PAIR))),
        Remedy("cpu-neighbour", "others elsewhere", replace(exclusive, disturb=neighbours),
               exclusive),
        Remedy("cpu-starved", "two CPUs for trainer and loader",
               Case("", "", compute("--loader", **own)),
               Case("", "", compute("--loader", pinning="exclusive",
                                    worker={"resources": {"cpu": 2}}))),
        Remedy("cpu-idle", "one CPU instead of two",
               Case("", "", compute("--pause", "0.02", worker={"resources": {"cpu": 2}})),
               Case("", "", compute("--pause", "0.02", worker=_ONE))),
        Remedy("cpu-wandering", "exclusive CPUs", Case("", "", compute("--hop", threads=1)),
               exclusive),
        Remedy("mem-limit", "four times the memory",
               Case("", "", compute("--memory", "60", worker={"resources": {"memory": "64Mi"}})),
               Case("", "", compute("--memory", "60", worker={"resources": {"memory": "256Mi"}}))),
        Remedy("shm-full", "the machine's /dev/shm",
               Case("", "", compute("--shm", "7.5"), prefix=SMALL_SHM),
               Case("", "", compute("--shm", "7.5"))),
        Remedy("ps-idle", "two servers instead of four",
               Case("", "", traffic("--bytes", "100000,0,100000,0", ps={"replicas": 4},
                                    worker=_PAIR)),
               Case("", "", traffic("--bytes", "100000", ps=_PAIR, worker=_PAIR))),
        Remedy("ps-cpu", "two servers on any CPU instead of one on one", Case("", "", server),
               Case("", "", servers)),
        Remedy("ps-nic", "three servers on a card each",
               Case("", "", traffic("--bytes", "480000", "--pause", "0", ps={"nodeName": "node-0"},
                                    worker=workers), **on_cards),
               Case("", "", traffic("--bytes", "160000", "--pause", "0", ps={"replicas": 3},
                                    worker=_PAIR),
                    ("placement.preset=isolate",), **on_cards)),
        Remedy("straggler", "a worker like the others",
               Case("", "", traffic("--bytes", "10000", "--pause", "0.03", "--slow", "1",
                                    ps=_PAIR, worker=_PAIR)),
               Case("", "", traffic("--bytes", "10000", "--pause", "0.03", ps=_PAIR,
                                    worker=_PAIR))),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs")
    parser.add_argument("--only", default="", help="findings whose id contains this")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("needs root: virtual nodes, quotas, mounts")
    machine = Machine()
    table: list[Sequence[str]] = []
    figures: dict[str, object] = {}
    with temporary_moor() as moor:
        for one in remedies():
            if arguments.only not in one.finding:
                continue
            pairs = interleave(
                partial(_speed, moor, one.before), partial(_speed, moor, one.after), arguments.pairs
            )
            gain = ratios(pairs, lambda speed: speed)
            say(f"{one.finding}: {gain}")
            before, after = (sorted(each)[len(each) // 2] for each in zip(*pairs, strict=True))
            table.append([one.finding, one.does, f"{before:,.1f}", f"{after:,.1f}", str(gain)])
            figures[one.finding] = {"does": one.does, "steps_per_s": pairs, **gain.document()}
    show("steps/s without and with each remedy", ["finding", "remedy", "before", "after", "gain"],
         table)  # fmt: skip
    write("remedies", machine, figures)


def _speed(moor: Moor, case: Case) -> float:
    """Steps a second of all members."""
    report = read_report(run_case(moor, case))
    if report.examples_per_s is None:
        raise SystemExit("nobody reported steps")
    return report.examples_per_s


if __name__ == "__main__":
    main()
