"""Where each preset sends a gang."""

from __future__ import annotations

import pytest
from clusters import by_node, gang, members, node, nodes, role_counts

from mooring.brain import place
from mooring.model.cluster import Node, NodeUse, Snapshot
from mooring.model.member import Member, Pinning, Relation, Rule
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

PS, WORKER, CHIEF = "ps", "worker", "chief"


def placed(
    preset: str, cluster: tuple[Node, ...], *groups: tuple[Member, ...], **more: object
) -> Plan:
    plan = place(gang(preset, *groups, **more), Snapshot(cluster))
    assert isinstance(plan, Plan), plan.sentence
    return plan


def test_spread_uses_every_node_and_mixes_the_roles() -> None:
    # ps to n0 and n1; workers to the empty n2, n3, then to n0, n1 (1 member each, like n2, n3,
    # but without a worker yet)
    plan = placed("spread", nodes(4), members(PS, 2), members(WORKER, 4))
    assert by_node(plan) == {
        "n0": ["ps-0", "worker-2"],
        "n1": ["ps-1", "worker-3"],
        "n2": ["worker-0"],
        "n3": ["worker-1"],
    }


def test_spread_prefers_the_node_with_more_room_among_equals() -> None:
    # both without members: n0 has (4-1)/4 = 0.75 of its cpu left afterwards, n1 (8-1)/8 = 0.875
    plan = placed("spread", (node("n0", 4), node("n1", 8)), members(WORKER, 1))
    assert by_node(plan) == {"n1": ["worker-0"]}


def test_pack_uses_one_node_if_one_does() -> None:
    plan = placed("pack", nodes(4), members(PS, 2), members(WORKER, 3, 2))
    assert list(by_node(plan)) == ["n0"]  # 2 + 6 = 8 cpu


def test_pack_opens_the_node_that_holds_the_whole_role_and_is_tightest() -> None:
    # four workers of 2: n0 holds 2, n1 and n2 hold all 4; n2 is left with less (8 < 16)
    plan = placed("pack", (node("n0", 4), node("n1", 16), node("n2", 8)), members(WORKER, 4, 2))
    assert list(by_node(plan)) == ["n2"]


def test_pack_fills_up_with_small_members() -> None:
    # 7 workers of 3 cpu on nodes of 8: two a node, so 4 nodes; 2 cpu are left on each of the
    # first three, where the 4 servers of 1 cpu go
    plan = placed("pack", nodes(6), members(WORKER, 7, 3), members(PS, 4))
    assert len(by_node(plan)) == 4


def test_spread_ps_spreads_the_servers_first() -> None:
    plan = placed("spread-ps", nodes(3), members(WORKER, 3), members(PS, 5))
    assert sorted(role_counts(plan, PS).values()) == [1, 2, 2]
    assert sorted(len(there) for there in by_node(plan).values()) == [2, 3, 3]


def test_colocate_puts_workers_only_beside_servers_and_evenly() -> None:
    plan = placed("colocate", nodes(4), members(PS, 2), members(WORKER, 4))
    assert role_counts(plan, PS) == {"n0": 1, "n1": 1}
    assert role_counts(plan, WORKER) == {"n0": 2, "n1": 2}


def test_colocate_keeps_the_chief_with_the_workers() -> None:
    plan = placed("colocate", nodes(4), members(CHIEF, 1), members(PS, 1), members(WORKER, 1))
    assert by_node(plan) == {"n0": ["chief-0", "ps-0", "worker-0"]}


def test_colocate_only_prefers_a_chief_without_workers_beside_a_server() -> None:
    plan = placed("colocate", nodes(2, 2), members(CHIEF, 1), members(PS, 1))
    assert by_node(plan) == {"n0": ["chief-0", "ps-0"]}
    plan = placed("colocate", nodes(2, 2), members(CHIEF, 1, 2), members(PS, 1))
    assert by_node(plan) == {"n0": ["ps-0"], "n1": ["chief-0"]}


