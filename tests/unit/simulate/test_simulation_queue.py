"""The real queue and the real placement in virtual time: promises hold at every instant."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from first_come import GIB, job, node
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mooring.brain.packing import SearchBudget
from mooring.brain.queue import (
    Decision,
    Groups,
    MovePolicy,
    PooledNodes,
    QueueState,
    decide,
)
from mooring.brain.state import ClusterState
from mooring.model.errors import BadInput
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources
from mooring.simulate import report
from mooring.simulate.run import Simulated, simulate
from mooring.simulate.schedule import QueueScheduler
from mooring.simulate.scheduler import Change
from mooring.simulate.workload import RoleShape, Workload, WorkloadJob, WorkloadPool, in_order

NODES = [node("n0", 4, gpus=2), node("n1", 8, gpus=4), node("n2", 2)]


class Cold:
    """A planner that remembers nothing: every question goes to every node."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def place(self, gang: Gang) -> Plan | Refusal:
        return ClusterState(self._state.snapshot()).place(gang)

    def assume(self, gang: Gang, plan: Plan) -> None:
        self._state.assume(gang, plan)

    def release(self, job: str) -> None:
        self._state.release(job)

    def copy(self) -> Cold:
        return Cold(self._state.copy())

    def packable(self, gangs: Sequence[Gang]) -> bool:
        return self._state.packable(gangs)

    def pack(self, gangs: Sequence[Gang], budget: SearchBudget) -> tuple[Plan, ...] | None:
        return self._state.pack(gangs, budget)


class OneByOne(QueueScheduler):
    """Looks at everybody in every round, and keeps nothing from one round to the next."""

    def _unopposed(self, now_s: float) -> list[Change] | None:
        return None

    def _decisions(self, now_s: float) -> Sequence[Decision]:
        waiting = tuple(self._waiting.values())
        running = tuple(self._queue_index.running.values())
        pools = self._groups.guarantees(self._pools)
        state = QueueState(self._capacity, waiting, running, pools)
        return decide(state, Cold(self.cluster), now_s)


def gpu_job(name: str, members: int, duration_s: float = 100.0) -> WorkloadJob:
    role = RoleShape("worker", members, Resources(1000, GIB, 1))
    return WorkloadJob(name, 0.0, members * duration_s, (role,))


def test_four_gangs_of_four_gpus_on_twelve_never_lock_each_other_out() -> None:
    cluster = [node(f"n{index}", 8, gpus=4) for index in range(3)]
    work = Workload(tuple(gpu_job(f"j{index}", 4) for index in range(4)))
    found = simulate(work, cluster, QueueScheduler(cluster, work.all_pools()), round_s=0.0)
    starts = sorted(record.started_s or 0.0 for record in found.records)
    assert starts == [0.0, 0.0, 0.0, 100.0]
    assert found.figures.makespan_s == 200.0
    assert found.figures.gpu_utilisation == pytest.approx(16 / 24)


def test_an_elastic_gang_starts_small_and_grows_when_room_appears() -> None:
    cluster = [node("n0", 4)]
    first = job("first", duration_s=10.0, members=2)
    elastic = job("elastic", arrival_s=1.0, duration_s=10.0, members=4, min_available=2)
    work = Workload((first, elastic))
    found = simulate(work, cluster, QueueScheduler(cluster, work.all_pools()), round_s=0.0)
    # 40 member-seconds: 2 members from 1 to 10 do 18, 4 do the other 22 in 5.5 s.
    assert {one.name: one.ended_s for one in found.records} == {"first": 10.0, "elastic": 15.5}


