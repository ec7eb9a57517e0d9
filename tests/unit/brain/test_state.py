"""The warm cluster: what is taken comes back, and it decides as a snapshot would."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import gang, members, nodes
from hypothesis import given, settings
from hypothesis import strategies as st
from test_brain_properties import gangs, snapshots

from mooring.brain import ClusterState, place
from mooring.brain.profile import DEFAULT, FULL, Profile
from mooring.model.cluster import CpuManager, KubeletPolicy, Snapshot, TopologyManager
from mooring.model.member import Gang, MemberId, Pinning
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

EXCLUSIVE = Pinning.EXCLUSIVE


def bare(outcome: Plan | Refusal) -> Plan | Refusal:
    """Without verdicts."""
    if isinstance(outcome, Refusal):
        return replace(outcome, verdicts=())
    return replace(
        outcome, placements=tuple(replace(each, verdicts=()) for each in outcome.placements)
    )


def named(one: Gang, job: str) -> Gang:
    return replace(one, job=job, members=tuple(replace(m, job=job) for m in one.members))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    snapshots(most_nodes=5),
    st.lists(gangs(most=5), min_size=1, max_size=4),
    st.sampled_from((DEFAULT, FULL)),
    st.data(),
)
def test_gangs_come_and_go_and_leave_no_trace(
    snapshot: Snapshot, queue: list[Gang], profile: Profile, data: st.DataObject
) -> None:
    state = ClusterState(snapshot, profile)
    untouched = state.copy()
    for number, one in enumerate(queue):
        job = named(one, f"job{number}")
        sure = state.has_room(job)
        outcome = state.place(job)
        assert outcome == bare(place(job, state.snapshot(), profile))
        assert isinstance(outcome, Refusal) or state.may_fit(job)
        assert sure is None or sure is isinstance(outcome, Plan)
        if isinstance(outcome, Plan):
            if state.nameless(job):
                assert state.place(named(job, "other")) == replace(outcome, job="other")
            before = state.copy()
            state.assume(job, outcome)
            assert state.place(job) == outcome
            twin = state.copy()
            twin.release(job.job)
            assert twin.same_as(before)
        if state.held and data.draw(st.booleans()):
            state.release(data.draw(st.sampled_from(sorted(state.held))))
        cold = ClusterState(state.snapshot(), profile)
        for other in queue:
            asked = named(other, "other")
            assert state.may_fit(asked) == cold.may_fit(asked)
            assert state.has_room(asked) == cold.has_room(asked)
    for job_name in list(state.held):
        state.release(job_name)
    assert state.same_as(untouched)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(snapshots(most_nodes=5), st.lists(gangs(most=5), min_size=3, max_size=5), st.data())
def test_who_is_crowded_out_has_no_place_beside_the_other(
    snapshot: Snapshot, drawn: list[Gang], data: st.DataObject
) -> None:
    head, other, *rest = [named(one, f"job{number}") for number, one in enumerate(drawn)]
    now = ClusterState(snapshot)
    for one in rest:
        outcome = now.place(one)
        if isinstance(outcome, Plan):
            now.assume(one, outcome)
    later = now.copy()
    for job in sorted(now.held):
        if data.draw(st.booleans()):
            later.release(job)
    outcome = now.place(other)
    if isinstance(outcome, Plan) and later.crowded_out(head, other, now):
        later.assume(other, outcome)
        assert not later.may_fit(head)


@pytest.mark.parametrize(
    ("size", "count", "cpu", "crowded"),
    [
        # Two nodes of 4 CPUs have room for 2 + 2 members of 2 CPUs each.
        (4, 1, 1, True),  # none to spare: each node must keep its 4 CPUs, 0 + 0 others fit beside
        (3, 1, 2, False),  # one to spare: each must keep 2 CPUs, so 1 + 1 others fit beside
        (3, 3, 2, True),  # the same, and three others are more than 1 + 1
        (3, 2, 2, False),  # 1 + 1 others would do for each node, though not for both: not told
    ],
)
def test_a_gang_is_crowded_out_wherever_the_other_goes(
    size: int, count: int, cpu: float, crowded: bool
) -> None:
    state = ClusterState(Snapshot(nodes(2, 4)))
    head = named(gang("pack", members("worker", size, 2)), "head")
    other = named(gang("pack", members("worker", count, cpu)), "other")
    assert state.crowded_out(head, other, state) is crowded


POLICIES = (
    None,
    KubeletPolicy(),
    KubeletPolicy(CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE),
    KubeletPolicy(CpuManager.STATIC, TopologyManager.RESTRICTED, reserved_cpus=frozenset({0})),
    KubeletPolicy(CpuManager.STATIC, full_physical_cores_only=True),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(snapshots(most_nodes=4), gangs(most=5), gangs(most=4), st.data())
def test_every_kubelet_admits_what_is_sent_to_it(
    snapshot: Snapshot, one: Gang, other: Gang, data: st.DataObject
) -> None:
    found = tuple(
        replace(each, kubelet=data.draw(st.sampled_from(POLICIES))) for each in snapshot.nodes
    )
    state = ClusterState(Snapshot(found, snapshot.use))
    untouched = state.copy()
    for job in (named(one, "one"), named(other, "other")):
        outcome = state.place(job)
        assert outcome == bare(place(job, state.snapshot()))
        assert isinstance(outcome, Refusal) or state.may_fit(job)
        if isinstance(outcome, Plan):
            members_of = {member.id: member for member in job.members}
            for placement in outcome.placements:
                each = next(node for node in found if node.name == placement.slot.node)
                if each.kubelet is None:
                    continue
                member = members_of[placement.member]
                static = each.kubelet.cpu_manager is CpuManager.STATIC
                exclusive = member.pinning is EXCLUSIVE
                assert not exclusive or static
                asked = member.resources
                whole = asked.cpu_millis > 0 and asked.cpu_millis % 1000 == 0
                assert exclusive or not asked.gpus or not static or whole
                if exclusive:
                    assert not each.kubelet.reserved_cpus & set(placement.slot.cpus)
                    if each.kubelet.topology_manager is TopologyManager.SINGLE_NUMA_NODE:
                        assert len(placement.slot.cells) == 1
            state.assume(job, outcome)
    for job_name in list(state.held):
        state.release(job_name)
    assert state.same_as(untouched)


@settings(max_examples=100, deadline=None)
@given(snapshots(most_nodes=4), gangs(most=6))
def test_what_was_planned_is_planned_again_once_it_is_gone(snapshot: Snapshot, job: Gang) -> None:
    state = ClusterState(snapshot)
    outcome = state.place(job)
    if isinstance(outcome, Plan):
        state.assume(job, outcome)
        state.release(job.job)
        assert state.place(job) == outcome


@settings(max_examples=100, deadline=None)
@given(snapshots(most_nodes=4), gangs(most=6))
def test_explanations_are_the_verdicts_of_the_plan(snapshot: Snapshot, job: Gang) -> None:
    state = ClusterState(snapshot)
    outcome = place(job, snapshot)
    if isinstance(outcome, Refusal):
        assert state.explain(job) == outcome.verdicts
    else:
        for placement in outcome.placements:
            assert state.explain(job, placement.member) == placement.verdicts


def test_a_plan_that_no_longer_fits_takes_nothing() -> None:
    # two nodes of 4: the plan is 2 + 2 CPUs on each; somebody else takes one node in between
    state = ClusterState(Snapshot(nodes(2, 4)))
    one = named(gang("spread", members("worker", 4, 2, pinning=EXCLUSIVE)), "one")
    other = named(gang("pack", members("worker", 1, 4, pinning=EXCLUSIVE)), "other")
    stale, plan = state.place(one), state.place(other)
    assert isinstance(stale, Plan)
    assert isinstance(plan, Plan)
    state.assume(other, plan)
    before = state.copy()
    with pytest.raises(ValueError, match="the plan of one no longer fits on n0"):
        state.assume(one, stale)
    assert state.same_as(before)
    assert list(state.held) == ["other"]


def test_a_job_holds_its_places_once() -> None:
    state = ClusterState(Snapshot(nodes(1)))
    job = gang("pack", members("worker", 1))
    plan = state.place(job)
    assert isinstance(plan, Plan)
    state.assume(job, plan)
    with pytest.raises(ValueError, match="job already holds its places"):
        state.assume(job, plan)
    assert state.free("n0") == Resources(7000, 64 << 30)


def test_utilisation_is_by_node() -> None:
    state = ClusterState(Snapshot(nodes(2, 8, gpus=2)))
    job = gang("pack", members("worker", 2, 2, gpus=1, memory_gib=1))
    plan = state.place(job)
    assert isinstance(plan, Plan)
    state.assume(job, plan)
    used = state.utilisation()
    assert used.cpu_millis_used.tolist() == [4000, 0]
    assert used.gpus_used.tolist() == [2, 0]
    assert used.gpus.tolist() == [2, 2]
    assert state.use("n0").gpus == {0, 1}
    # its own places do not speak against it
    assert not state.explain(job, MemberId("worker", 0))[0].refused


def test_states_that_nobody_is_in_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.brain.state._MOST_STATES", 8)
    monkeypatch.setattr("mooring.brain.state._MOST_STATES_A_NODE", 0)
    state = ClusterState(Snapshot(nodes(2, cpus=8)))
    untouched = state.copy()
    for number in range(40):
        workers = members("worker", 1 + number % 3, pinning=EXCLUSIVE)
        one = named(gang("pack", workers), f"j{number}")
        plan = state.place(one)
        assert plan == bare(place(one, state.snapshot()))
        assert isinstance(plan, Plan)
        state.assume(one, plan)
        if number >= 2:
            state.release(f"j{number - 2}")
        # At most 8 when it looked last, and what three gangs have added since.
        assert len(state._layout.pool) <= 8 + 3 * 3
    for job in list(state.held):
        state.release(job)
    assert state.same_as(untouched)
