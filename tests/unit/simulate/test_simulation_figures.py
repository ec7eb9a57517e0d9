"""The figures, worked out by hand."""

from __future__ import annotations

import pytest
from first_come import job, node

from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.resources import Resources
from mooring.simulate.metrics import JobRecord, Meter, Spread, jain, pool_figures
from mooring.simulate.workload import RoleShape, WorkloadJob, WorkloadPool


@pytest.mark.parametrize(
    ("times_s", "expected"),
    [
        ([], (0.0, 0.0, 0.0, 0.0)),
        ([7.0], (7.0, 7.0, 7.0, 7.0)),
        # 20 times: 95 % of them are 19, so the 19th in order.
        ([float(n) for n in range(1, 21)], (10.5, 10.5, 19.0, 20.0)),
    ],
)
def test_a_spread(times_s: list[float], expected: tuple[float, ...]) -> None:
    spread = Spread.of(times_s)
    assert (spread.mean_s, spread.median_s, spread.p95_s, spread.most_s) == expected


@pytest.mark.parametrize(
    ("shares", "index"),
    [([1.0, 1.0, 1.0], 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25), ([1.0, 0.5], 0.9), ([0.0, 0.0], 1.0)],
)
def test_jains_index(shares: list[float], index: float) -> None:
    assert jain(shares) == pytest.approx(index)


def _gpu_job(name: str, gpus: int) -> tuple[WorkloadJob, Plan]:
    role = RoleShape("worker", 1, Resources(1000, 0, gpus))
    return WorkloadJob(name, 0.0, 1.0, (role,)), Plan(
        name, (Placement(MemberId("worker", 0), Slot("n0", ())),)
    )


def test_fragments_are_the_free_gpus_that_requests_cannot_use() -> None:
    meter = Meter([node("n0", gpus=4), node("n1", gpus=4)], [WorkloadPool("default")])
    meter.held(*_gpu_job("a", 1))
    # 3 + 4 are free; usable by 1: 7, by 2: 2 + 4, by 4: 0 + 4; 8 fits on no node
    meter.advance(10.0)
    meter.released("a")
    meter.advance(20.0)  # all whole
    assert meter.mean(3) == pytest.approx((0 + 1 / 7 + 3 / 7) / 3 / 2)
    assert meter.mean(2) == pytest.approx((1 / 8) / 2)


def test_shares_of_one_card_open_it_once() -> None:
    meter = Meter([node("n0", gpus=2)], [WorkloadPool("default")])
    role = RoleShape("worker", 2, Resources(gpu_share_millis=250))
    slot = Slot("n0", (), gpus=(1,), gpu_share_millis=250)
    places = tuple(Placement(MemberId("worker", i), slot) for i in range(2))
    meter.held(WorkloadJob("a", 0.0, 1.0, (role,)), Plan("a", places))
    # 1.5 of 2 are free, one card of it whole: by 1 usable 1 of 1.5, by 2 nothing
    meter.advance(10.0)
    assert meter.mean(3) == pytest.approx((0.5 / 1.5 + 1) / 2)
    assert meter.mean(2) == pytest.approx(0.25)
    meter.released("a")
    meter.advance(20.0)
    assert meter.mean(3) == pytest.approx((0.5 / 1.5 + 1) / 2 / 2)


def test_without_gpus_fragments_are_free_cpus_on_nodes_partly_in_use() -> None:
    machines = [node("n0"), node("n1")]
    meter = Meter(machines, [WorkloadPool("default")])
    meter.held(*_gpu_job("a", 0))
    meter.advance(10.0)  # one CPU of n0 is in use
    cpus = [machine.cpu_millis // 1000 for machine in machines]
    assert meter.mean(3) == pytest.approx((cpus[0] - 1) / (sum(cpus) - 1))


def test_the_curve_keeps_its_integral_however_long_the_simulation() -> None:
    meter = Meter([node("n0")], [WorkloadPool("default")])
    one = job("a", members=2)
    plan = Plan("a", tuple(Placement(MemberId("worker", i), Slot("n0", ())) for i in range(2)))
    spans = [0.5, 3.0, 100.0, 7e4, 1.0, 2e6, 17.0]
    now_s = busy_s = 0.0
    for number, span_s in enumerate(spans):
        busy = number % 2 == 0
        if busy:
            meter.held(one, plan)
        now_s += span_s
        meter.advance(now_s)
        if busy:
            meter.released("a")
            busy_s += span_s
    points = meter.series()
    assert len(points) <= 1100
    edges = [point.at_s for point in points] + [now_s]
    area = sum(
        point.cpu * (after - point.at_s) for point, after in zip(points, edges[1:], strict=True)
    )
    assert area == pytest.approx(0.5 * busy_s)
    assert meter.mean(0) == pytest.approx(0.5 * busy_s / now_s)


def test_pools_are_compared_by_the_part_of_their_time_that_their_jobs_ran() -> None:
    pools = [WorkloadPool("a"), WorkloadPool("b"), WorkloadPool("empty")]
    records = [
        JobRecord("1", "a", 0.0, 10.0, 0.0, 10.0),
        JobRecord("2", "b", 0.0, 10.0, 10.0, 20.0, preemptions=2),
    ]
    meter = Meter([node("n0")], pools)
    one, two = pool_figures(records, pools, meter)
    assert (one.running_share, two.running_share) == (1.0, 0.5)
    assert two.queueing.mean_s == 10.0
    assert two.preemptions == 2