def test_a_group_of_nodes_goes_to_the_pool_that_needs_it_and_stays_for_a_while() -> None:
    # 12 devices: a owns n0, b owns n1 and n2. first holds 8 for 1000 s, 4 of them lent by b; after
    # 100 s n1 is a's. second comes at 500 and wants 8 of b's 4: it waits. b is short from then on,
    # and a uses all it has: nothing moves back before first ends.
    cluster = [node(f"n{index}", 8, gpus=4) for index in range(3)]
    first = replace(gpu_job("first", 8, 1000.0), pool="a")
    second = replace(gpu_job("second", 8, 300.0), pool="b", arrival_s=500.0)
    work = Workload((first, second))
    owners = tuple(
        PooledNodes(each.name, "a" if index == 0 else "b", each.capacity)
        for index, each in enumerate(cluster)
    )
    stay, move = Groups(owners), Groups(owners, MovePolicy(delay_s=100.0, rest_s=200.0))
    kept = simulate(work, cluster, QueueScheduler(cluster, work.all_pools(), groups=stay))
    moved = simulate(work, cluster, QueueScheduler(cluster, work.all_pools(), groups=move))
    assert [record.preemptions for record in kept.records] == [1, 0]
    assert not kept.figures.moves
    assert [record.preemptions for record in moved.records] == [0, 0]
    assert [record.started_s for record in moved.records] == [0.0, 1000.0]
    first_move, *others = moved.figures.moves
    assert (first_move.at_s, first_move.source, first_move.target) == (100.0, "b", "a")
    # From 1000 on a wants nothing and b wants 8 of its 4: one group follows after the delay.
    assert [(each.at_s, each.source, each.target) for each in others] == [(1100.0, "a", "b")]
    assert "has been short for 100 s" in first_move.reason
    assert "after 1 min 40 s: nodes n1 move from pool b to pool a" in document_text(moved)


def document_text(found: Simulated) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.table([found], "test"))
    return console.export_text()


def test_a_job_that_never_fits_is_named_with_a_sentence() -> None:
    work = Workload((job("giant", members=99),))
    found = simulate(work, NODES, QueueScheduler(NODES, work.all_pools()))
    assert list(found.figures.never_started) == ["giant"]
    assert len(found.figures.never_started["giant"]) > 10


def test_guarantees_beyond_the_cluster_are_bad_input() -> None:
    with pytest.raises(BadInput, match="guarantees"):
        QueueScheduler(NODES, [WorkloadPool("greedy", Resources(10**6))])


@st.composite
def workloads(draw: st.DrawFn, divided: bool) -> Workload:
    pools = (
        (
            WorkloadPool("a", Resources(4000, 16 * GIB, 2), Resources(10_000, 90 * GIB, 5), 2.0),
            WorkloadPool("b", Resources(4000, 16 * GIB, 2)),
        )
        if divided
        else (WorkloadPool("a"), WorkloadPool("b"))
    )
    jobs = []
    for index in range(draw(st.integers(1, 12))):
        members = draw(st.integers(1, 5))
        ask = Resources(draw(st.sampled_from((500, 1000, 2000))), GIB, draw(st.integers(0, 2)))
        duration_s = draw(st.sampled_from((5.0, 20.0, 300.0)))
        elastic = draw(st.booleans()) and draw(st.booleans())
        jobs.append(
            WorkloadJob(
                f"j{index}",
                draw(st.sampled_from((0.0, 0.0, 3.0, 7.5, 40.0))),
                duration_s * members,
                (RoleShape("worker", members, ask),),
                pool=draw(st.sampled_from(("a", "b"))),
                priority=draw(st.sampled_from((0, 0, 10, 100))),
                preemptible=draw(st.booleans()),
                min_available=draw(st.integers(1, members)) if elastic else None,
                expected_s=draw(st.sampled_from((None, duration_s))),
                checkpoint_s=draw(st.sampled_from((None, 10.0))),
            )
        )
    return Workload(in_order(jobs), pools)


def run(work: Workload, scheduler: QueueScheduler) -> Simulated:
    return simulate(work, NODES, scheduler, round_s=0.0)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.booleans().flatmap(workloads))
def test_nothing_is_given_twice_and_every_job_ends_or_is_named(work: Workload) -> None:
    """The meter checks nodes and caps at every change; see `BrokenPromise`."""
    scheduler = QueueScheduler(NODES, work.all_pools())
    found = run(work, scheduler)
    ended = {record.name for record in found.records if record.ended_s is not None}
    assert ended | set(found.figures.never_started) == {one.name for one in work.jobs}
    assert all(sentence for sentence in found.figures.never_started.values())
    for one, record in zip(work.jobs, found.records, strict=True):
        if record.started_s is not None and record.ended_s is not None:
            assert record.started_s >= one.arrival_s
            assert record.ended_s - record.started_s >= one.duration_s - 1e-6
    assert not scheduler.cluster.held


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.booleans().flatmap(workloads))
def test_the_short_way_decides_as_the_long_way_does(work: Workload) -> None:
    quick = run(work, QueueScheduler(NODES, work.all_pools()))
    thorough = run(work, OneByOne(NODES, work.all_pools()))
    assert quick.records == thorough.records
    assert quick.figures.series == thorough.figures.series
