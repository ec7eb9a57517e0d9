"""The same small workload, run for real and simulated, ends alike.

One queue and one placement drive both; what differs is the clock and the members. How long a
job took beyond its own duration, to be started and to be seen to end, is a fact about the machine
and whoever else uses it: it is measured in the real run and told the simulator.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mooring.bodies.base import Order
from mooring.bodies.local.body import LocalBody
from mooring.bodies.local.contract import Settings
from mooring.bodies.local.nodes import LocalNodes, local_snapshot
from mooring.lifecycle import MemberExited, MemberReady
from mooring.model.cluster import Node, Snapshot
from mooring.model.launch import Launch, LocalProcess
from mooring.model.plan import Plan
from mooring.model.resources import Resources
from mooring.record import create_run
from mooring.simulate.run import simulate
from mooring.simulate.schedule import QueueScheduler
from mooring.simulate.scheduler import Started
from mooring.simulate.workload import Job, RoleShape, Workload

_CPU = Resources(1000)


def _job(name: str, arrival_s: float, duration_s: float, members: int) -> Job:
    return Job(name, arrival_s, members * duration_s, (RoleShape("worker", members, _CPU),))


#: On two CPUs: a and b run at once, c follows a, d needs both CPUs and follows c. e follows d:
#: it is too long to be run before d while c still runs.
WORKLOAD = Workload(
    (
        _job("a", 0.0, 2.0, 1),
        _job("b", 0.0, 4.0, 1),
        _job("c", 0.2, 3.5, 1),
        _job("d", 0.4, 2.5, 2),
        _job("e", 0.6, 4.5, 1),
    )
)


def two_cpus() -> tuple[Snapshot, Node]:
    """This machine with room for two members of one CPU."""
    snapshot = local_snapshot(0, None)
    node = replace(snapshot.nodes[0], cpu_millis=2000)
    return replace(snapshot, nodes=(node,)), node


class RealRun:
    """One job on a local body of its own."""

    def __init__(self, job: Job, plan: Plan, snapshot: Snapshot, folder: Path) -> None:
        run = create_run(job.name, directory=None, virtual_nodes=0, source="", version="0")
        settings = Settings(folder, None, 30.0, 5.0, "sdk", None, None)
        self.body = LocalBody(run, LocalNodes(run, snapshot, virtual=False), settings)
        self.ids = [placement.member for placement in plan.placements]
        self.ready = self.ended = 0
        gang = job.gang()
        argv = (sys.executable, "-S", "-c", f"import time; time.sleep({job.duration_s})")
        launch = Launch(argv, {}, (LocalProcess(0),))
        self.body.prepare(gang, plan, 0)
        self.body.start([Order(one, plan.slot_of(one.id), launch, 0, 0) for one in gang.members])

    def over(self) -> bool:
        for event in self.body.poll(time.monotonic(), 0.0):
            self.ready += isinstance(event, MemberReady)
            self.ended += isinstance(event, MemberExited)
            if isinstance(event, MemberReady) and self.ready == len(self.ids):
                self.body.open_gate(self.ids)
        return self.ended == len(self.ids)


@dataclass(frozen=True)
class Ran:
    """When a job ended, and what it took beyond its duration."""

    ended_s: float
    beyond_s: float


def run_for_real(workload: Workload, snapshot: Snapshot, folder: Path) -> dict[str, Ran]:
    """The jobs in the order of their ends."""
    scheduler = QueueScheduler(snapshot.nodes, workload.all_pools())
    jobs = {job.name: job for job in workload.jobs}
    coming = list(workload.jobs)
    running: dict[str, tuple[float, RealRun]] = {}
    ended: dict[str, Ran] = {}
    began_s = time.monotonic()
    try:
        while len(ended) < len(jobs):
            now_s = time.monotonic() - began_s
            assert now_s < 120, f"only {list(ended)} have ended"
            changed = False
            for name in [name for name, (_, one) in running.items() if one.over()]:
                started_s, one = running.pop(name)
                one.body.close()
                ended[name] = Ran(now_s, now_s - started_s - jobs[name].duration_s)
                scheduler.end(name, now_s)
                changed = True
            while coming and coming[0].arrival_s <= now_s:
                scheduler.arrive(coming.pop(0), now_s)
                changed = True
            for change in scheduler.decide(now_s) if changed else ():
                assert isinstance(change, Started)
                job = jobs[change.job]
                running[change.job] = now_s, RealRun(job, change.plan, snapshot, folder)
            time.sleep(0.01)
    finally:
        for _, one in running.values():
            one.body.close()
    return ended


@pytest.mark.slow
def test_the_simulator_ends_in_the_same_order_within_ten_percent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    snapshot, node = two_cpus()
    real = run_for_real(WORKLOAD, snapshot, tmp_path)
    told = [replace(job, start_s=real[job.name].beyond_s) for job in WORKLOAD.jobs]
    workload = Workload(tuple(told))
    found = simulate(workload, [node], QueueScheduler([node], workload.all_pools()), round_s=0.0)
    simulated = sorted(found.records, key=lambda record: record.ended_s or 0.0)
    assert [record.name for record in simulated] == list(real)
    makespan_s = max(one.ended_s for one in real.values())
    assert found.figures.makespan_s == pytest.approx(makespan_s, rel=0.1)
