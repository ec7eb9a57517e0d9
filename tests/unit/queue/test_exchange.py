"""Gangs that arrived together: as many of them start as can, and nobody else pays for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shelf import admitted

from mooring.brain.queue import PoolSpec, QueuedGang, QueueState, RunningGang, Wait, decide
from mooring.brain.state import ClusterState
from mooring.model.cluster import Cpu, Node, Snapshot
from mooring.model.member import Gang, Member, MemberId, Preset
from mooring.model.plan import Plan
from mooring.model.resources import Resources

GIB = 1 << 30


def _cluster(*sizes: tuple[int, int]) -> ClusterState:
    """Nodes of so many CPUs and GiB."""
    return ClusterState(
        Snapshot(
            tuple(
                Node(
                    f"n{i}", tuple(Cpu(c, c, 0, 0, 0) for c in range(cpus)), 1000 * cpus, gib * GIB
                )
                for i, (cpus, gib) in enumerate(sizes)
            )
        )
    )


def _queued(job: str, cpus: int, gib: int, count: int = 1, **more: object) -> QueuedGang:
    ask = Resources(1000 * cpus, gib * GIB)
    workers = tuple(Member(MemberId("worker", i), job, ask) for i in range(count))
    return QueuedGang(Gang(job, workers, Preset.SPREAD), **more)  # type: ignore[arg-type]


def _capacity(cluster: ClusterState) -> Resources:
    return sum((node.capacity for node in cluster.nodes), Resources())


# 10 CPUs and 10 GiB. `a` asks for the smallest part (0.6) and starts first; then neither `b` nor
# `c` (0.7 each) fits, though 7 + 3 CPUs and 3 + 7 GiB would.
A, B, C = _queued("a", 6, 6), _queued("b", 7, 3), _queued("c", 3, 7)


@pytest.mark.parametrize(
    ("waiting", "started"),
    [
        ((A, B, C), ["b", "c"]),
        ((C, A, B), ["b", "c"]),
        # Somebody's turn is not given to two others.
        ((replace(A, priority=1), B, C), ["a"]),
        ((replace(A, arrived_s=-1.0), B, C), ["a"]),
        # One for one is no gain.
        ((A, B), ["a"]),
        # Nor is one for one later arrival.
        ((A, B, replace(C, arrived_s=1.0)), ["a"]),
        # An elastic gang keeps what it has.
        ((_queued("a", 2, 2, 3, min_available=2), B, C), ["a"]),
    ],
)
def test_one_waits_for_two_of_its_turn_only(
    waiting: tuple[QueuedGang, ...], started: list[str]
) -> None:
    cluster = _cluster((10, 10))
    decisions = decide(QueueState(_capacity(cluster), waiting), cluster, 2.0)
    assert sorted(admitted(decisions)) == started


def test_who_waits_instead_is_told_for_whom() -> None:
    cluster = _cluster((10, 10))
    decisions = decide(QueueState(_capacity(cluster), (A, B, C)), cluster, 0.0)
    waits = [each.sentence for each in decisions if isinstance(each, Wait)]
    assert waits == [
        "a waits for 6 cpu, 6Gi in pool default: b and c, which arrived with it, start in its "
        "place."
    ]


def test_who_runs_keeps_running() -> None:
    cluster = _cluster((10, 10))
    plan = cluster.place(A.gang)
    assert isinstance(plan, Plan)
    cluster.assume(A.gang, plan)
    state = QueueState(_capacity(cluster), (B, C), (RunningGang(A, plan, 0.0),))
    assert admitted(decide(state, cluster, 0.0)) == []


def test_another_pool_pays_nothing() -> None:
    cluster = _cluster((10, 10))
    pools = (PoolSpec("mine", Resources(6000, 6 * GIB)), PoolSpec("yours", Resources(1000, GIB)))
    waiting = (replace(A, pool="mine"), replace(B, pool="yours"), replace(C, pool="yours"))
    decisions = decide(QueueState(_capacity(cluster), waiting, (), pools), cluster, 0.0)
    assert admitted(decisions) == ["a"]


def test_a_head_that_waits_for_its_turn_is_not_delayed() -> None:
    """`head` needs all and waits for `old`, which ends at 100. `a` ends in time, `b` and `c` would
    not: they do not start, in the place of `a` or otherwise."""
    cluster = _cluster((10, 10), (10, 10))
    old = _queued("old", 10, 10, expected_s=100.0)
    plan = cluster.place(old.gang)
    assert isinstance(plan, Plan)
    cluster.assume(old.gang, plan)
    head = _queued("head", 10, 10, 2, arrived_s=-9.0)
    waiting = (head, replace(A, expected_s=50.0), *(replace(x, expected_s=500.0) for x in (B, C)))
    state = QueueState(_capacity(cluster), waiting, (RunningGang(old, plan, 0.0),))
    assert admitted(decide(state, cluster, 0.0)) == ["a"]


def test_plans_change_before_anybody_waits() -> None:
    """Two nodes of 8 CPUs. `a` (2 members of 3) is spread over both, which leaves 5 and 5; `b` (one
    of 8) fits once `a` is on one node: 6 of 8."""
    cluster = _cluster((8, 64), (8, 64))
    waiting = (_queued("a", 3, 1, 2), _queued("b", 8, 1, arrived_s=1.0))
    decisions = decide(QueueState(_capacity(cluster), waiting), cluster, 1.0)
    assert sorted(admitted(decisions)) == ["a", "b"]
