"""Why a job goes where it goes, alone or among others, and what would help."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.brain.queue import Groups, PoolSpec
from mooring.explaining import Explanation, explain
from mooring.model.cluster import Cpu, Gpu, Node, Snapshot
from mooring.model.errors import BadInput
from mooring.model.resources import Resources
from mooring.placing import plan_job
from mooring.planning import Cluster, Submitted, plan_queue
from mooring.spec import TrainingJob

NODES = tuple(
    Node(
        f"n{i}",
        tuple(Cpu(cpu, cpu, 0, 0, 0) for cpu in range(8)),
        8000,
        64 << 30,
        tuple(Gpu(number, 0) for number in range(4)),
    )
    for i in range(2)
)
PLAIN = Cluster(Snapshot(NODES))


def job(name: str, workers: int = 4, **spec: Any) -> Submitted:
    roles = {"worker": {"replicas": workers, "resources": {"cpu": 1, "gpu": 1}}}
    spec = {"framework": "pytorch", "command": ["a"], "roles": roles, **spec}
    data = {"metadata": {"name": name}, "spec": spec}
    return TrainingJob.model_validate(data), f"{name}.yaml"


def ask(*jobs: Submitted, cluster: Cluster = PLAIN, member: str | None = None) -> Explanation:
    return explain(jobs, cluster, member)


def test_alone_and_placed() -> None:
    found = ask(job("a"), member="worker-2")
    assert (found.member.name, found.node, found.refused) == ("worker-2", "n0", None)
    assert [verdict.node for verdict in found.verdicts] == ["n0", "n1"]


def test_alone_and_refused() -> None:
    # 9 workers, 8 devices
    found = ask(job("a", 9))
    assert found.node is None and not found.queued
    assert found.refused is not None and "insufficient gpu" in found.refused
    assert "roles.worker.replicas: 8 instead of 9" in found.changes


def test_an_unknown_member_is_bad_input() -> None:
    with pytest.raises(BadInput, match="one of worker-0, worker-1"):
        ask(job("a"), member="worker-9")


def test_the_first_few_ends_that_are_enough_are_named_together() -> None:
    # a and b hold 4 each; c wants all 8: one end is not enough.
    found = ask(job("a"), job("b"), job("c", 8))
    assert found.queued
    assert "a and b have ended" in found.changes
    assert "a has ended" not in found.changes
    # Fewer members would not help: all 8 are held.
    assert not any("replicas" in change for change in found.changes)


def test_a_smaller_minimum_is_tried() -> None:
    # 8 - 4 = 4 devices are free for at least 1 and at most 6 workers.
    found = ask(job("a"), job("b", 6))
    assert "minAvailable: 4" in found.changes
    assert "roles.worker.replicas: 4 instead of 6" in found.changes


def test_a_job_that_must_not_be_preempted_may_borrow_if_it_may() -> None:
    # b is guaranteed all 8: whoever is not of b may only borrow, and give back.
    pools = (PoolSpec("b", Resources(gpus=8)), PoolSpec("c"))
    found = ask(job("x", pool="c", preemptible=False), cluster=Cluster(Snapshot(NODES), pools))
    assert found.changes[:2] == ("preemptible: true", "pool: b instead of c")


def test_every_change_really_helps() -> None:
    first, second = job("a", 6, expectedDuration="1h"), job("b", 6)
    found = ask(first, second)
    assert "priority: 1 instead of 0 (at the cost of others)" in found.changes
    higher = job("b", 6, priority=1)
    assert ask(first, higher).node is not None
    assert ask(first, job("b", 6, minAvailable=2)).node is not None


def test_an_elastic_job_alone_takes_what_there_is() -> None:
    gang, plan = plan_job(job("a", 12, minAvailable=2)[0], Snapshot(NODES))
    assert len(gang.members) == 8
    assert plan.notes[-1] == "starts with 8 of 12 members (minAvailable)"
    found = ask(job("a", 12, minAvailable=2), member="worker-11")
    assert found.note == "a runs with 8 of 12 members: worker-11 has no place"


def test_pools_and_names_are_checked() -> None:
    pooled = Cluster(Snapshot(NODES), (PoolSpec("b"),), Groups())
    with pytest.raises(BadInput, match="one of the cluster's pools: b"):
        plan_queue([job("a")], pooled)
    with pytest.raises(BadInput, match="a name of its own"):
        plan_queue([job("a"), job("a")], PLAIN)
    with pytest.raises(BadInput, match=r"spec.priority.*did you mean 'urgent'"):
        plan_queue([job("a", priority="urgnet"), job("b")], PLAIN)
