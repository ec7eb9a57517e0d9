"""How fast is virtual time? Events a second, against a bare heap, and a large cluster whole.

An event is an arrival or an end of a job. The bare loop pushes and pops the same number of events
and does nothing else: no simulator in Python can be faster. The loop alone: the simulator's own
clock, records and figures, with a scheduler that lets everybody start at once; it is measured in
turn with the bare loop, on the same events. All of it: the same with the real queue and the real
placement, whose time is nearly all that there is; it takes one full decision about a gang for
every two events. Small gangs: 1 to 4 members on 100 nodes. Contended: more is asked for than there
is, so that jobs wait, pass others and preempt. Large: 100,000 jobs on 10,000 nodes in a process of
its own, with its largest memory. Times are of the clock on the wall and of the CPU: the simulator
is one thread that waits for nothing, so on an idle machine the two agree.
"""

from __future__ import annotations

import argparse
import heapq
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from results import Machine, say, show, write

from mooring.model.cluster import Node
from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.resources import Resources
from mooring.simulate.generate import Shape, generate
from mooring.simulate.run import simulate
from mooring.simulate.schedule import QueueScheduler
from mooring.simulate.scheduler import Change, Started
from mooring.simulate.workload import RoleShape, Workload, WorkloadJob
from mooring.spec import parse_cluster

_CLUSTER = """
apiVersion: mooring.dev/v1
kind: Cluster
nodes:
- {{namePrefix: gpu, count: {gpu_nodes}, cpus: 64, sockets: 2, memory: 512Gi, gpus: {{perCell: 4}}}}
- {{namePrefix: cpu, count: {cpu_nodes}, cpus: 32, memory: 128Gi}}
"""
_SMALL = Shape(load=0.7, gang_most=4, server_share=0.0)
_LARGE = Shape(load=0.7)
_CONTENDED = Shape(load=1.2, duration_sigma=1.0, day_ratio=1.0)
_TURNS = 5


class LetsAllStart:
    """Decides nothing: one member that asks for nothing, always on the same node."""

    def __init__(self) -> None:
        self._new: list[str] = []
        self._plan = Plan("any", (Placement(MemberId("worker", 0), Slot("gpu-0", ())),))

    def arrive(self, job: WorkloadJob, now_s: float) -> None:
        self._new.append(job.name)

    def end(self, job: str, now_s: float) -> None:
        pass

    def decide(self, now_s: float) -> Sequence[Change]:
        started = [Started(name, self._plan) for name in self._new]
        self._new.clear()
        return started

    def waiting(self) -> Mapping[str, str]:
        return {}

    def wakes_s(self, now_s: float) -> float | None:
        return None


def loop_alone(nodes: tuple[Node, ...], work: Workload) -> float:
    """Events a CPU second without a queue and a placement."""
    role = (RoleShape("worker", 1, Resources()),)
    light = replace(work, jobs=tuple(replace(job, roles=role) for job in work.jobs))
    began_s = time.process_time()
    figures = simulate(light, nodes, LetsAllStart(), round_s=0.0).figures
    return figures.events / (time.process_time() - began_s)


@dataclass(frozen=True)
class Outcome:
    nodes: int
    jobs: int
    events: int
    decisions: int
    wall_s: float
    cpu_s: float
    events_per_s: float
    simulated_s: float
    gpu_utilisation: float
    gpu_utilisation_peak: float
    queueing_mean_s: float
    queueing_most_s: float
    preemptions: int
    peak_memory_gib: float


