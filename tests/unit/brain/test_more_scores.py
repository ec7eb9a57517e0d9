"""Images, avoided nodes, pipelines, replicas: scores that gangs or nodes ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import by_node, gang, members, node, nodes

from mooring.brain import ClusterState, place
from mooring.brain.presets import recipe_for
from mooring.brain.profile import Profile
from mooring.model.cluster import Node, NodeUse, Snapshot
from mooring.model.member import PIPELINE, Gang
from mooring.model.plan import Plan

MIB = 1 << 20
IMAGE = "registry.example/train:1"


def scored(job: Gang, snapshot: Snapshot, name: str, member: int = 0) -> list[float]:
    """The score of every node for one member, by a profile that weighs it with 1."""
    plan = place(job, snapshot, Profile("one", scores=((name, 1.0),)))
    assert isinstance(plan, Plan)
    weight = dict(recipe_for(job).scores).get(name, 0.0) + 1.0
    verdicts = plan.placements[member].verdicts
    return [round(dict(verdict.scores)[name] / weight, 6) for verdict in verdicts]


def with_image(name: str, mib: int, image: str = IMAGE) -> Node:
    return replace(node(name, 8), images=((image, mib * MIB),) if mib else ())


# -- images


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # On 1 of 2 nodes: 1000 x 1/2 = 500, (500 - 23) / (1000 - 23) = 0.488229.
        ((1000, 0), [0.488229, 0.0]),
        # On both: 1000 x 2/2 is the most that counts; 500 x 2/2 = 500 as above.
        ((1000, 500), [1.0, 0.488229]),
        # 40 x 1/2 = 20 is below the least that counts.
        ((40, 0), [0.0, 0.0]),
        # 4000 x 1/2 = 2000 counts as 1000.
        ((4000, 0), [1.0, 0.0]),
    ],
)
def test_image_locality(sizes: tuple[int, int], expected: list[float]) -> None:
    cluster = tuple(with_image(f"n{i}", size) for i, size in enumerate(sizes))
    job = gang("spread", members("worker", 1, image=IMAGE))
    weight = 10.0  # as jobs with an image weigh it by themselves
    plan = place(job, Snapshot(cluster))
    assert isinstance(plan, Plan)
    found = [dict(verdict.scores)["images"] / weight for verdict in plan.placements[0].verdicts]
    assert [round(value, 6) for value in found] == expected


@pytest.mark.parametrize(
    ("asked", "there", "same"),
    [
        ("train", "train:latest", True),
        ("host:5000/train", "host:5000/train:latest", True),
        ("train:1", "train:2", False),
    ],
)
def test_names_of_images(asked: str, there: str, same: bool) -> None:
    cluster = (node("n0", 8), with_image("n1", 2000, there))
    plan = place(gang("spread", members("worker", 1, image=asked)), Snapshot(cluster))
    assert list(by_node(plan)) == (["n1"] if same else ["n0"])


def test_a_job_without_image_does_not_ask() -> None:
    plan = place(gang("spread", members("worker", 1)), Snapshot((with_image("n0", 1000),)))
    assert isinstance(plan, Plan)
    assert "images" not in dict(plan.placements[0].verdicts[0].scores)


# -- nodes to be avoided


def test_a_node_that_avoids_the_job_is_the_last() -> None:
    # Evenness would put a member on each node; here the third goes to n1 rather than to n0.
    cluster = (replace(node("n0", 2), avoids=("job",)), node("n1", 4))
    assert by_node(place(gang("spread", members("worker", 3)), Snapshot(cluster))) == {
        "n1": ["worker-0", "worker-1", "worker-2"]
    }
    # The fifth has no choice: 4 CPUs hold four.
    assert "n0" in by_node(place(gang("spread", members("worker", 5)), Snapshot(cluster)))


def test_an_avoided_node_scores_nothing() -> None:
    cluster = (replace(node("n0", 2), avoids=("job", "other")), node("n1", 2))
    plan = place(gang("spread", members("worker", 1)), Snapshot(cluster))
    assert isinstance(plan, Plan)
    found = [dict(verdict.scores)["avoid"] for verdict in plan.placements[0].verdicts]
    # 100 x (1 member + 2) for a node that does not avoid it.
    assert found == [0.0, 300.0]
    other = replace(gang("spread", members("worker", 1)), job="third")
    assert list(by_node(place(other, Snapshot(cluster)))) == ["n0"]


# -- replicas


def test_selector_and_service_spread() -> None:
    # Two servers and two workers on one node of the right size and one that is empty:
    # for the last worker, n0 has ps-0 and worker-0, n1 has ps-1.
    job = gang("spread", members("ps", 2), members("worker", 2))
    snapshot = Snapshot(nodes(2))
    # Of its role 1 of 2 is on n0: 1 - 1/2; none on n1: 1.
    assert scored(job, snapshot, "selector-spread", member=3) == [0.5, 1.0]
    # Of the job 2 of 4 are on n0: 1 - 2/4; 1 of 4 on n1: 1 - 1/4.
    assert scored(job, snapshot, "service-spread", member=3) == [0.5, 0.75]


# -- pipelines


def task(job: str, count: int = 1, pipeline: str = "nightly") -> Gang:
    labels = ((PIPELINE, pipeline),)
    workers = [replace(m, job=job, labels=labels) for m in members("worker", count)]
    return replace(gang("pack", workers), job=job)


def test_jobs_of_one_pipeline_go_to_different_nodes() -> None:
    state = ClusterState(Snapshot(nodes(3)))
    where = []
    for name in ("a", "b", "c"):
        plan = state.place(task(name))
        assert isinstance(plan, Plan)
        state.assume(task(name), plan)
        where.append(plan.placements[0].slot.node)
    assert sorted(where) == ["n0", "n1", "n2"]
    other = state.place(task("d", pipeline="weekly"))
    assert isinstance(other, Plan)
    assert other.placements[0].slot.node == "n0"


def test_what_has_ended_is_forgotten() -> None:
    state = ClusterState(Snapshot(nodes(2)))
    fresh = state.copy()
    plan = state.place(task("a"))
    assert isinstance(plan, Plan)
    state.assume(task("a"), plan)
    [(labels, count)] = state.use("n0").residents
    assert dict(labels) == {
        PIPELINE: "nightly",
        "mooring.dev/job": "a",
        "mooring.dev/role": "worker",
    }
    assert count == 1
    assert not state.same_as(fresh)
    assert ClusterState(state.snapshot()).same_as(state)
    state.release("a")
    assert state.same_as(fresh)


def test_a_job_that_grows_does_not_avoid_itself() -> None:
    state = ClusterState(Snapshot(nodes(2)))
    whole = task("a", 2)
    start = replace(whole, members=whole.members[:1])
    plan = state.place(start)
    assert isinstance(plan, Plan)
    state.assume(start, plan)
    more = state.place(replace(whole, members=whole.members[1:]))
    assert isinstance(more, Plan)
    # pack: both on n0, unless its own first member counted against it.
    assert [p.placements[0].slot.node for p in (plan, more)] == ["n0", "n0"]


def test_the_score_counts_members_of_other_jobs() -> None:
    # Two members of the pipeline on n0: -2 there, 0 on n1.
    use = {"n0": NodeUse(residents=((((PIPELINE, "nightly"), ("team", "a")), 2),))}
    assert scored(task("b"), Snapshot(nodes(2), use), "pipeline") == [-2.0, 0.0]
