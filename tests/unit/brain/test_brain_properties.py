"""What holds for every plan and every refusal, on random clusters and gangs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import GIB, can_be_placed, members, node, objections
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.brain import place
from mooring.model.cluster import Node, NodeUse, Snapshot, Taint, Toleration
from mooring.model.member import Duty, Gang, Member, Pinning, Preset, Relation, Rule
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

pytestmark = pytest.mark.slow

ROLES = ("ps", "worker", "chief")


@st.composite
def snapshots(draw: st.DrawFn, most_nodes: int) -> Snapshot:
    found: list[Node] = []
    use = {}
    for i in range(draw(st.integers(1, most_nodes))):
        if found and draw(st.booleans()):  # twins are common, and planners cut corners on them
            found.append(replace(found[-1], name=f"n{i}"))
            continue
        cells = draw(st.sampled_from([1, 1, 2]))
        cpus = cells * draw(st.integers(1, 6))
        overlapping = draw(st.integers(0, 7)) == 7
        each = node(
            f"n{i}",
            cpus,
            cells,
            smt=draw(st.sampled_from([1, 2])),
            cpu_millis=cpus * (500 if overlapping else 1000),
            memory_bytes=draw(st.integers(2, 9)) * GIB,
            gpus=draw(st.sampled_from([1, 0, 2])),
            labels={"mooring.dev/cpus": "overlapping"} if overlapping else {"disk": "fast"},
            taints=draw(
                st.sampled_from([(), (), (), (Taint("a"),), (Taint("b", "", "PreferNoSchedule"),)])
            ),
        )
        found.append(each)
        if draw(st.integers(0, 3)) == 3:
            held = draw(st.sets(st.sampled_from([cpu.id for cpu in each.cpus]), max_size=cpus - 1))
            shared = draw(st.sampled_from([0, 500, 1000]))
            use[each.name] = NodeUse(
                Resources(1000 * len(held) + shared, draw(st.integers(0, 1)) * GIB),
                frozenset(held),
                frozenset(draw(st.sampled_from([(), (0,)])) if each.gpus else ()),
                frozenset(draw(st.sampled_from([(), (80,)]))),
            )
    return Snapshot(tuple(found), use)


@st.composite
def groups(draw: st.DrawFn, role: str, most: int) -> tuple[Member, ...]:
    pinning = draw(st.sampled_from([Pinning.EXCLUSIVE, Pinning.SHARED, Pinning.NONE]))
    exclusive = pinning is Pinning.EXCLUSIVE
    return members(
        role,
        draw(st.integers(0, most)),
        draw(st.integers(1, 3)) if exclusive else draw(st.sampled_from([0, 0.5, 1, 2.5])),
        memory_gib=draw(st.sampled_from([0, 0, 1, 2, 3])),
        gpus=draw(st.sampled_from([0, 0, 0, 0, 0, 1])),
        pinning=pinning,
        ports=draw(st.sampled_from([{}, {}, {"main": 0}, {"main": 0}, {"main": 80}])),
        tolerations=draw(st.sampled_from([(), (Toleration("a", "Exists"),)])),
        node_selector=draw(st.sampled_from([{}, {}, {}, {}, {"disk": "fast"}])),
    )


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    some = st.lists(st.sampled_from(ROLES), min_size=1, max_size=2, unique=True)
    return Rule(
        draw(st.sampled_from(Relation)),
        tuple(draw(some)),
        tuple(draw(some)),
        required=draw(st.booleans()),
        weight=draw(st.integers(1, 100)),
    )


@st.composite
def gangs(draw: st.DrawFn, most: int, all_or_nothing: bool = True) -> Gang:
    found: list[Member] = []
    for role in ROLES:
        found += draw(groups(role, most - len(found)))
    if not found:
        found += members("worker", 1)
    return Gang(
        "job",
        tuple(draw(st.permutations(found))),
        draw(st.sampled_from(Preset)),
        (("ps", Duty.SERVES), ("chief", Duty.LEADS)),
        tuple(draw(st.lists(rules(), max_size=2)) if draw(st.booleans()) else ()),
        all_or_nothing,
    )


def check_plan(gang: Gang, snapshot: Snapshot, plan: Plan) -> None:
    where = {placement.member: placement.slot.node for placement in plan.placements}
    assert not list(objections(gang, snapshot, where))
    assert sorted([*where, *plan.waiting]) == sorted(member.id for member in gang.members)
    by_id = {member.id: member for member in gang.members}
    for each in snapshot.nodes:
        known = {cpu.id for cpu in each.cpus}
        held = set(snapshot.use_of(each.name).cpus)
        devices = set(snapshot.use_of(each.name).gpus)
        here = [p for p in plan.placements if p.slot.node == each.name]
        for placement in here:
            member, slot = by_id[placement.member], placement.slot
            assert set(slot.cpus) <= known
            assert set(slot.cells) == {cpu.cell for cpu in each.cpus if cpu.id in slot.cpus}
            assert len(slot.gpus) == member.resources.gpus
            assert not devices & set(slot.gpus)
            devices |= set(slot.gpus)
            assert slot.exclusive == (member.pinning is Pinning.EXCLUSIVE)
            if slot.exclusive:
                assert 1000 * len(slot.cpus) >= member.resources.cpu_millis
                assert not held & set(slot.cpus)
                held |= set(slot.cpus)
        for placement in here:
            pinning, cpus = by_id[placement.member].pinning, set(placement.slot.cpus)
            if pinning is Pinning.SHARED:
                assert cpus == known - held
                assert cpus
            elif pinning is Pinning.NONE:
                assert cpus == known
    for placement in plan.placements:
        verdicts = {verdict.node: verdict for verdict in placement.verdicts}
        assert list(verdicts) == [each.name for each in snapshot.nodes]
        assert not verdicts[placement.slot.node].refused


@settings(max_examples=400, deadline=None)
@given(gangs(most=9), snapshots(most_nodes=5))
def test_a_gang_is_placed_whole_within_every_limit_or_refused(
    gang: Gang, snapshot: Snapshot
) -> None:
    result = place(gang, snapshot)
    if isinstance(result, Refusal):
        assert result.sentence.startswith(f"0/{len(snapshot.nodes)} nodes can take {result.member}")
        assert all(verdict.refused for verdict in result.verdicts)
    else:
        assert not result.waiting
        check_plan(gang, snapshot, result)


@settings(max_examples=200, deadline=None)
@given(gangs(most=9, all_or_nothing=False), snapshots(most_nodes=5))
def test_a_gang_that_may_start_in_part_keeps_every_limit_too(
    gang: Gang, snapshot: Snapshot
) -> None:
    result = place(gang, snapshot)
    if isinstance(result, Plan):
        check_plan(gang, snapshot, result)


@settings(max_examples=100, deadline=None)
@given(gangs(most=6), snapshots(most_nodes=4))
def test_the_same_input_gives_the_same_plan(gang: Gang, snapshot: Snapshot) -> None:
    assert place(gang, snapshot) == place(gang, snapshot)


@settings(max_examples=500, deadline=None)
@given(gangs(most=4), snapshots(most_nodes=3))
def test_refused_only_if_no_assignment_works(gang: Gang, snapshot: Snapshot) -> None:
    assert isinstance(place(gang, snapshot), Plan) == can_be_placed(gang, snapshot)


@settings(max_examples=200, deadline=None)
@given(gangs(most=4), snapshots(most_nodes=3))
def test_never_fits_is_said_only_if_the_empty_cluster_does_not_do(
    gang: Gang, snapshot: Snapshot
) -> None:
    result = place(gang, snapshot)
    if isinstance(result, Refusal):
        said = "empty cluster" in result.sentence or "large enough" in result.sentence
        if said:
            assert not can_be_placed(gang, Snapshot(snapshot.nodes))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 6))
@example(3, 7, 5)
def test_servers_are_even_where_room_allows(count: int, servers: int, workers: int) -> None:
    gang = Gang(
        "job",
        members("worker", workers) + members("ps", servers, 2),
        Preset.SPREAD_PS,
        (("ps", Duty.SERVES),),
    )
    plan = place(gang, Snapshot(tuple(node(f"n{i}", 32) for i in range(count))))
    assert isinstance(plan, Plan)
    here = [
        sum(p.slot.node == f"n{i}" and p.member.role == "ps" for p in plan.placements)
        for i in range(count)
    ]
    assert max(here) - min(here) <= 1
