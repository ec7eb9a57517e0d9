"""Priority and waiting time."""

from __future__ import annotations

import pytest
from shelf import admitted, cluster, queued

from mooring.brain.queue import QueuePolicy, QueueState, RunningGang, decide
from mooring.brain.queue.order import CLASSES, effective, key, standing
from mooring.model.plan import Plan

MINUTE = QueuePolicy(ageing_per_s=1 / 60)


@pytest.mark.parametrize(
    ("waits_s", "priority", "points"),
    [
        (0, 0, 0.0),
        (60, 0, 1.0),  # one point a minute
        (3600, 0, 60.0),  # an hour: 60 points, one class
        (3600, -60, 0.0),  # low after an hour = normal on arrival
        (-10, 5, 5.0),  # a clock that went back takes nothing away
    ],
)
def test_points(waits_s: float, priority: int, points: float) -> None:
    gang = queued("j", priority=priority, arrived_s=1000.0)
    assert effective(gang, MINUTE, 1000.0 + waits_s) == pytest.approx(points)


@pytest.mark.parametrize(
    ("gangs", "order"),
    [
        # Same priority: who came first.
        ([("b", 0, 0.0), ("a", 0, 1.0)], "ba"),
        # Same moment: by name.
        ([("b", 0, 5.0), ("a", 0, 5.0)], "ab"),
        # 10 points above = 600 s of waiting at one point a minute; 599 s are not enough, ...
        ([("a", 0, 0.0), ("b", 10, 599.0)], "ba"),
        # ... at 600 s it is a tie, which goes to who came first, ...
        ([("a", 0, 0.0), ("b", 10, 600.0)], "ab"),
        # ... and after that the priority no longer helps.
        ([("a", 0, 0.0), ("b", 10, 601.0)], "ab"),
        # Classes: 60 points apart, an hour.
        ([("a", CLASSES["normal"], 0.0), ("b", CLASSES["high"], 3500.0)], "ba"),
        ([("a", CLASSES["normal"], 0.0), ("b", CLASSES["high"], 3700.0)], "ab"),
    ],
)
def test_order(gangs: list[tuple[str, int, float]], order: str) -> None:
    waiting = tuple(
        queued(name, priority=priority, arrived_s=arrived) for name, priority, arrived in gangs
    )
    assert "".join(each.job for each in sorted(waiting, key=lambda g: key(g, MINUTE))) == order
    shelf, capacity = cluster(1, 1)  # room for one
    state = QueueState(capacity, waiting, policy=MINUTE)
    assert admitted(decide(state, shelf, 4000.0)) == [order[0]]


def test_order_by_priority_alone_without_ageing() -> None:
    none = QueuePolicy(ageing_per_s=0.0)
    old, better = queued("old"), queued("better", priority=1, arrived_s=1e9)
    assert key(better, none) < key(old, none)


def test_who_waited_long_keeps_that_standing_while_it_runs() -> None:
    gang = queued("j", priority=0, arrived_s=0.0)
    # 600 s of waiting = 10 points; the time that it runs adds nothing.
    assert standing(RunningGang(gang, Plan("j", ()), 600.0), MINUTE) == pytest.approx(10.0)