def test_colocate_chooses_the_nodes_where_workers_have_room() -> None:
    # a worker needs 6 cpu: only n1 and n3 have that
    cluster = (node("n0", 4), node("n1", 8), node("n2", 4), node("n3", 8))
    plan = placed("colocate", cluster, members(PS, 2), members(WORKER, 2, 6))
    assert role_counts(plan, PS) == {"n1": 1, "n3": 1}
    assert role_counts(plan, WORKER) == {"n1": 1, "n3": 1}


def test_colocate_does_not_insist_on_workers_beside_every_server() -> None:
    # a worker of 8 cpu has no room on n1 once a server is there (8 - 1 < 8); n0 takes one server
    # and both workers (1 + 2 * 8 <= 18)
    cluster = (node("n0", 18), node("n1", 8))
    plan = placed("colocate", cluster, members(PS, 2), members(WORKER, 2, 8))
    assert role_counts(plan, WORKER) == {"n0": 2}
    assert "n0" in role_counts(plan, PS)


def test_colocate_without_servers_is_an_even_spread() -> None:
    plan = placed("colocate", nodes(2), members(WORKER, 4), duties=())
    assert role_counts(plan, WORKER) == {"n0": 2, "n1": 2}


@pytest.mark.parametrize(
    ("total", "servers", "workers", "server_nodes"),
    [
        # busiest node in workers' worth of traffic, a server counting workers/servers:
        # k=1: max(2*2/2, 1) = 2; k=2: max(1*2/2, 1) = 1
        (4, 2, 2, 2),
        # k=1: 4, k=2: max(2*4/4, 2) = 2, k=3: max(2*4/4, 4) = 4
        (4, 4, 4, 2),
        # k=1: max(4, 1) = 4; k=2: max(2*4/4, 2) = 2; k=3: max(2, 2); k=4: max(1, 4): the larger
        # of the two best
        (5, 4, 4, 3),
        # one node each is all there is
        (2, 3, 3, 1),
    ],
)
def test_isolate_splits_the_nodes(
    total: int, servers: int, workers: int, server_nodes: int
) -> None:
    plan = placed("isolate", nodes(total), members(PS, servers), members(WORKER, workers))
    ps, worker = role_counts(plan, PS), role_counts(plan, WORKER)
    assert not ps.keys() & worker.keys()
    assert len(ps) == server_nodes
    assert max(ps.values()) - min(ps.values()) <= 1
    assert max(worker.values()) - min(worker.values()) <= 1


def test_isolate_gives_fewer_nodes_to_servers_if_workers_need_them() -> None:
    # three workers of 8 cpu need three of the four nodes whole
    plan = placed("isolate", nodes(4), members(PS, 3), members(WORKER, 3, 8))
    assert len(role_counts(plan, PS)) == 1


def test_isolate_leaves_the_nodes_with_devices_to_those_who_need_them() -> None:
    cluster = (node("n0", gpus=2), node("n1", gpus=2), node("n2"), node("n3"))
    plan = placed("isolate", cluster, members(PS, 2), members(WORKER, 4, gpus=1))
    assert role_counts(plan, PS) == {"n2": 1, "n3": 1}


def test_isolate_on_one_node_is_refused() -> None:
    refusal = place(gang("isolate", members(PS, 1), members(WORKER, 1)), Snapshot(nodes(1)))
    assert isinstance(refusal, Refusal)
    assert refusal.sentence == (
        "0/1 nodes can take worker-0 (needs 1 cpu): 1 must be apart from ps; "
        "1 of 2 members placed; it would not fit even on an empty cluster"
    )


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(
            Rule(Relation.APART, (WORKER,), (WORKER,), required=True),
            {"n0": 1, "n1": 1, "n2": 1},
            id="each on its own node",
        ),
        pytest.param(
            Rule(Relation.TOGETHER, (WORKER,), (WORKER,), required=True),
            {"n2": 3},
            id="all on the one node that holds them",
        ),
    ],
)
def test_required_rules_win_over_the_preset(rule: Rule, expected: dict[str, int]) -> None:
    # n0 and n1 hold two workers of 4 cpu, n2 three
    cluster = (node("n0", 8), node("n1", 8), node("n2", 12))
    for preset in ("spread", "pack"):
        plan = placed(preset, cluster, members(WORKER, 3, 4), rules=(rule,))
        assert role_counts(plan, WORKER) == expected


