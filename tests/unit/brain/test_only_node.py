"""On one node the short cut gives the planner's own slots, and leaves to it what it must."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mooring.brain import place
from mooring.brain.only_node import plan_on_only_node
from mooring.model.affinity import NodeWish
from mooring.model.cluster import Cpu, Gpu, KubeletPolicy, Node, NodeUse, Snapshot, Taint
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset, Relation, Rule
from mooring.model.plan import Plan
from mooring.model.resources import Resources
from mooring.model.volumes import Storage, Volume

GIB = 1 << 30


def cpus(cells: list[int]) -> tuple[Cpu, ...]:
    return tuple(Cpu(i, core=i, l3=cell, cell=cell, socket=cell) for i, cell in enumerate(cells))


NODE = Node("here", cpus([0, 0, 1, 1]), cpu_millis=4000, memory_bytes=8 * GIB)
GANG = Gang("job", (Member(MemberId("worker", 0), "job"),), Preset.SPREAD)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    cells = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
    node = Node(
        "here",
        cpus(cells),
        cpu_millis=1000 * len(cells) - draw(st.sampled_from((0, 0, 500))),
        memory_bytes=8 * GIB,
        gpus=tuple(Gpu(index, 0, "card") for index in range(draw(st.integers(0, 2)))),
    )
    held = draw(st.frozensets(st.integers(0, len(cells) - 1), max_size=len(cells)))
    use = NodeUse(
        Resources(
            1000 * len(held) + draw(st.sampled_from((0, 700))), draw(st.integers(0, 9)) * GIB
        ),
        held,
        sharers=draw(st.integers(0, 2)),
    )
    return Snapshot((node,), {"here": use})


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    members = []
    for role in draw(st.sampled_from((("worker",), ("ps", "worker"), ("chief", "ps", "worker")))):
        pinning = draw(st.sampled_from((Pinning.SHARED, Pinning.NONE, Pinning.EXCLUSIVE)))
        asked = Resources(draw(st.sampled_from((0, 300, 1000))), draw(st.integers(0, 2)) * GIB)
        ports = {"main": draw(st.sampled_from((0, 0, 4000)))}
        for index in range(draw(st.integers(1, 4))):
            members.append(Member(MemberId(role, index), "job", asked, pinning, ports=ports))
    return Gang(
        "job",
        tuple(members),
        draw(st.sampled_from(Preset)),
        duties=(("ps", Duty.SERVES), ("chief", Duty.LEADS)),
        all_or_nothing=draw(st.booleans()),
    )


@given(gangs(), snapshots())
def test_the_slots_are_the_planners(gang: Gang, snapshot: Snapshot) -> None:
    short = plan_on_only_node(gang, snapshot)
    if short is None:
        return
    asked = place(gang, snapshot)
    assert isinstance(asked, Plan)
    plain = [replace(placement, verdicts=()) for placement in asked.placements]
    assert [replace(placement, verdicts=()) for placement in short.placements] == plain
    assert (short.job, short.waiting, short.notes) == (asked.job, asked.waiting, asked.notes)


@given(gangs(), snapshots())
def test_ordinary_members_that_fit_take_the_short_cut(gang: Gang, snapshot: Snapshot) -> None:
    ordinary = all(
        member.pinning is not Pinning.EXCLUSIVE and not any(member.ports.values())
        for member in gang.members
    )
    keeps_apart = gang.preset is Preset.ISOLATE
    planned = place(gang, snapshot)
    fits = isinstance(planned, Plan) and not planned.waiting
    expected = ordinary and fits and not keeps_apart
    assert (plan_on_only_node(gang, snapshot) is not None) == expected


def test_what_is_out_of_the_ordinary_is_left_to_the_planner() -> None:
    here = Snapshot((NODE,))
    assert plan_on_only_node(GANG, here) is not None
    member = GANG.members[0]
    other_members = (
        replace(member, pinning=Pinning.EXCLUSIVE),
        replace(member, ports={"main": 2222}),
        replace(member, node_selector={"zone": "a"}),
        replace(member, wish=NodeWish(node="elsewhere")),
        replace(member, volumes=(Volume(disk="d"),)),
        replace(member, resources=Resources(gpus=1)),
        replace(member, resources=Resources(gpu_share_millis=500)),
        replace(member, resources=Resources(extended=(("example.com/fpga", 1),))),
        replace(member, resources=Resources(cpu_millis=5000)),
        replace(member, resources=Resources(memory_bytes=9 * GIB)),
    )
    for other in other_members:
        assert plan_on_only_node(replace(GANG, members=(other,)), here) is None
    apart = Rule(Relation.APART, ("worker",), ("worker",), required=True)
    assert plan_on_only_node(replace(GANG, rules=(apart,)), here) is None
    other_nodes = (
        replace(NODE, taints=(Taint("k", "v", "NoSchedule"),)),
        replace(NODE, kubelet=KubeletPolicy()),
    )
    for node in other_nodes:
        assert plan_on_only_node(GANG, Snapshot((node,))) is None
    assert plan_on_only_node(GANG, Snapshot((NODE, replace(NODE, name="there")))) is None
    assert plan_on_only_node(GANG, Snapshot((NODE,), storage=Storage())) is None
    all_held = NodeUse(Resources(4000), frozenset(range(4)))
    assert plan_on_only_node(GANG, Snapshot((NODE,), {"here": all_held})) is None
