"""Ranks of a ring follow the nodes: each node has one way in and one way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pytest
from clusters import by_node, gang, members, node, nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState, place
from mooring.brain.layout import ClusterLayout
from mooring.brain.ranks import deal
from mooring.brain.traffic import busiest_link
from mooring.model.cluster import Snapshot
from mooring.model.member import Duty, Gang
from mooring.model.plan import Plan, Refusal
from mooring.model.traffic import Pattern, Traffic

RING = Traffic(Pattern.RING, 1_000_000)


def entries(where: Sequence[str]) -> Counter[str]:
    """How often a walk along the ring enters each node."""
    runs = [name for name, _ in groupby(where)]
    if len(runs) > 1 and runs[0] == runs[-1]:
        runs.pop()
    return Counter(runs) if len(runs) > 1 else Counter()


def walk(plan: Plan | Refusal) -> list[str]:
    assert isinstance(plan, Plan)
    return [placement.slot.node for placement in plan.placements]


def test_spread_members_sit_side_by_side() -> None:
    # evenly over 2 nodes, but 0-1-2 | 3-4-5 and not 0-2-4 | 1-3-5
    job = gang("spread", members("worker", 6), traffic=RING)
    plan = place(job, Snapshot(nodes(2)))
    assert by_node(plan) == {
        "n0": ["worker-0", "worker-1", "worker-2"],
        "n1": ["worker-3", "worker-4", "worker-5"],
    }
    assert isinstance(plan, Plan)
    # one edge leaves each node: 1 MB; back and forth it would be 3 MB
    link = busiest_link(job, plan, nodes(2))
    assert link is not None
    assert link.bytes_per_step == 1_000_000


def test_parameter_servers_keep_the_order_of_choice() -> None:
    job = gang("spread", members("ps", 1), members("worker", 3))
    assert by_node(place(job, Snapshot(nodes(2)))) == {
        "n0": ["ps-0", "worker-1"],
        "n1": ["worker-0", "worker-2"],
    }


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        # one kind, chosen back and forth: the first node keeps the first half
        ([((0, 1, 2, 3), (0, 1, 0, 1))], [(0, 2, 1, 3)]),
        # the chief is on node 1: workers there come right after it
        ([((0,), (1,)), ((1, 2, 3, 4), (0, 1, 0, 1))], [(0,), (3, 1, 4, 2)]),
        # the last kind is on node 0 only: the kind before ends there
        ([((0, 1, 2, 3), (0, 1, 0, 1)), ((4,), (0,))], [(2, 0, 3, 1), (4,)]),
        # placed in another order than the ranks: 2-3 first
        ([((2, 3), (1, 0)), ((0, 1), (0, 1))], [(2, 3), (0, 1)]),
        # two seats for three: the last stays without
        ([((0, 1, 2), (1, 0))], [(0, 1, 2)]),
    ],
)
def test_dealing(
    kinds: list[tuple[tuple[int, ...], tuple[int, ...]]], expected: list[tuple[int, ...]]
) -> None:
    assert deal(kinds, ClusterLayout(nodes(2))) == expected


def test_nodes_behind_one_switch_follow_each_other() -> None:
    cluster = tuple(node(f"n{i}", labels={"mooring.dev/switch": f"s{i % 2}"}) for i in range(4))
    plan = place(gang("spread", members("worker", 8), traffic=RING), Snapshot(cluster))
    assert list(dict.fromkeys(walk(plan))) == ["n0", "n2", "n1", "n3"]


def test_a_member_is_explained_by_the_turn_that_gave_it_its_seat() -> None:
    job = gang("spread", members("worker", 4), traffic=RING)
    plan = place(job, Snapshot(nodes(2)))
    assert isinstance(plan, Plan)
    for placement in plan.placements:
        best = max(verdict.total for verdict in placement.verdicts)
        own = next(v for v in placement.verdicts if v.node == placement.slot.node)
        assert own.total == best


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_each_node_is_entered_once_and_the_seats_stay(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    cluster = tuple(node(f"n{i}", cpus) for i, cpus in enumerate(sizes))
    count = data.draw(st.integers(1, sum(sizes)))
    preset = data.draw(st.sampled_from(["spread", "pack"]))
    job = gang(preset, members("worker", count), traffic=RING)
    plan = ClusterState(Snapshot(cluster)).place(job)
    assert isinstance(plan, Plan)
    assert all(times == 1 for times in entries(walk(plan)).values())
    assert [placement.member for placement in plan.placements] == [m.id for m in job.members]
    assert ClusterState(Snapshot(cluster)).place(job) == plan
    served: Gang = replace(job, traffic=None, duties=(("worker", Duty.SERVES),))
    other = ClusterState(Snapshot(cluster)).place(served)
    assert Counter(walk(plan)) == Counter(walk(other))
