"""Topology spread constraints: who goes to which zone, and who is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from clusters import gang, members, node, nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState, place
from mooring.brain.changes import changes
from mooring.model.cluster import Node, NodeUse, Snapshot, Taint, Toleration
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.model.topology_spread import HOSTNAME, TopologySpread

ZONE = "zone"


def zoned(*zones: str, cpus: int = 8) -> tuple[Node, ...]:
    """One node for each of these; '' for a node without a zone."""
    return tuple(
        node(f"n{i}", cpus, labels={ZONE: zone} if zone else {}) for i, zone in enumerate(zones)
    )


def spread_gang(count: int, *spreads: TopologySpread, preset: str = "spread") -> Gang:
    return gang(preset, members("worker", count), spreads=spreads)


def by_zone(cluster: tuple[Node, ...], plan: Plan | Refusal) -> dict[str, int]:
    assert isinstance(plan, Plan), plan
    zones = {each.name: each.labels.get(ZONE, "") for each in cluster}
    return dict(sorted(Counter(zones[one.slot.node] for one in plan.placements).items()))


@pytest.mark.parametrize(
    ("count", "skew", "expected"),
    [
        # By nodes alone, zone a with 4 of the 6 would get most. Skew 1: 7 = 3 + 2 + 2.
        (7, 1, {"a": 3, "b": 2, "c": 2}),
        (6, 1, {"a": 2, "b": 2, "c": 2}),
        # Skew 3: evenness by node wins as long as no zone has 3 more than another: one member on
        # each of the six nodes is 4 + 1 + 1, which is just allowed.
        (6, 3, {"a": 4, "b": 1, "c": 1}),
        # With skew 2 the fourth in a has to wait for the others: 3 + 2 + 1 comes out.
        (6, 2, {"a": 3, "b": 2, "c": 1}),
    ],
)
def test_no_zone_gets_more_than_the_skew_allows(
    count: int, skew: int, expected: dict[str, int]
) -> None:
    cluster = zoned("a", "a", "a", "a", "b", "c")
    found = by_zone(
        cluster, place(spread_gang(count, TopologySpread(ZONE, skew)), Snapshot(cluster))
    )
    assert found == expected


def test_a_full_zone_holds_the_others_back() -> None:
    # b has room for 1, so a may have 2 with skew 1: three of four find a place.
    cluster = (*zoned("a", "a"), node("n2", 1, labels={ZONE: "b"}))
    refusal = place(spread_gang(4, TopologySpread(ZONE)), Snapshot(cluster))
    assert isinstance(refusal, Refusal)
    assert "2 too uneven by zone" in refusal.sentence
    assert "1 insufficient cpu" in refusal.sentence
    assert "3 of 4 members placed" in refusal.sentence
    assert "topologySpread by zone with whenUnsatisfiable: ScheduleAnyway" in changes(
        spread_gang(4, TopologySpread(ZONE)), Snapshot(cluster)
    )


def test_a_preference_gives_way() -> None:
    cluster = (*zoned("a", "a"), node("n2", 1, labels={ZONE: "b"}))
    job = spread_gang(4, TopologySpread(ZONE, required=False))
    assert by_zone(cluster, place(job, Snapshot(cluster))) == {"a": 3, "b": 1}


def test_a_preference_is_scored_by_the_members_of_the_zone() -> None:
    # pack would put all on one node. The second member finds one in zone a: -1 x 100 there, the
    # third one in each zone: -1 x 100 for both.
    cluster = zoned("a", "a", "b")
    job = spread_gang(3, TopologySpread(ZONE, required=False), preset="pack")
    plan = place(job, Snapshot(cluster))
    assert isinstance(plan, Plan)
    found = [
        [dict(verdict.scores)["topology-spread"] for verdict in one.verdicts]
        for one in plan.placements
    ]
    assert sorted(found, reverse=True) == [
        [0.0, 0.0, 0.0],
        [-100.0, -100.0, 0.0],
        [-100.0, -100.0, -100.0],
    ]


def test_nodes_without_the_label() -> None:
    cluster = zoned("a", "")
    refusal = place(
        gang("spread", members("worker", 1, 9), spreads=(TopologySpread(ZONE),)), Snapshot(cluster)
    )
    assert isinstance(refusal, Refusal)
    assert "no label zone to spread by" in refusal.verdicts[1].reasons
    plan = place(spread_gang(3, TopologySpread(ZONE)), Snapshot(cluster))
    assert by_zone(cluster, plan) == {"a": 3}


def test_each_node_is_a_domain_by_host_name() -> None:
    cluster = nodes(3)
    job = spread_gang(7, TopologySpread(HOSTNAME), preset="pack")
    plan = place(job, Snapshot(cluster))
    assert isinstance(plan, Plan)
    counts = Counter(one.slot.node for one in plan.placements)
    # 7 = 3 + 2 + 2, although pack would use one node.
    assert sorted(counts.values()) == [2, 2, 3]


def test_two_constraints_at_once() -> None:
    # Zones at most 1 apart and nodes at most 1 apart: 6 on three nodes of two zones would be
    # 2 + 2 + 2 by node, which is 4 + 2 by zone: no plan has both.
    cluster = zoned("a", "a", "b")
    both = (TopologySpread(ZONE), TopologySpread(HOSTNAME))
    assert isinstance(place(spread_gang(6, *both), Snapshot(cluster)), Refusal)
    # Of three, 1 + 1 + 1 by node is 2 + 1 by zone.
    assert by_zone(cluster, place(spread_gang(3, *both), Snapshot(cluster))) == {"a": 2, "b": 1}


def test_domains_that_the_selector_rules_out_do_not_count() -> None:
    cluster = zoned("a", "b", "c")
    job = gang(
        "spread",
        members("worker", 3, node_selector={ZONE: "a"}),
        spreads=(TopologySpread(ZONE),),
    )
    # b and c stay empty, but nobody may go there: a is the emptiest zone that counts.
    assert by_zone(cluster, place(job, Snapshot(cluster))) == {"a": 3}


def test_only_the_named_roles_are_spread() -> None:
    cluster = zoned("a", "a", "a", "b")
    job = gang(
        "spread",
        members("ps", 2),
        members("worker", 4),
        spreads=(TopologySpread(ZONE, roles=("worker",)),),
    )
    plan = place(job, Snapshot(cluster))
    assert isinstance(plan, Plan)
    zones = {each.name: each.labels[ZONE] for each in cluster}
    workers = Counter(
        zones[one.slot.node] for one in plan.placements if one.member.role == "worker"
    )
    assert workers == {"a": 2, "b": 2}


def test_running_members_with_matching_labels_count() -> None:
    cluster = zoned("a", "b")
    use = {"n0": NodeUse(residents=(((("team", "x"), ("tier", "y")), 2),))}
    matching = TopologySpread(ZONE, match_labels=(("team", "x"),))
    # 2 are in a: skew 1 allows a third there only once b has 2; the four become 1 + 3.
    assert by_zone(cluster, place(spread_gang(4, matching), Snapshot(cluster, use))) == {
        "a": 1,
        "b": 3,
    }
    other = TopologySpread(ZONE, match_labels=(("team", "z"),))
    assert by_zone(cluster, place(spread_gang(4, other), Snapshot(cluster, use))) == {
        "a": 2,
        "b": 2,
    }


def test_what_a_running_job_was_given_counts_for_the_next() -> None:
    cluster = zoned("a", "b")
    state = ClusterState(Snapshot(cluster))
    labels = (("team", "x"),)
    spread = TopologySpread(ZONE, match_labels=labels)
    for name in ("one", "two"):
        job = replace(
            spread_gang(1, spread),
            job=name,
            members=tuple(replace(m, labels=labels) for m in members("worker", 1)),
        )
        plan = state.place(job)
        assert isinstance(plan, Plan)
        state.assume(job, plan)
    assert sorted(state.held) == ["one", "two"]
    assert {plan.placements[0].slot.node for _, plan in state.held.values()} == {"n0", "n1"}


@pytest.mark.parametrize("match_labels", [(), (("team", "x"),)])
def test_members_that_run_already_count_for_those_that_are_added(
    match_labels: tuple[tuple[str, str], ...],
) -> None:
    cluster = zoned("a", "a", "b")
    state = ClusterState(Snapshot(cluster))
    spread = TopologySpread(ZONE, match_labels=match_labels)
    whole = spread_gang(6, spread)
    whole = replace(
        whole, members=tuple(replace(m, labels=(("team", "x"),)) for m in whole.members)
    )
    start = replace(whole, members=whole.members[:1])
    plan = state.place(start)
    assert isinstance(plan, Plan)
    state.assume(start, plan)
    # One runs in a: of five more, two go there and three to b.
    more = state.place(replace(whole, members=whole.members[1:]))
    assert by_zone(cluster, more) == {"a": 2, "b": 3}


@settings(max_examples=150, deadline=None)
@given(
    zones=st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=7),
    cpus=st.integers(1, 4),
    count=st.integers(1, 9),
    skew=st.integers(1, 3),
    key=st.sampled_from([ZONE, HOSTNAME]),
    preset=st.sampled_from(["spread", "pack"]),
)
def test_no_plan_breaks_a_constraint(
    zones: list[str], cpus: int, count: int, skew: int, key: str, preset: str
) -> None:
    cluster = zoned(*zones, cpus=cpus)
    plan = place(spread_gang(count, TopologySpread(key, skew), preset=preset), Snapshot(cluster))
    if isinstance(plan, Refusal):
        return
    domain = {
        each.name: each.name if key == HOSTNAME else each.labels.get(ZONE) for each in cluster
    }
    counts = Counter(dict.fromkeys((name for name in domain.values() if name), 0))
    counts.update(domain[one.slot.node] for one in plan.placements)
    assert None not in counts
    assert max(counts.values()) - min(counts.values()) <= skew


def test_who_must_wait_for_another_to_even_it_out_is_placed_after_it() -> None:
    # Only the worker may go to zone b, so both servers are in a: 2 + 1 in the end, but the second
    # server has to come after the worker, and the worker would like zone a as well.
    a, b = zoned("a", "b")
    cluster = (a, replace(b, taints=(Taint("worker"),)))
    job = gang(
        "spread",
        members("ps", 2),
        members("worker", 1, tolerations=(Toleration("worker", "Exists"),)),
        spreads=(TopologySpread(ZONE),),
    )
    plan = place(job, Snapshot(cluster))
    assert by_zone(cluster, plan) == {"a": 2, "b": 1}
    assert isinstance(plan, Plan)
    for one in plan.placements:
        assert not next(v for v in one.verdicts if v.node == one.slot.node).refused
