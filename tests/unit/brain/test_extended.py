"""Extended resources: any countable thing with a name, from the job to the refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import GIB, by_node, gang, members, node

from mooring.brain import ClusterState, place
from mooring.brain.changes import changes
from mooring.brain.profile import Profile
from mooring.model.cluster import Node, NodeUse, Snapshot
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

FPGA = "example.com/fpga"


def with_fpgas(name: str, count: int) -> Node:
    return replace(node(name, 16), extended=((FPGA, count),) if count else ())


def asking(count: int, each: int, cpu: float = 1) -> Gang:
    workers = members("worker", count, cpu)
    extended = ((FPGA, each),)
    return gang(
        "spread",
        [replace(m, resources=replace(m.resources, extended=extended)) for m in workers],
    )


# -- the amounts


def test_amounts_add_and_subtract_exactly() -> None:
    one = Resources(1000, GIB, extended=(("rdma/hca", 1), (FPGA, 2)))
    two = Resources(extended=((FPGA, 3),))
    assert (one + two).extended == ((FPGA, 5), ("rdma/hca", 1))
    assert (one + two) - two == one
    assert str(one) == "1 cpu, 1Gi, 2 example.com/fpga, 1 rdma/hca"


def test_nothing_of_a_resource_equals_no_such_resource() -> None:
    assert Resources(extended=((FPGA, 0),)) == Resources()


def test_amounts_never_go_below_zero() -> None:
    with pytest.raises(ValueError, match="negative"):
        Resources(extended=((FPGA, 1),)) - Resources(extended=((FPGA, 2),))


@pytest.mark.parametrize(
    ("asked", "fits"), [(((FPGA, 2),), True), (((FPGA, 3),), False), ((("a/b", 1),), False)]
)
def test_fits_only_if_every_resource_does(asked: tuple[tuple[str, int], ...], fits: bool) -> None:
    assert Resources(extended=asked).fits_in(Resources(extended=((FPGA, 2),))) is fits


# -- the filter


def test_a_gang_takes_what_each_node_has() -> None:
    # n0 has 4 and n1 has 2: members of 2 each fit twice and once; n2 has none.
    cluster = (with_fpgas("n0", 4), with_fpgas("n1", 2), with_fpgas("n2", 0))
    plan = place(asking(3, 2), Snapshot(cluster))
    assert {name: len(there) for name, there in by_node(plan).items()} == {"n0": 2, "n1": 1}


def test_the_refusal_names_the_resource() -> None:
    cluster = (with_fpgas("n0", 4), with_fpgas("n1", 2), with_fpgas("n2", 0))
    refusal = place(asking(4, 2), Snapshot(cluster))
    assert isinstance(refusal, Refusal)
    assert "needs 1 cpu, 2 example.com/fpga" in refusal.sentence
    assert "3 insufficient example.com/fpga" in refusal.sentence
    assert [verdict.reasons for verdict in refusal.verdicts] == [
        ("insufficient example.com/fpga (has 0 free)",),
        ("insufficient example.com/fpga (has 0 free)",),
        ("insufficient example.com/fpga (has 0 free)",),
    ]


def test_a_resource_that_no_node_has() -> None:
    refusal = place(asking(1, 1), Snapshot((node("n0", 4),)))
    assert isinstance(refusal, Refusal)
    assert "1 insufficient example.com/fpga" in refusal.sentence
    assert "no node is large enough" in refusal.sentence


def test_what_others_use_is_not_free() -> None:
    use = {"n0": NodeUse(Resources(extended=((FPGA, 3),)))}
    refusal = place(asking(1, 2), Snapshot((with_fpgas("n0", 4),), use))
    assert isinstance(refusal, Refusal)
    assert refusal.verdicts[0].reasons == ("insufficient example.com/fpga (has 1 free)",)


# -- the warm cluster


def test_taking_and_giving_back() -> None:
    state = ClusterState(Snapshot((with_fpgas("n0", 4),)))
    fresh = state.copy()
    job = asking(2, 2)
    plan = state.place(job)
    assert isinstance(plan, Plan)
    state.assume(job, plan)
    assert state.free("n0").count(FPGA) == 0
    assert state.use("n0").resources == Resources(2000, extended=((FPGA, 4),))
    assert isinstance(state.place(replace(asking(1, 1), job="other")), Refusal)
    assert not state.same_as(fresh)
    state.release(job.job)
    assert state.same_as(fresh)


def test_a_plan_that_no_longer_fits_is_not_taken() -> None:
    state = ClusterState(Snapshot((with_fpgas("n0", 2),)))
    job = asking(1, 2)
    plan = state.place(job)
    assert isinstance(plan, Plan)
    state.assume(job, plan)
    with pytest.raises(ValueError, match="no longer fits"):
        state.assume(replace(job, job="other"), plan)


# -- scores and advice


def test_the_ratio_of_any_resource() -> None:
    # The default shape falls from 10 at 0 % to 0 at 100 %. With 1 of 4 used by the member: 25 %,
    # so 0.75; with 2 of 8 used by others and 1 more: 3/8, so 0.625.
    cluster = (with_fpgas("n0", 4), with_fpgas("n1", 8))
    use = {"n1": NodeUse(Resources(extended=((FPGA, 2),)))}
    profile = Profile("fpgas", scores=(("ratio", 1.0),), ratio_of=((FPGA, 1.0),))
    plan = place(asking(1, 1), Snapshot(cluster, use), profile)
    assert isinstance(plan, Plan)
    found = [dict(verdict.scores)["ratio"] for verdict in plan.placements[0].verdicts]
    assert found == [0.75, 0.625]


def test_fewer_of_them_is_tried_as_a_change() -> None:
    snapshot = Snapshot((with_fpgas("n0", 3),))
    assert "roles.worker.resources.example.com/fpga: 3 instead of 4" in changes(
        asking(1, 4), snapshot
    )
