"""One workload on one cluster under one profile, from the first arrival to the figures."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooring.model.cluster import Node
from mooring.simulate.engine import ROUND_S, Simulation, SimulationResult
from mooring.simulate.metrics import (
    GroupMove,
    JobRecord,
    Meter,
    SimulationFigures,
    Spread,
    completion_s,
    jain,
    pool_figures,
    queueing_s,
)
from mooring.simulate.scheduler import SimulatedScheduler
from mooring.simulate.workload import Workload


@dataclass(frozen=True)
class Simulated:
    """The figures, and the story of each job in the order of arrival."""

    figures: SimulationFigures
    records: tuple[JobRecord, ...]


def simulate(
    workload: Workload,
    nodes: Sequence[Node],
    scheduler: SimulatedScheduler,
    profile: str = "default",
    on_progress: Callable[[int, float], None] = lambda ended, now_s: None,
    round_s: float = ROUND_S,
) -> Simulated:
    began_s = time.perf_counter()
    pools = workload.all_pools()
    meter = Meter(nodes, pools)
    # A hundred thousand jobs stay until the end; to look through them for garbage again and again
    # takes a good part of the time.
    gc.freeze()
    try:
        ending = Simulation(workload, scheduler, meter, round_s).run(on_progress)
    finally:
        gc.unfreeze()
    wall_s = time.perf_counter() - began_s
    return Simulated(_figures(workload, ending, meter, profile, wall_s), ending.records)


def _figures(
    workload: Workload, ending: SimulationResult, meter: Meter, profile: str, wall_s: float
) -> SimulationFigures:
    records = ending.records
    completions = completion_s(records)
    pools = pool_figures(records, workload.all_pools(), meter)
    first_s = min((record.arrived_s for record in records), default=0.0)
    return SimulationFigures(
        profile=profile,
        jobs=len(records),
        ended=len(completions),
        makespan_s=max(0.0, ending.ended_s - first_s),
        completion=Spread.of(completions),
        queueing=Spread.of(queueing_s(records)),
        cpu_utilisation=meter.mean(0),
        memory_utilisation=meter.mean(1),
        gpu_utilisation=meter.mean(2) if meter.total.gpus else None,
        fragmentation=meter.mean(3),
        fairness=jain([pool.running_share for pool in pools]),
        preemptions=sum(record.preemptions for record in records),
        lost_member_s=sum(record.lost_s for record in records),
        pools=pools,
        series=meter.series(),
        moves=tuple(
            GroupMove(at_s - first_s, move.group, move.source, move.target, move.reason)
            for at_s, move in ending.moves
        ),
        never_started=ending.never_started,
        events=ending.events,
        decisions=ending.decisions,
        wall_s=wall_s,
    )
