"""Jobs that arrive one after the other, and what would have to change for a refused one."""

from __future__ import annotations

import pytest

from mooring.brain.changes import changes
from mooring.brain.queue import Admit, PoolSpec, Preempt, QueuedGang, Wait, arrive
from mooring.brain.state import ClusterState
from mooring.model.cluster import Cpu, Gpu, Node, Snapshot, Taint
from mooring.model.member import Gang, Member, MemberId, Pinning, Preset
from mooring.model.resources import Resources


def node(name: str, cpus: int = 8, gpus: int = 4, taints: tuple[Taint, ...] = ()) -> Node:
    return Node(
        name,
        tuple(Cpu(i, i, 0, 0, 0) for i in range(cpus)),
        1000 * cpus,
        64 << 30,
        tuple(Gpu(i, 0) for i in range(gpus)),
        taints=taints,
    )


def gang(job: str, members: int, cpu: int = 1, gpus: int = 1) -> Gang:
    return Gang(
        job,
        tuple(
            Member(MemberId("worker", i), job, Resources(1000 * cpu, 1 << 30, gpus))
            for i in range(members)
        ),
        Preset.PACK,
    )


THREE = Snapshot(tuple(node(f"n{i}") for i in range(3)))
CAPACITY = Resources(24000, 192 << 30, 12)


def test_three_run_and_one_waits_in_any_order() -> None:
    """The deadlock of four jobs of 4 workers on 3 nodes of 4 devices cannot happen."""
    for first in range(4):
        names = [f"job-{(first + i) % 4}" for i in range(4)]
        queued = [QueuedGang(gang(name, 4), arrived_s=float(i)) for i, name in enumerate(names)]
        outcome = arrive(queued, ClusterState(THREE), CAPACITY)
        assert [running.job for running in outcome.running] == names[:3]
        assert all(running.size == 4 for running in outcome.running)
        assert [wait.job for wait in outcome.waiting] == names[3:]


def test_a_higher_priority_sends_one_whole_gang_away() -> None:
    queued = [QueuedGang(gang(f"low-{i}", 4), arrived_s=float(i)) for i in range(3)]
    queued.append(QueuedGang(gang("high", 4), priority=10, arrived_s=3.0))
    outcome = arrive(queued, ClusterState(THREE), CAPACITY)
    assert sum(isinstance(each, Preempt) for each in outcome.story) == 1
    assert isinstance(outcome.story[-1], Admit)
    assert "high" in {running.job for running in outcome.running}
    [wait] = outcome.waiting
    assert wait.job.startswith("low-")


def test_a_pool_does_not_go_over_its_cap() -> None:
    pools = [PoolSpec("ads", Resources(gpus=4), Resources(24000, 192 << 30, 4))]
    queued = [QueuedGang(gang(f"ad-{i}", 4), pool="ads", arrived_s=float(i)) for i in range(2)]
    outcome = arrive(queued, ClusterState(THREE), CAPACITY, pools)
    assert [running.job for running in outcome.running] == ["ad-0"]
    assert isinstance(outcome.story[-1], Wait)
    assert "pool ads" in outcome.story[-1].sentence


# 12 devices: 14 members do not fit, 12 do, and so does one more node of 4.
def test_fewer_members_or_one_more_node() -> None:
    assert changes(gang("big", 14), THREE) == (
        "roles.worker.replicas: 12 instead of 14",
        "1 more node like n0 (8 cpu, 64Gi, 4 gpu)",
    )


@pytest.mark.parametrize(
    ("asked", "snapshot", "said"),
    [
        # A member of 9 CPUs on nodes of 8: 8 fits, in steps of 100m.
        (gang("wide", 1, cpu=9), THREE, "roles.worker.resources.cpu: 8 instead of 9"),
        (
            gang("any", 1),
            Snapshot((node("t", taints=(Taint("team", "ads"),)),)),
            "a toleration of team=ads:NoSchedule",
        ),
    ],
)
def test_single_changes(asked: Gang, snapshot: Snapshot, said: str) -> None:
    assert said in changes(asked, snapshot)


def test_what_fits_after_a_change_is_true() -> None:
    """Two exclusive members of one CPU beside one that shares: one CPU must stay shared."""
    members = tuple(
        Member(MemberId("worker", i), "x", Resources(1000), pinning=Pinning.EXCLUSIVE)
        for i in range(3)
    )
    tight = Gang("x", members, Preset.PACK)
    small = Snapshot((node("n", cpus=2, gpus=0),))
    assert "roles.worker.replicas: 2 instead of 3" in changes(tight, small)


def test_no_change_helps_where_there_are_no_nodes() -> None:
    assert changes(gang("x", 1), Snapshot(())) == ()
