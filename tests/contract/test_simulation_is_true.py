"""The same small workload, run for real and simulated, ends alike.

One queue and one placement drive both; what differs is the clock and the members. How long a
launcher takes to start is a fact about the machine: it is measured first and told the simulator.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mooring.backends.base import Order
from mooring.backends.local.contract import LauncherSettings
from mooring.backends.local.nodes import LocalNodes, local_snapshot
from mooring.backends.local.runtime import LocalRuntime
from mooring.lifecycle import MemberExited, MemberReady
from mooring.model.cluster import Node, Snapshot
from mooring.model.launch import Launch, LocalProcess
from mooring.model.plan import Plan
from mooring.model.resources import Resources
from mooring.record import create_run
from mooring.simulate.run import simulate
from mooring.simulate.schedule import QueueScheduler
from mooring.simulate.scheduler import Started
from mooring.simulate.workload import RoleShape, Workload, WorkloadJob

_CPU = Resources(1000)
#: Whoever else uses the machine slows real members down, not simulated ones.
_TRIES = 3


def _job(name: str, arrival_s: float, duration_s: float, members: int) -> WorkloadJob:
    return WorkloadJob(name, arrival_s, members * duration_s, (RoleShape("worker", members, _CPU),))


#: On two CPUs: a and b run at once, c follows a, d needs both CPUs and follows c, e follows d.
WORKLOAD = Workload(
    (
        _job("a", 0.0, 2.0, 1),
        _job("b", 0.0, 4.0, 1),
        _job("c", 0.2, 3.5, 1),
        _job("d", 0.4, 2.5, 2),
        _job("e", 0.6, 3.0, 1),
    )
)


def two_cpus() -> tuple[Snapshot, Node]:
    """This machine with room for two members of one CPU."""
    snapshot = local_snapshot(0, None)
    node = replace(snapshot.nodes[0], cpu_millis=2000)
    return replace(snapshot, nodes=(node,)), node


class RealRun:
    """One job on a local runtime of its own."""

    def __init__(self, job: WorkloadJob, plan: Plan, snapshot: Snapshot, folder: Path) -> None:
        run = create_run(job.name, directory=None, virtual_nodes=0, source="", version="0")
        settings = LauncherSettings(folder, None, 30.0, 5.0, "sdk", None, None)
        self.runtime = LocalRuntime(run, LocalNodes(run, snapshot, virtual=False), settings)
        self.ids = [placement.member for placement in plan.placements]
        self.ready = self.ended = 0
        gang = job.gang()
        argv = (sys.executable, "-S", "-c", f"import time; time.sleep({job.duration_s})")
        launch = Launch(argv, {}, (LocalProcess(0),))
        self.runtime.prepare(gang, plan, 0)
        self.runtime.start([Order(one, plan.slot_of(one.id), launch, 0, 0) for one in gang.members])

    def over(self) -> bool:
        for event in self.runtime.poll(time.monotonic(), 0.0):
            self.ready += isinstance(event, MemberReady)
            self.ended += isinstance(event, MemberExited)
            if isinstance(event, MemberReady) and self.ready == len(self.ids):
                self.runtime.open_gate(self.ids)
        return self.ended == len(self.ids)


def run_for_real(workload: Workload, snapshot: Snapshot, folder: Path) -> dict[str, float]:
    """Job -> the time of its end, in the order of the ends."""
    scheduler = QueueScheduler(snapshot.nodes, workload.all_pools())
    jobs = {job.name: job for job in workload.jobs}
    coming = list(workload.jobs)
    running: dict[str, RealRun] = {}
    ends: dict[str, float] = {}
    began_s = time.monotonic()
    try:
        while len(ends) < len(jobs):
            now_s = time.monotonic() - began_s
            assert now_s < 60, f"only {list(ends)} have ended"
            changed = False
            for name in [name for name, one in running.items() if one.over()]:
                running.pop(name).runtime.close()
                ends[name] = time.monotonic() - began_s
                scheduler.end(name, now_s)
                changed = True
            while coming and coming[0].arrival_s <= now_s:
                scheduler.arrive(coming.pop(0), now_s)
                changed = True
            for change in scheduler.decide(now_s) if changed else ():
                assert isinstance(change, Started)
                job = jobs[change.job]
                running[change.job] = RealRun(job, change.plan, snapshot, folder)
            time.sleep(0.01)
    finally:
        for one in running.values():
            one.runtime.close()
    return ends


def start_s(snapshot: Snapshot, folder: Path) -> float:
    """What a start costs here and now: three jobs that do nothing, one after the other."""
    jobs = [_job(f"idle-{number}", 0.0, 0.001, 2) for number in range(3)]
    return run_for_real(Workload(tuple(jobs)), snapshot, folder)["idle-2"] / 3


@pytest.mark.slow
def test_the_simulator_ends_in_the_same_order_within_ten_percent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    snapshot, node = two_cpus()
    seen = []
    for _ in range(_TRIES):
        cost_s = start_s(snapshot, tmp_path)
        real = run_for_real(WORKLOAD, snapshot, tmp_path)
        told = Workload(tuple(replace(job, start_s=cost_s) for job in WORKLOAD.jobs))
        scheduler = QueueScheduler([node], told.all_pools())
        found = simulate(told, [node], scheduler, round_s=0.0)
        simulated = sorted(found.records, key=lambda record: record.ended_s or 0.0)
        makespan_s = (found.figures.makespan_s, max(real.values()))
        same_order = [record.name for record in simulated] == list(real)
        if same_order and makespan_s[0] == pytest.approx(makespan_s[1], rel=0.1):
            return
        seen.append((same_order, makespan_s))
    pytest.fail(f"in no try the same order and makespan (simulated, real): {seen}")