def test_together_follows_the_others_to_where_there_is_room_for_both() -> None:
    # the evaluator is alone with its 1 cpu; it must go where workers can follow: n1
    rule = Rule(Relation.TOGETHER, (WORKER,), ("evaluator",), required=True)
    cluster = (node("n0", 4), node("n1", 8))
    plan = placed("pack", cluster, members(WORKER, 3, 2), members("evaluator", 1), rules=(rule,))
    assert list(by_node(plan)) == ["n1"]


@pytest.mark.parametrize("others", [(WORKER,), (WORKER, "chief")])
def test_whoever_is_sought_by_its_own_rule_comes_before_those_that_seek_it(
    others: tuple[str, ...],
) -> None:
    # One worker: all eight servers belong on its node. Placed before it they would be spread, and
    # nine members are too many for the exhaustive search. There is no chief.
    rule = Rule(Relation.TOGETHER, (PS, WORKER), others, required=True)
    plan = placed("spread-ps", nodes(2), members(PS, 8, 0), members(WORKER, 1, 0), rules=(rule,))
    assert len(by_node(plan)) == 1


def test_two_roles_that_must_each_be_beside_the_other() -> None:
    rules = (
        Rule(Relation.TOGETHER, (WORKER,), (PS,), required=True),
        Rule(Relation.TOGETHER, (PS,), (WORKER,), required=True),
    )
    plan = placed("spread", nodes(3), members(PS, 3), members(WORKER, 2), rules=rules)
    assert role_counts(plan, PS).keys() == role_counts(plan, WORKER).keys()


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        # n1 would be empty: +100 for one member less there, against the rule's weight
        (50, {"n0": ["ps-0"], "n1": ["worker-0"]}),
        (200, {"n0": ["ps-0", "worker-0"]}),
    ],
)
def test_a_preference_is_weighed_against_the_preset(
    weight: int, expected: dict[str, list[str]]
) -> None:
    rule = Rule(Relation.TOGETHER, (WORKER,), (PS,), weight=weight)
    plan = placed("spread", nodes(2), members(PS, 1), members(WORKER, 1), rules=(rule,))
    assert by_node(plan) == expected


def test_a_preference_to_be_apart_opens_a_node_that_pack_would_not() -> None:
    # pack: 100 for the node in use, 60 * 1 on both for holding the role, 30 * 2/8 against
    # 30 * 1/8 for being tighter: 103.75 more, less the weight
    rule = Rule(Relation.APART, (WORKER,), (PS,), weight=110)
    plan = placed("pack", nodes(2), members(PS, 1), members(WORKER, 1), rules=(rule,))
    assert by_node(plan) == {"n0": ["ps-0"], "n1": ["worker-0"]}


def test_one_numa_cell_wins_over_the_preset() -> None:
    # n0 has 2 cells of 4 with one CPU of each held: 3 + 3 free; n1 has one whole cell of 4.
    # Room alone would choose n0: (6 - 4) / 8 left there, (4 - 4) / 4 on n1.
    cluster = (node("n0", 8, cells=2), node("n1", 4))
    use = {"n0": NodeUse(Resources(2000), cpus=frozenset({0, 4}))}
    busy = members(PS, 1)
    four = members(WORKER, 1, 4, pinning=Pinning.EXCLUSIVE)
    plan = place(gang("spread", four), Snapshot(cluster, use))
    assert isinstance(plan, Plan)
    assert plan.placements[0].slot.node == "n1"
    assert not plan.notes
    # with n1 in part taken it spans the cells of n0, and the plan says so
    use["n1"] = NodeUse(Resources(1000), cpus=frozenset({0}))
    plan = place(gang("pack", busy, four), Snapshot(cluster, use))
    assert isinstance(plan, Plan)
    assert plan.slot_of(four[0].id).cells == (0, 1)
    assert plan.notes == (
        "worker-0 spans the NUMA cells 0-1 of n0: no single cell had 4 free CPUs",
    )