def cluster(nodes: int) -> tuple[Node, ...]:
    text = _CLUSTER.format(gpu_nodes=nodes // 2, cpu_nodes=nodes - nodes // 2)
    return parse_cluster(text, "benchmark")


def workload(nodes: tuple[Node, ...], jobs: int, shape: Shape) -> Workload:
    total = Resources(
        sum(node.cpu_millis for node in nodes),
        sum(node.memory_bytes for node in nodes),
        sum(len(node.gpus) for node in nodes),
    )
    return generate(1, jobs, total, nodes[0].capacity, shape)


def bare_loop(work: Workload) -> float:
    """Events a CPU second of a heap with nothing around it."""
    began_s = time.process_time()
    heap = [(job.arrival_s, number, False) for number, job in enumerate(work.jobs)]
    heapq.heapify(heap)
    durations = [job.duration_s for job in work.jobs]
    while heap:
        now_s, number, ends = heapq.heappop(heap)
        if not ends:
            heapq.heappush(heap, (now_s + durations[number], number, True))
    return 2 * len(work.jobs) / (time.process_time() - began_s)


def in_turn(nodes: tuple[Node, ...], work: Workload) -> list[tuple[float, float]]:
    """The bare loop and the loop alone, one after the other, the first one changing."""
    found = []
    for turn in range(_TURNS):
        if turn % 2:
            alone = loop_alone(nodes, work)
            found.append((bare_loop(work), alone))
        else:
            bare = bare_loop(work)
            found.append((bare, loop_alone(nodes, work)))
    return found


def measure(nodes: tuple[Node, ...], work: Workload, round_s: float) -> Outcome:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    scheduler = QueueScheduler(nodes, work.all_pools())
    figures = simulate(work, nodes, scheduler, round_s=round_s).figures
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    return Outcome(
        len(nodes),
        figures.jobs,
        figures.events,
        figures.decisions,
        round(wall_s, 2),
        round(cpu_s, 2),
        round(figures.events / cpu_s, 1),
        round(figures.makespan_s, 1),
        round(figures.gpu_utilisation or 0.0, 4),
        round(max(point.gpu for point in figures.series), 4),
        round(figures.queueing.mean_s, 2),
        round(figures.queueing.most_s, 2),
        figures.preemptions,
        round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--small-jobs", type=int, default=5000)
    parser.add_argument("--contended-jobs", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=10_000, help="of the large cluster")
    parser.add_argument("--jobs", type=int, default=100_000, help="on the large cluster")
    parser.add_argument("--round", type=float, default=1.0, help="seconds between rounds, at least")
    parser.add_argument("--only-large", action="store_true", help="print the large one as JSON")
    arguments = parser.parse_args()
    if arguments.only_large:
        nodes = cluster(arguments.nodes)
        outcome = measure(nodes, workload(nodes, arguments.jobs, _LARGE), arguments.round)
        print(json.dumps(asdict(outcome)))
        return
    machine = Machine("numpy")
    nodes = cluster(100)
    work = workload(nodes, arguments.small_jobs, _SMALL)
    turns = in_turn(nodes, work)
    bare = statistics.median(turn[0] for turn in turns)
    alone = statistics.median(turn[1] for turn in turns)
    parts = sorted(turn[1] / turn[0] for turn in turns)
    small = measure(nodes, work, arguments.round)
    contended = measure(
        nodes, workload(nodes, arguments.contended_jobs, _CONTENDED), arguments.round
    )
    say(f"{arguments.jobs:,} jobs on {arguments.nodes:,} nodes")
    large = _large(arguments)
    named = (("small gangs", small), ("contended", contended), ("large cluster", large))
    rows = [
        ["bare heap", "", f"{len(work.jobs):,}", "", "", "", f"{bare:,.0f}", "100 %", ""],
        _row("loop alone", len(work.jobs), alone, statistics.median(parts)),
        *(
            [
                name,
                f"{one.nodes:,}",
                f"{one.jobs:,}",
                f"{one.decisions:,}",
                f"{one.wall_s:.1f} s",
                f"{one.cpu_s:.1f} s",
                f"{one.events_per_s:,.0f}",
                f"{100 * one.events_per_s / bare:.2f} %",
                f"{one.peak_memory_gib:.2f} GiB",
            ]
            for name, one in named
        ),
    ]
    columns = [
        "",
        "nodes",
        "jobs",
        "rounds",
        "time",
        "CPU",
        "events/s",
        "of the bare heap",
        "memory",
    ]
    show("The simulator", columns, rows)
    write(
        "simulator",
        machine,
        {
            "bare_events_per_s": round(bare, 1),
            "loop_alone_events_per_s": round(alone, 1),
            "loop_alone_over_bare": [round(part, 4) for part in parts],
            **{name.replace(" ", "_"): asdict(one) for name, one in named},
        },
    )


def _row(name: str, jobs: int, rate: float, part: float) -> list[str]:
    return [name, "", f"{jobs:,}", "", "", "", f"{rate:,.0f}", f"{100 * part:.1f} %", ""]


def _large(arguments: argparse.Namespace) -> Outcome:
    command = [sys.executable, __file__, "--only-large"]
    command += ["--nodes", str(arguments.nodes), "--jobs", str(arguments.jobs)]
    command += ["--round", str(arguments.round)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Outcome(**json.loads(done.stdout))


if __name__ == "__main__":
    main()
