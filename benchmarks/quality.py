"""How close does the brain come to the exact optimum?

200 seeded instances, each decided at once by the queue and the planner as they are used everywhere:
4-20 nodes, 4-12 gangs that ask for 0.7 to 1.5 times what the cluster has, a quarter of the
instances each plain, with kubelets that insist on one NUMA cell, with pools, and with both. All
gangs have arrived together with equal priority and are expected to run equally long, so the queue
owes nobody a turn and may start as many as possible. OR-Tools CP-SAT says how many that could be.

Fragments: whole free GPUs on nodes where no member of the instance that asks for GPUs could be
added, because CPUs or memory beside them are gone or in another cell; whole free CPUs on nodes
where no member could be added at all. Compared with the fewest for the same gangs.

Busiest NIC: one parameter-server gang on up to eight empty nodes that leaves the preset open, with
the traffic score in the profile; the optimum is free to use one node, where no NIC is needed.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimum import Ask, accepts, ask_of, least_busy, least_stranded, most_gangs, stranded
from results import Machine, say, show, write

from mooring.brain import ClusterState
from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.queue import Admit, PoolSpec, QueuedGang, QueueState, decide
from mooring.brain.traffic import busiest_link
from mooring.model.cluster import (
    Cpu,
    CpuManager,
    Gpu,
    KubeletPolicy,
    Node,
    Snapshot,
    TopologyManager,
)
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset
from mooring.model.plan import Plan
from mooring.model.resources import Resources
from mooring.model.traffic import Pattern, Traffic

_GIB = 1 << 30
_FAMILIES = ("plain", "cells", "pools", "cells and pools")
_PROMISED_MEAN, _PROMISED_WORST = 0.98, 0.90
_HOUR_S = 3600.0
_STRICT = KubeletPolicy(
    CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE, reserved_cpus=frozenset({0})
)
_BUSY_AWARE = Profile("traffic", scores=(("traffic", 100.0),))


@dataclass(frozen=True)
class Instance:
    seed: int
    family: str
    nodes: tuple[Node, ...]
    queued: tuple[QueuedGang, ...]
    pools: tuple[PoolSpec, ...] = ()

    @property
    def gangs(self) -> tuple[Gang, ...]:
        return tuple(one.gang for one in self.queued)

    @property
    def asks(self) -> tuple[Ask, ...]:
        return tuple(dict.fromkeys(ask_of(m) for gang in self.gangs for m in gang.members))


@dataclass(frozen=True)
class Outcome:
    """`optimum` and the fragments are None where the solver ran out of time."""

    instance: Instance
    placed: int
    optimum: int | None
    spanning: int
    gpus_stranded: int
    cpus_stranded: int
    least_gpus_stranded: int | None
    least_cpus_stranded: int | None

    @property
    def ratio(self) -> float | None:
        if self.optimum is None:
            return None
        return self.placed / self.optimum if self.optimum else 1.0

    def document(self) -> dict[str, object]:
        return {
            "seed": self.instance.seed,
            "family": self.instance.family,
            "nodes": len(self.instance.nodes),
            "gangs": len(self.instance.gangs),
            "placed": self.placed,
            "optimum": self.optimum,
            "members_spanning_cells": self.spanning,
            "gpus_stranded": self.gpus_stranded,
            "cpus_stranded": self.cpus_stranded,
            "least_gpus_stranded": self.least_gpus_stranded,
            "least_cpus_stranded": self.least_cpus_stranded,
        }


@dataclass(frozen=True)
class Nic:
    """Seconds a step on the busiest NIC."""

    seed: int
    found_s: float
    optimum_s: float

    @property
    def ratio(self) -> float | None:
        """None if the optimum needs no NIC."""
        return self.found_s / self.optimum_s if self.optimum_s else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first instance")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each exact answer, at most")
    arguments = parser.parse_args()
    machine = Machine("ortools", "numpy")
    seeds = range(arguments.first, arguments.first + arguments.instances)
    outcomes = [_compare(instance_of(seed), arguments.seconds) for seed in seeds]
    nics = [nic for seed in seeds if (nic := _compare_nic(seed, arguments.seconds)) is not None]
    show(
        "Gangs placed / optimum",
        ["instances", "proven", "mean", "worst", "all of it", "placed", "optimum"],
        [_row(name, _of(outcomes, name)) for name in ("", *_FAMILIES)],
    )
    show(
        "Stranded, and the fewest for the same gangs",
        ["instances", "proven", "GPUs", "fewest", "CPUs", "fewest", "members over cells"],
        [_fragments_row(name, _of(outcomes, name)) for name in ("", *_FAMILIES)],
    )
    if nics:
        show(
            "Busiest NIC / optimum, of the gangs that need NICs",
            ["gangs", "need NICs", "use them needlessly", "mean", "worst", "optimal"],
            [_nic_row(nics)],
        )
    say(_verdict(outcomes))
    write("quality", machine, _document(outcomes, nics))


def instance_of(seed: int) -> Instance:
    """The same for the same seed, on every machine."""
    chance = random.Random(seed)
    family = _FAMILIES[seed % len(_FAMILIES)]
    nodes = _nodes(chance, strict="cells" in family)
    gangs = _gangs(chance, nodes)
    if "pools" not in family:
        waiting = tuple(QueuedGang(gang, expected_s=_HOUR_S) for gang in gangs)
        return Instance(seed, family, nodes, waiting)
    pools = _pools(chance, _capacity(nodes))
    names = [pool.name for pool in pools]
    waiting = tuple(
        QueuedGang(gang, pool=chance.choice(names), expected_s=_HOUR_S) for gang in gangs
    )
    return Instance(seed, family, nodes, waiting, pools)


def _nodes(chance: random.Random, strict: bool) -> tuple[Node, ...]:
    shapes = ((16, 1, 64, 0), (32, 2, 128, 0), (32, 2, 256, 4), (64, 2, 512, 8))
    known = [
        (_cpus(cpus, cells), tuple(Gpu(i, i * cells // gpus) for i in range(gpus)), gib)
        for cpus, cells, gib, gpus in shapes
    ]
    found = []
    for index in range(chance.randint(4, 20)):
        cpus, gpus, gib = chance.choice(known)
        kubelet = _STRICT if strict and chance.random() < 0.5 else None
        found.append(
            Node(
                f"node-{index:02}",
                cpus,
                1000 * len(cpus),
                gib * _GIB,
                gpus,
                nic_mbps=chance.choice((10_000, 25_000)),
                kubelet=kubelet,
            )
        )
    return tuple(found)


def _cpus(count: int, cells: int) -> tuple[Cpu, ...]:
    """Two siblings a core, eight CPUs an L3 group."""
    per_cell = count // cells
    return tuple(Cpu(i, i // 2, i // 8, i // per_cell, i // per_cell) for i in range(count))


def _gangs(chance: random.Random, nodes: tuple[Node, ...]) -> list[Gang]:
    """Each takes a random part of the load, as members of one kind and sometimes servers."""
    capacity = _capacity(nodes)
    count = chance.randint(4, 12)
    load = chance.uniform(0.7, 1.5)
    parts = [chance.uniform(0.3, 1.7) for _ in range(count)]
    with_gpus = [bool(capacity.gpus) and chance.random() < 0.5 for _ in range(count)]
    found = []
    for number in range(count):
        side = sum(p for p, gpus in zip(parts, with_gpus, strict=True) if gpus == with_gpus[number])
        part = load * parts[number] / side
        if with_gpus[number]:
            gpus = chance.choice((1, 1, 2, 4))
            cpus = gpus * chance.randint(1, 6)
            size = part * capacity.gpus / gpus
        else:
            gpus, cpus = 0, chance.randint(1, 12)
            # Those with GPUs take CPUs too.
            size = part * 0.6 * capacity.cpu_millis / (1000 * cpus)
        worker = Resources(1000 * cpus, chance.randint(1, 6) * cpus * _GIB // 2, gpus)
        pinning = Pinning.EXCLUSIVE if gpus or chance.random() < 0.6 else Pinning.SHARED
        servers = chance.choice((0, 0, 1, 2)) if size >= 4 else 0
        preset = chance.choice((Preset.SPREAD, Preset.PACK, Preset.SPREAD_PS))
        job = f"job-{number:02}"
        members = _members(job, "ps", servers, Resources(2000, 4 * _GIB), pinning)
        members += _members(job, "worker", max(1, min(64, round(size))), worker, pinning)
        found.append(Gang(job, members, preset, (("ps", Duty.SERVES),) if servers else ()))
    return found


def _members(
    job: str, role: str, count: int, resources: Resources, pinning: Pinning
) -> tuple[Member, ...]:
    return tuple(Member(MemberId(role, i), job, resources, pinning) for i in range(count))


def _pools(chance: random.Random, capacity: Resources) -> tuple[PoolSpec, ...]:
    """Two or three, each with a guarantee of its own and a cap that is less than the cluster."""
    count = chance.randint(2, 3)
    return tuple(
        PoolSpec(
            f"pool-{number}",
            _part(capacity, chance.uniform(0.1, 0.9 / count)),
            _part(capacity, chance.uniform(0.4, 0.9)),
            float(chance.randint(1, 3)),
        )
        for number in range(count)
    )


def _part(capacity: Resources, part: float) -> Resources:
    cpus, gib = int(part * capacity.cpu_millis / 1000), int(part * capacity.memory_bytes / _GIB)
    return Resources(1000 * cpus, gib * _GIB, int(part * capacity.gpus))


def _capacity(nodes: Sequence[Node]) -> Resources:
    return sum((node.capacity for node in nodes), Resources())


def admitted(instance: Instance) -> Mapping[str, Plan]:
    """What the queue starts in one round."""
    state = QueueState(_capacity(instance.nodes), instance.queued, (), instance.pools)
    decisions = decide(state, ClusterState(Snapshot(instance.nodes), DEFAULT), 0.0, explain=False)
    return {one.job: one.plan for one in decisions if isinstance(one, Admit)}


def _compare(instance: Instance, seconds: float) -> Outcome:
    nodes, gangs, asks = instance.nodes, instance.gangs, instance.asks
    plans = admitted(instance)
    if not accepts(nodes, gangs, plans):
        raise AssertionError(f"instance {instance.seed}: the model refutes the plans")
    optimum: int | None = len(gangs)
    if len(plans) < len(gangs):
        answer = most_gangs(
            nodes,
            gangs,
            {one.job: one.pool for one in instance.queued},
            {pool.name: pool.cap for pool in instance.pools if pool.cap is not None},
            plans,
            seconds,
        )
        optimum = int(answer.best) if answer.proven else None
    there = [gang for gang in gangs if gang.job in plans]
    left = stranded(nodes, there, asks, plans)
    least = None
    if left.gpus or left.cpus:
        least = least_stranded(nodes, there, asks, plans, seconds)
    known = left if not (left.gpus or left.cpus) else least if least and least.proven else None
    spanning = sum(
        placement.slot.exclusive and len(placement.slot.cells) > 1
        for plan in plans.values()
        for placement in plan.placements
    )
    return Outcome(
        instance,
        len(plans),
        optimum,
        spanning,
        left.gpus,
        left.cpus,
        known.gpus if known else None,
        known.cpus if known else None,
    )


def _compare_nic(seed: int, seconds: float) -> Nic | None:
    """None if the solver ran out of time or the gang does not fit at all."""
    chance = random.Random(1_000_000 + seed)
    nodes = _nodes(chance, strict=False)[:8]
    servers, workers = chance.randint(1, 4), chance.randint(2, 12)
    ask = Resources(1000 * chance.randint(1, 8), chance.randint(2, 16) * _GIB)
    members = _members("job", "ps", servers, Resources(2000, 4 * _GIB), Pinning.EXCLUSIVE)
    members += _members("job", "worker", workers, ask, Pinning.EXCLUSIVE)
    exchanged = Traffic(Pattern.PARAMETER_SERVER, 100_000_000)
    gang = Gang(
        "job",
        members,
        Preset.SPREAD,
        (("ps", Duty.SERVES),),
        traffic=exchanged,
        preset_is_open=True,
    )
    plan = ClusterState(Snapshot(nodes), _BUSY_AWARE).place(gang)
    answer = least_busy(nodes, gang, seconds)
    if not isinstance(plan, Plan) or answer is None or not answer.proven:
        return None
    link = busiest_link(gang, plan, nodes)
    return Nic(seed, (link.seconds_per_step or 0.0) if link else 0.0, answer.best)


def _of(outcomes: Sequence[Outcome], family: str) -> list[Outcome]:
    return [one for one in outcomes if family in ("", one.instance.family)]


def _ratios(outcomes: Sequence[Outcome]) -> list[float]:
    return [one.ratio for one in outcomes if one.ratio is not None]


def _row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    ratios = _ratios(outcomes)
    proven = [one for one in outcomes if one.optimum is not None]
    return [
        f"{name or 'all'}",
        f"{len(proven)} of {len(outcomes)}",
        f"{statistics.fmean(ratios):.4f}" if ratios else "",
        f"{min(ratios):.3f}" if ratios else "",
        f"{sum(ratio >= 1 for ratio in ratios)}",
        f"{sum(one.placed for one in proven)}",
        f"{sum(one.optimum or 0 for one in proven)}",
    ]


def _fragments(outcomes: Sequence[Outcome]) -> list[int]:
    proven = [one for one in outcomes if one.least_gpus_stranded is not None]
    return [
        len(proven),
        sum(one.gpus_stranded for one in proven),
        sum(one.least_gpus_stranded or 0 for one in proven),
        sum(one.cpus_stranded for one in proven),
        sum(one.least_cpus_stranded or 0 for one in proven),
        sum(one.spanning for one in outcomes),
    ]


def _fragments_row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    proven, *others = _fragments(outcomes)
    return [name or "all", f"{proven} of {len(outcomes)}", *map(str, others)]


def _nic_figures(nics: Sequence[Nic]) -> dict[str, object]:
    ratios = [nic.ratio for nic in nics if nic.ratio is not None]
    return {
        "proven": len(nics),
        "mean": round(statistics.fmean(ratios), 4) if ratios else None,
        "worst": round(max(ratios), 3) if ratios else None,
        "optimal": sum(nic.found_s <= nic.optimum_s * (1 + 1e-9) for nic in nics),
        "need_nics": len(ratios),
        "use_nics_needlessly": sum(nic.ratio is None and nic.found_s > 0 for nic in nics),
        "ratios": {nic.seed: round(nic.ratio, 4) for nic in nics if nic.ratio is not None},
    }


def _nic_row(nics: Sequence[Nic]) -> list[str]:
    figures = _nic_figures(nics)
    return [
        f"{len(nics)}",
        f"{figures['need_nics']}",
        f"{figures['use_nics_needlessly']}",
        f"{figures['mean']}",
        f"{figures['worst']}",
        f"{figures['optimal']} of {len(nics)}",
    ]


def _verdict(outcomes: Sequence[Outcome]) -> str:
    ratios = _ratios(outcomes)
    if not ratios:
        return "nothing was proven"
    mean, worst = statistics.fmean(ratios), min(ratios)
    kept = mean >= _PROMISED_MEAN and worst >= _PROMISED_WORST
    return (
        f"mean {mean:.4f} (wanted {_PROMISED_MEAN}), worst {worst:.3f} (wanted {_PROMISED_WORST}): "
        f"{'kept' if kept else 'MISSED'}"
    )


def _document(outcomes: Sequence[Outcome], nics: Sequence[Nic]) -> dict[str, object]:
    families: dict[str, object] = {}
    for name in ("", *_FAMILIES):
        mine = _of(outcomes, name)
        ratios = _ratios(mine)
        proven, gpus, least_gpus, cpus, least_cpus, spanning = _fragments(mine)
        families[name or "all"] = {
            "instances": len(mine),
            "proven": len(ratios),
            "mean": round(statistics.fmean(ratios), 5) if ratios else None,
            "worst": round(min(ratios), 4) if ratios else None,
            "optimal": sum(ratio >= 1 for ratio in ratios),
            "fragments": {
                "proven": proven,
                "gpus": gpus,
                "least_gpus": least_gpus,
                "cpus": cpus,
                "least_cpus": least_cpus,
                "members_spanning_cells": spanning,
            },
        }
    return {
        "families": families,
        "busiest_nic": _nic_figures(nics) if nics else {},
        "instances": [one.document() for one in outcomes],
    }


if __name__ == "__main__":
    main()
