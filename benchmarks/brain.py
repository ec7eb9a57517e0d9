"""How many gangs can the brain decide about in a second, and how does that grow?

A warm cluster of mixed nodes, partly held by other jobs, and every rule active: the scores of the
preset (with the required rules of isolate and colocate), preferences between roles, selector, node
affinity, tolerations, a fixed port, whole CPUs near devices of one kind, traffic, and all scores of
a profile. Each figure is one decision about a whole gang, from the gang to the plan with CPUs,
cells and devices of each member. What is shown is CPU time of the deciding process: it uses one
thread and waits for nothing, so on an idle machine that is the time it takes. Each decision is
about a gang that the brain has not seen before. The cluster is kept out of the garbage collector's
sight (gc.freeze), as in any process that keeps one for long.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from results import Machine, say, show, write

from mooring.brain import ClusterState
from mooring.brain.profile import FULL
from mooring.model.affinity import NodeWish, Operator, Requirement, Term
from mooring.model.cluster import Cpu, Gpu, Node, Snapshot, Taint, Toleration
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset, Relation, Rule
from mooring.model.plan import Plan
from mooring.model.resources import Resources
from mooring.model.traffic import Pattern, Traffic

_GIB = 1 << 30
_GANGS = (1, 8, 64, 1000)
_NODES = (100, 1_000, 5_000, 20_000)
#: Members, nodes and seconds that are promised.
_PROMISED = (1000, 5_000, 0.050)


@dataclass(frozen=True)
class Timing:
    """CPU seconds of each repeat, and what the clock on the wall said."""

    seconds: tuple[float, ...]
    wall: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def document(self) -> dict[str, object]:
        return {
            "median_ms": round(1000 * self.median, 3),
            "min_ms": round(1000 * min(self.seconds), 3),
            "max_ms": round(1000 * max(self.seconds), 3),
            "wall_median_ms": round(1000 * statistics.median(self.wall), 3),
            "decisions_per_s": round(1 / self.median, 1),
            "repeats": len(self.seconds),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="measured, each figure")
    parser.add_argument("--nodes", type=int, nargs="*", default=list(_NODES))
    parser.add_argument("--presets", nargs="*", default=["spread", "pack", "colocate", "isolate"])
    arguments = parser.parse_args()
    machine = Machine("numpy")
    decisions: dict[str, object] = {}
    pods: dict[str, object] = {}
    memory: dict[str, object] = {}
    rows: list[Sequence[str]] = []
    kept: list[str] = []
    for count in arguments.nodes:
        say(f"{count} nodes")
        state, memory[str(count)] = _warm_cluster(count)
        for size in _GANGS:
            row = [f"{count:,}", f"{size:,}"]
            for preset in arguments.presets:
                timing, placed = _time_gang(state, size, Preset(preset), arguments.seconds)
                decisions[f"{preset}, {size} members, {count} nodes"] = {
                    **timing.document(),
                    "placed": placed,
                }
                row.append(_cell(timing, placed))
                if (size, count) == _PROMISED[:2]:
                    kept.append(_kept(preset, timing))
            rows.append(row)
        pods[str(count)] = _one_more_pod(state, arguments.seconds)
        del state
        gc.unfreeze()
    show(
        "one decision about a whole gang (decisions a second); (no room) = refused",
        ["nodes", "members", *arguments.presets],
        rows,
    )
    show("one more pod on a warm cluster", ["nodes", "place", "assume", "release"], _pods(pods))
    show(
        "memory of the warm cluster",
        ["nodes", "arrays a node", "all a node", "built in"],
        [_memory_row(name, figures) for name, figures in memory.items()],
    )
    for sentence in kept:
        say(sentence)
    write("brain", machine, {"decisions": decisions, "one_more_pod": pods, "memory": memory})


def _cpus(count: int, cells: int) -> tuple[Cpu, ...]:
    """Two siblings a core, eight CPUs an L3 group."""
    per_cell = count // cells
    return tuple(Cpu(i, i // 2, i // 8, i // per_cell, i // per_cell) for i in range(count))


def _nodes(count: int) -> tuple[Node, ...]:
    """GPU nodes with two sockets, large and small CPU nodes; racks, zones, some tainted."""
    gpu_cpus, large_cpus, small_cpus = _cpus(64, 2), _cpus(96, 4), _cpus(32, 1)
    gpus = tuple(Gpu(i, i // 4, "a100") for i in range(8))
    found = []
    for i in range(count):
        cpus, devices, gib = (
            (gpu_cpus, gpus, 512),
            (large_cpus, (), 384),
            (gpu_cpus, gpus, 512),
            (small_cpus, (), 128),
        )[i % 4]
        taints = [Taint("maintenance")] if i % 50 == 49 else []
        if i % 20 == 7:
            taints.append(Taint("spot", effect="PreferNoSchedule"))
        labels = {"zone": f"z{i % 3}", "rack": f"r{i // 40}", "disk": "fast" if i % 5 else "slow"}
        found.append(
            Node(
                f"node-{i:05}",
                cpus,
                1000 * len(cpus),
                gib * _GIB,
                devices,
                25_000,
                labels,
                tuple(taints),
            )
        )
    return tuple(found)


def _warm_cluster(count: int) -> tuple[ClusterState, dict[str, object]]:
    """Gangs of 4 of many sizes hold parts of it, so that nodes are in many different states."""
    nodes = _nodes(count)
    gc.collect()
    tracemalloc.start()
    begin_s = time.perf_counter()
    state = ClusterState(Snapshot(nodes), FULL)
    built_s = time.perf_counter() - begin_s
    for number in range(count // 4):
        gang = _others(number)
        plan = state.place(gang)
        if isinstance(plan, Plan):
            state.assume(gang, plan)
        if number > 600:  # more states do not make it slower; making them would take minutes
            break
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    gc.collect()
    gc.freeze()
    return state, {
        "array_bytes_a_node": round(state.nbytes / count, 1),
        "bytes_a_node": round(held / count, 1),
        "built_ms": round(1000 * built_s, 2),
        "jobs_held": len(state.held),
    }


def _others(number: int) -> Gang:
    members = _members(
        f"other-{number}",
        "worker",
        4,
        1 + number % 7,
        4 + number % 5,
        number % 3,
        Pinning.EXCLUSIVE if number % 4 else Pinning.SHARED,
    )
    return Gang(f"other-{number}", members, Preset.SPREAD)


def _members(
    job: str,
    role: str,
    count: int,
    cpus: int,
    gib: int,
    gpus: int,
    pinning: Pinning,
    **more: object,
) -> tuple[Member, ...]:
    resources = Resources(1000 * cpus, gib * _GIB, gpus)
    return tuple(
        Member(MemberId(role, i), job, resources, pinning, **more)  # type: ignore[arg-type]
        for i in range(count)
    )


def _gang(size: int, preset: Preset) -> Gang:
    """An eighth of it servers, a chief, and a rule of each sort."""
    servers = size // 8
    chiefs = 1 if size >= 8 else 0
    near = Requirement("zone", Operator.IN, ("z0", "z1"))
    picky = {
        "wish": NodeWish(
            required=(Term((Requirement("disk", Operator.NOT_IN, ("broken",)),)),),
            preferred=(Term((near,), 10),),
            gpu_kind="a100",
        ),
        "tolerations": (Toleration("spot", "Exists"),),
        "node_selector": {"disk": "fast"},
    }
    members = (
        _members("job", "chief", chiefs, 2, 4, 0, Pinning.SHARED, ports={"main": 2222})
        + _members("job", "ps", servers, 2, 8, 0, Pinning.EXCLUSIVE)
        + _members("job", "worker", size - servers - chiefs, 4, 16, 1, Pinning.EXCLUSIVE, **picky)
    )
    rules = (
        Rule(Relation.APART, ("chief",), ("ps",), weight=20),
        Rule(Relation.TOGETHER, ("chief",), ("worker",), weight=20),
    )
    exchanged = Traffic(Pattern.PARAMETER_SERVER, 100_000_000)
    return Gang(
        "job",
        members,
        preset,
        (("ps", Duty.SERVES),),
        rules if size >= 8 else (),
        traffic=exchanged,
    )


def _time_gang(
    state: ClusterState, size: int, preset: Preset, seconds: float
) -> tuple[Timing, bool]:
    outcome = state.place(_gang(size, preset))
    timing = _time(lambda: _gang(size, preset), state.place, seconds)
    return timing, isinstance(outcome, Plan)


def _time(
    make: Callable[[], Gang], work: Callable[[Gang], object], duration_s: float, fewest: int = 3
) -> Timing:
    """Making the gang is not counted."""
    seconds: list[float] = []
    wall: list[float] = []
    end_s = time.perf_counter() + duration_s
    while len(seconds) < fewest or time.perf_counter() < end_s:
        gang = make()
        begin_wall_s, begin_s = time.perf_counter(), time.process_time()
        work(gang)
        seconds.append(time.process_time() - begin_s)
        wall.append(time.perf_counter() - begin_wall_s)
    return Timing(tuple(seconds), tuple(wall))


def _one_more_pod(state: ClusterState, seconds: float) -> dict[str, object]:
    gang = _gang(1, Preset.SPREAD)
    plan = state.place(gang)
    assert isinstance(plan, Plan)
    place = _time(lambda: _gang(1, Preset.SPREAD), state.place, seconds)
    assume: list[float] = []
    release: list[float] = []
    for _ in range(200):
        begin_s = time.process_time()
        state.assume(gang, plan)
        middle_s = time.process_time()
        state.release(gang.job)
        assume.append(middle_s - begin_s)
        release.append(time.process_time() - middle_s)
    return {
        "place_us": round(1e6 * place.median, 1),
        "assume_us": round(1e6 * statistics.median(assume), 1),
        "release_us": round(1e6 * statistics.median(release), 1),
    }


def _cell(timing: Timing, placed: bool) -> str:
    text = f"{1000 * timing.median:.2f} ms ({1 / timing.median:,.0f}/s)"
    return text if placed else f"{text} (no room)"


def _kept(preset: str, timing: Timing) -> str:
    size, count, limit_s = _PROMISED
    slowest = max(timing.seconds)
    verdict = "kept" if slowest <= limit_s else "MISSED"
    return (
        f"{size:,} members on {count:,} nodes, {preset}: {1000 * timing.median:.1f} ms, "
        f"the slowest {1000 * slowest:.1f} ms, promised {1000 * limit_s:.0f} ms: {verdict}"
    )


def _pods(pods: dict[str, object]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for count, figures in pods.items():
        assert isinstance(figures, dict)
        rows.append([f"{int(count):,}", *(f"{value} µs" for value in figures.values())])
    return rows


def _memory_row(count: str, figures: object) -> list[str]:
    assert isinstance(figures, dict)
    return [
        f"{int(count):,}",
        f"{figures['array_bytes_a_node']:.0f} B",
        f"{figures['bytes_a_node']:.0f} B",
        f"{figures['built_ms']:.1f} ms",
    ]


if __name__ == "__main__":
    main()
