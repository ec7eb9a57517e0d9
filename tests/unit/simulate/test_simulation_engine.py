"""The loop in virtual time, with a scheduler simple enough to work its answers out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from first_come import FirstCome, job, node

from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.resources import Resources
from mooring.simulate.metrics import BrokenPromise, Meter
from mooring.simulate.run import Simulated, simulate
from mooring.simulate.scheduler import Change, PlanResized, Started
from mooring.simulate.workload import Workload, WorkloadJob, WorkloadPool


def run(*jobs: WorkloadJob, nodes: int = 1, preempting: bool = False) -> Simulated:
    cluster = [node(f"n{index}") for index in range(nodes)]
    scheduler = FirstCome(cluster, preempting)
    return simulate(Workload(tuple(jobs)), cluster, scheduler, round_s=0.0)


def ends(result: Simulated) -> dict[str, float | None]:
    return {record.name: record.ended_s for record in result.records}


def test_jobs_that_fit_run_at_once_and_the_others_in_turn() -> None:
    # 4 CPUs: a and b fill them from 0 to 10; c, which needs all four, follows.
    result = run(job("a", members=2), job("b", members=2), job("c", members=4, arrival_s=1.0))
    assert ends(result) == {"a": 10.0, "b": 10.0, "c": 20.0}
    figures = result.figures
    assert figures.makespan_s == 20.0
    assert figures.completion.mean_s == pytest.approx((10 + 10 + 19) / 3)
    assert figures.completion.median_s == 10.0
    assert figures.completion.p95_s == 19.0
    assert figures.queueing.most_s == 9.0
    assert figures.cpu_utilisation == pytest.approx(1.0)
    assert figures.preemptions == 0


def test_time_before_the_first_arrival_does_not_count() -> None:
    result = run(job("a", arrival_s=1000.0, members=4))
    assert result.figures.makespan_s == 10.0
    assert result.figures.cpu_utilisation == pytest.approx(1.0)


def test_a_job_too_large_for_the_cluster_is_told_and_the_rest_still_ends() -> None:
    result = run(job("a"), job("giant", arrival_s=2.0, members=5))
    assert result.figures.never_started == {"giant": "no node has room"}
    assert result.figures.ended == 1
    assert ends(result) == {"a": 10.0, "giant": None}


def test_a_preempted_job_begins_again_and_its_lost_work_is_counted() -> None:
    # low runs 0-4, urgent 4-14, low again from the beginning 14-24: 4 s x 4 members lost.
    low, urgent = job("low", members=4), job("urgent", arrival_s=4.0, members=4, priority=9)
    result = run(low, urgent, preempting=True)
    assert ends(result) == {"low": 24.0, "urgent": 14.0}
    assert result.figures.preemptions == 1
    assert result.figures.lost_member_s == pytest.approx(16.0)


def test_a_preempted_job_goes_on_from_its_checkpoint() -> None:
    # Checkpoint at 3 s: one second of four members is lost, 7 s are left at 14.
    low = job("low", members=4, checkpoint_s=3.0)
    urgent = job("urgent", arrival_s=4.0, members=4, priority=9)
    result = run(low, urgent, preempting=True)
    assert ends(result) == {"low": 21.0, "urgent": 14.0}
    assert result.figures.lost_member_s == pytest.approx(4.0)


def test_each_start_takes_its_time() -> None:
    # low starts at 0, works from 2 to 4, is put off until 14, works from 16 to 26.
    low = job("low", members=4, start_s=2.0)
    urgent = job("urgent", arrival_s=4.0, members=4, priority=9)
    result = run(low, urgent, preempting=True)
    assert ends(result) == {"low": 26.0, "urgent": 14.0}
    assert result.figures.lost_member_s == pytest.approx(8.0)


def slots(name: str, members: int) -> Plan:
    places = (Placement(MemberId("worker", index), Slot("n0", ())) for index in range(members))
    return Plan(name, tuple(places))


class Growing(FirstCome):
    """Starts the elastic job with half of its members; it grows when the next job arrives."""

    def decide(self, now_s: float) -> Sequence[Change]:
        if now_s < 6.0:
            return [Started("elastic", slots("elastic", 2))]
        return [Started("other", slots("other", 1)), PlanResized("elastic", slots("elastic", 4))]

    def end(self, job: str, now_s: float) -> None:
        pass


def test_a_gang_with_half_its_members_does_half_the_work() -> None:
    # elastic: 40 member-seconds. 2 members from 0 to 6 do 12; 4 do the other 28 in 7 s.
    cluster = [node("n0", cpus=8)]
    jobs = (job("elastic", members=4), job("other", arrival_s=6.0, duration_s=1.0))
    result = simulate(Workload(jobs), cluster, Growing(cluster), round_s=0.0)
    assert ends(result) == {"elastic": 13.0, "other": 7.0}
    # 2 x 6 + 4 x 7 + 1 x 1 of 8 CPUs for 13 s
    assert result.figures.cpu_utilisation == pytest.approx(41 / (8 * 13))


def test_the_scheduler_is_asked_only_when_something_changed_or_at_ever_rarer_ticks() -> None:
    cluster = [node("n0")]
    scheduler = FirstCome(cluster)
    jobs = (job("long", duration_s=86_400.0, members=4), job("next", arrival_s=1.0))
    simulate(Workload(jobs), cluster, scheduler, round_s=0.0)
    # The arrivals, the end, and ticks after 60, 120, 240 ... s: not one every minute of a day.
    assert len(scheduler.asked_s) < 20
    assert scheduler.asked_s[:4] == [0.0, 1.0, 61.0, 181.0]


def test_what_happens_soon_after_a_round_waits_for_the_next() -> None:
    cluster = [node("n0")]
    scheduler = FirstCome(cluster)
    jobs = tuple(job(f"j{index}", arrival_s=index / 10) for index in range(4))
    simulate(Workload(jobs), cluster, scheduler, round_s=1.0)
    assert scheduler.asked_s[:2] == [0.0, 1.0]


def test_the_same_workload_gives_the_same_figures() -> None:
    jobs = [job(f"j{i}", float(i % 7), 3.0 + i % 5, 1 + i % 4) for i in range(60)]
    jobs.sort(key=lambda one: one.arrival_s)
    one, two = run(*jobs, nodes=2), run(*jobs, nodes=2)
    assert one.records == two.records
    assert one.figures.series == two.figures.series


def test_a_node_given_away_twice_is_a_defect() -> None:
    meter = Meter([node("n0")], [WorkloadPool("default")])
    places = tuple(Placement(MemberId("worker", i), Slot("n0", ())) for i in range(3))
    meter.held(job("a", members=3), Plan("a", places))
    with pytest.raises(BrokenPromise):
        meter.held(job("b", members=3), Plan("b", places))


def test_a_pool_above_its_cap_is_a_defect() -> None:
    meter = Meter([node("n0")], [WorkloadPool("default", cap=Resources(2000, 0, 0))])
    places = tuple(Placement(MemberId("worker", i), Slot("n0", ())) for i in range(3))
    with pytest.raises(BrokenPromise):
        meter.held(job("a", members=3), Plan("a", places))
