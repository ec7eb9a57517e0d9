"""Slots, refusals and verdicts, case by case."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from clusters import GIB, by_node, gang, members, node, nodes

from mooring.brain import place
from mooring.model.cluster import Node, NodeUse, Snapshot, Taint, Toleration
from mooring.model.member import Gang, MemberId, Pinning, Relation, Rule
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

EXCLUSIVE = Pinning.EXCLUSIVE


def refused(
    job: Gang, cluster: tuple[Node, ...], use: Mapping[str, NodeUse] | None = None
) -> Refusal:
    result = place(job, Snapshot(cluster, use or {}))
    assert isinstance(result, Refusal), by_node(result)
    return result


def plan_of(job: Gang, cluster: tuple[Node, ...], use: Mapping[str, NodeUse] | None = None) -> Plan:
    result = place(job, Snapshot(cluster, use or {}))
    assert isinstance(result, Plan), result.sentence
    return result


# -- slots


def test_exclusive_members_get_their_own_cpus_and_sharers_the_rest() -> None:
    job = gang(
        "pack",
        members("worker", 2, 3, pinning=EXCLUSIVE),
        members("ps", 2, 0.5),
        members("chief", 1, 0, pinning=Pinning.NONE),
    )
    plan = plan_of(job, (node("n0", 8, cells=2),))
    slots = {placement.member.name: placement.slot for placement in plan.placements}
    # 3 CPUs of cell 0, 3 of cell 1; 8 - 6 = 2 are left for the sharers
    assert slots["worker-0"].cpus == (0, 1, 2)
    assert slots["worker-1"].cpus == (4, 5, 6)
    assert slots["worker-1"].cells == (1,)
    assert slots["ps-0"].cpus == slots["ps-1"].cpus == (3, 7)
    assert slots["ps-0"].cells == (0, 1)
    assert not slots["ps-0"].exclusive
    assert slots["chief-0"].cpus == tuple(range(8))


def test_sharers_keep_at_least_one_cpu() -> None:
    # 4 CPUs, all wanted exclusively, and a sharer that asks for nothing: 4 + 1 > 4
    job = gang("pack", members("worker", 2, 2, pinning=EXCLUSIVE), members("ps", 1, 0))
    assert "1 insufficient cpu" in refused(job, (node("n0", 4),)).sentence
    assert plan_of(job, (node("n0", 5),)).slot_of(MemberId("ps", 0)).cpus == (4,)


def test_sharers_must_fit_into_what_exclusive_members_leave() -> None:
    # 4 cpu: 3 held, 1 left, which two sharers of 0.5 fill and a third does not fit
    use = {"n0": NodeUse(Resources(3000), cpus=frozenset({0, 1, 2}))}
    assert plan_of(gang("pack", members("ps", 2, 0.5)), nodes(1, 4), use)
    assert refused(gang("pack", members("ps", 3, 0.5)), nodes(1, 4), use)


def test_others_sharers_are_left_their_cpus() -> None:
    # 1500m are shared by others: 2 of the 4 CPUs must stay
    use = {"n0": NodeUse(Resources(1500))}
    plan = plan_of(gang("pack", members("worker", 2, 1, pinning=EXCLUSIVE)), nodes(1, 4), use)
    assert {p.slot.cpus for p in plan.placements} == {(0,), (1,)}
    refusal = refused(gang("pack", members("worker", 3, 1, pinning=EXCLUSIVE)), nodes(1, 4), use)
    assert refusal.verdicts[0].reasons == ("insufficient cpu (has 500m free)",)


def test_a_fraction_of_an_exclusive_cpu_costs_a_whole_one() -> None:
    plan = plan_of(gang("pack", members("worker", 1, 1.5, pinning=EXCLUSIVE)), nodes(1, 4))
    assert plan.placements[0].slot.cpus == (0, 1)


def test_a_device_and_the_cpus_near_it() -> None:
    # device 0 hangs off cell 0 (CPUs 0-3), device 1 off cell 1 (CPUs 4-7)
    job = gang("pack", members("worker", 2, 2, gpus=1, pinning=EXCLUSIVE))
    plan = plan_of(job, (node("n0", 8, cells=2, gpus=2),))
    assert [(p.slot.gpus, p.slot.cpus) for p in plan.placements] == [((0,), (0, 1)), ((1,), (4, 5))]


def test_virtual_nodes_that_share_cpus_give_none_away() -> None:
    shared = nodes(2, 2, cpu_millis=1000, labels={"mooring.dev/cpus": "overlapping"})
    refusal = refused(gang("spread", members("worker", 2, 1, pinning=EXCLUSIVE)), shared)
    assert refusal.sentence == (
        "0/2 nodes can take worker-0 (needs 1 cpu): "
        "2 whose CPUs are shared with other virtual nodes; 0 of 2 members placed"
    )
    assert refusal.verdicts[0].reasons == ("its CPUs are shared with other virtual nodes",)
    assert plan_of(gang("spread", members("worker", 2, 1)), shared)


def test_a_node_may_keep_cpus_in_reserve() -> None:
    # 4 CPUs, 3 to give: one exclusive member of 3, not of 4
    cluster = (node("n0", 4, cpu_millis=3000),)
    assert plan_of(gang("pack", members("worker", 1, 3, pinning=EXCLUSIVE)), cluster)
    assert refused(gang("pack", members("worker", 1, 4, pinning=EXCLUSIVE)), cluster)


# -- refusals


def test_the_sentence_counts_nodes_by_reason() -> None:
    cluster = (*nodes(3, 8), node("n3", taints=(Taint("maintenance"),)))
    use = {"n2": NodeUse(Resources(4000))}
    refusal = refused(gang("spread", members("worker", 5, 6, memory_gib=16)), cluster, use)
    # n0 and n1 take one each and have 2 left, n2 has 8 - 4 = 4 free
    assert refusal.sentence == (
        "0/4 nodes can take worker-2 (needs 6 cpu, 16Gi): 3 insufficient cpu, 1 tainted; "
        "2 of 5 members placed; it would not fit even on an empty cluster"
    )
    assert refusal.member == MemberId("worker", 2)
    assert [verdict.reasons for verdict in refusal.verdicts] == [
        ("insufficient cpu (has 2 free)",),
        ("insufficient cpu (has 2 free)",),
        ("insufficient cpu (has 4 free)",),
        ("tainted (maintenance:NoSchedule)",),
    ]


def test_waiting_is_not_called_pointless_if_others_only_have_to_leave() -> None:
    use = {"n0": NodeUse(Resources(8000))}
    refusal = refused(gang("spread", members("worker", 2, 8)), nodes(2, 8), use)
    assert refusal.sentence == (
        "0/2 nodes can take worker-1 (needs 8 cpu): 2 insufficient cpu; 1 of 2 members placed"
    )


def test_a_node_with_several_reasons_counts_under_each() -> None:
    cluster = (node("n0", 2, memory_bytes=GIB), node("n1", 2))
    refusal = refused(gang("spread", members("worker", 1, 4, memory_gib=2, gpus=1)), cluster)
    assert refusal.sentence == (
        "0/2 nodes can take worker-0 (needs 4 cpu, 2Gi, 1 gpu): 2 insufficient cpu, "
        "2 insufficient gpu, 1 insufficient memory; 0 of 1 members placed; "
        "no node is large enough"
    )


@pytest.mark.parametrize(
    ("more", "use", "reason"),
    [
        ({"node_selector": {"disk": "fast"}}, {}, "labels do not match (wants disk=fast)"),
        ({"ports": {"main": 80, "other": 0}}, {"ports": {80}}, "port in use (80)"),
        (
            {"pinning": EXCLUSIVE},
            {"cpus": {0, 1}},
            "insufficient cpu (has 0 whole CPUs to give away)",
        ),
        ({}, {"cpus": {0, 1}}, "insufficient cpu (has 0 free)"),
    ],
)
def test_reasons(more: dict[str, object], use: dict[str, set[int]], reason: str) -> None:
    held = NodeUse(**{key: frozenset(value) for key, value in use.items()})  # type: ignore[arg-type]
    refusal = refused(gang("spread", members("worker", 1, **more)), nodes(1, 2), {"n0": held})
    assert refusal.verdicts[0].reasons == (reason,)


def test_tolerations_and_preferred_taints() -> None:
    cluster = (
        node("n0", taints=(Taint("a", "x"),)),
        node("n1", taints=(Taint("b", effect="PreferNoSchedule"),)),
        node("n2", taints=(Taint("c", effect="NoExecute"),)),
    )
    assert by_node(plan_of(gang("pack", members("worker", 1)), cluster)) == {"n1": ["worker-0"]}
    tolerant = members("worker", 1, tolerations=(Toleration("a", "Equal", "x"),))
    assert by_node(plan_of(gang("pack", tolerant), cluster)) == {"n0": ["worker-0"]}


def test_a_fixed_port_is_taken_once_a_node() -> None:
    job = gang("pack", members("worker", 2, ports={"main": 2222}))
    assert len(by_node(plan_of(job, nodes(2)))) == 2
    assert refused(job, nodes(1)).verdicts[0].reasons == ("port in use (2222)",)


@pytest.mark.parametrize(
    ("ports", "cpu", "needs"),
    [
        ({"main": 2222}, 0, "port 2222"),
        ({"main": 2222, "other": 0}, 1, "1 cpu, port 2222"),
        ({"main": 90, "other": 80}, 1, "1 cpu, port 80, port 90"),
        ({"main": 2222, "same": 2222}, 1, "1 cpu, port 2222"),
    ],
)
def test_fixed_ports_are_among_the_needs(ports: dict[str, int], cpu: int, needs: str) -> None:
    use = {"n0": NodeUse(ports=frozenset({80, 2222}))}
    refusal = refused(gang("pack", members("worker", 1, cpu, ports=ports)), nodes(1), use)
    assert refusal.sentence == (
        f"0/1 nodes can take worker-0 (needs {needs}): 1 port in use; 0 of 1 members placed"
    )


SMALL = node("small", 4)
LARGE_TAINTED = node("large", 32, taints=(Taint("maintenance"),))
SMALL_TAINTED = node("tainted", 4, taints=(Taint("maintenance"),))
LARGE_ELSEWHERE = node("elsewhere", 32, memory_bytes=GIB)
TOO_SMALL, NEVER = "no node is large enough", "it would not fit even on an empty cluster"


@pytest.mark.parametrize(
    ("cluster", "more", "remark"),
    [
        ((SMALL,), {}, TOO_SMALL),
        ((SMALL, SMALL_TAINTED), {}, TOO_SMALL),
        ((SMALL, SMALL_TAINTED), {"node_selector": {"disk": "fast"}}, TOO_SMALL),
        ((SMALL, LARGE_ELSEWHERE), {}, TOO_SMALL),
        ((SMALL, LARGE_TAINTED), {}, NEVER),
        ((LARGE_TAINTED,), {}, ""),
        ((LARGE_TAINTED,), {"pinning": EXCLUSIVE}, ""),
        ((SMALL, node("n1", 32)), {"node_selector": {"disk": "fast"}}, NEVER),
    ],
)
def test_too_small_is_said_only_if_every_node_is(
    cluster: tuple[Node, ...], more: dict[str, object], remark: str
) -> None:
    # wants 8 cpu and 2Gi; the use of a node by others has no say in its size
    job = gang("spread", members("worker", 1, 8, memory_gib=2, **more))
    use = {each.name: NodeUse(Resources(4000)) for each in cluster}
    sentence = refused(job, cluster, use).sentence
    assert sentence.partition("0 of 1 members placed")[2].removeprefix("; ") == remark


def test_the_member_that_can_never_fit_is_named() -> None:
    job = gang("spread", members("ps", 9, 1), members("worker", 1, 9))
    refusal = refused(job, nodes(1, 8))
    assert refusal.member == MemberId("worker", 0)
    assert refusal.sentence.endswith("no node is large enough")


def test_no_nodes_at_all() -> None:
    assert refused(gang("spread", members("worker", 1)), ()).sentence == (
        "0/0 nodes can take worker-0 (needs 1 cpu); 0 of 1 members placed"
    )


# -- the orders that a single pass gets wrong


def test_big_members_do_not_starve_behind_small_ones() -> None:
    # spreading six small ones first would leave 5 cpu a node; the big one needs 8
    job = gang("spread", members("worker", 6, 1), members("ps", 1, 8))
    assert plan_of(job, nodes(2, 8))


def test_the_picky_go_first() -> None:
    # only n0 has the label; the big worker would take it otherwise
    cluster = (node("n0", 4, labels={"disk": "fast"}), node("n1", 4))
    job = gang(
        "pack", members("worker", 1, 4), members("eval", 1, 3, node_selector={"disk": "fast"})
    )
    assert by_node(plan_of(job, cluster)) == {"n0": ["eval-0"], "n1": ["worker-0"]}


def test_a_fit_that_no_order_finds_is_searched_for() -> None:
    # Two nodes of 6. Spreading gives 3 + 2 and 3 + 2, and the last 2 fits nowhere; 3 + 3 and
    # 2 + 2 + 2 does. The fixed ports show that what is tried is also undone.
    sizes = (3, 3, 2, 2, 2)
    groups = (members(f"r{i}", 1, size, ports={"main": 8000 + i}) for i, size in enumerate(sizes))
    plan = plan_of(gang("spread", *groups), nodes(2, 6))
    assert sorted(by_node(plan).values()) == [["r0-0", "r1-0"], ["r2-0", "r3-0", "r4-0"]]
    assert all(
        not verdict.refused
        for placement in plan.placements
        for verdict in placement.verdicts
        if verdict.node == placement.slot.node
    )


# -- verdicts


def test_every_node_answers_for_every_member() -> None:
    cluster = (node("n0", 8), node("n1", 2), node("n2", 8))
    plan = plan_of(gang("spread", members("worker", 2, 4)), cluster)
    first, second = plan.placements
    assert [verdict.node for verdict in second.verdicts] == ["n0", "n1", "n2"]
    # fine = 1/3; n0 before: room (8-4)/8 = 0.5 -> 30/3 * 0.5 = 5
    assert dict(first.verdicts[0].scores) == {
        "numa": 0.0,
        "spread": 0.0,
        "spread-role": 0.0,
        "room": 5.0,
        "taints": 0.0,
    }
    # n0 now holds one: spread -100, the same role -60/3 = -20, room 0
    assert dict(second.verdicts[0].scores) == {
        "numa": 0.0,
        "spread": -100.0,
        "spread-role": -20.0,
        "room": 0.0,
        "taints": 0.0,
    }
    assert second.verdicts[0].total == -120.0
    assert second.verdicts[1].reasons == ("insufficient cpu (has 2 free)",)
    assert second.slot.node == "n2"


# -- gangs that may start in part


def test_what_fits_starts_and_the_rest_waits() -> None:
    job = gang("pack", members("worker", 5, 4), all_or_nothing=False)
    plan = plan_of(job, nodes(2, 8))
    assert len(plan.placements) == 4
    assert plan.waiting == (MemberId("worker", 4),)


def test_on_a_full_cluster_all_wait() -> None:
    job = gang("pack", members("worker", 2, 4), all_or_nothing=False)
    plan = plan_of(job, nodes(1, 8), {"n0": NodeUse(Resources(8000))})
    assert not plan.placements
    assert len(plan.waiting) == 2


def test_a_part_that_could_never_start_is_refused() -> None:
    job = gang("pack", members("ps", 1), members("worker", 1, 9), all_or_nothing=False)
    assert refused(job, nodes(1, 8)).sentence == (
        "0/1 nodes can take worker-0 (needs 9 cpu): 1 insufficient cpu; "
        "1 of 2 members placed; no node is large enough"
    )


def test_nobody_starts_without_the_one_it_must_be_beside() -> None:
    rules = (
        Rule(Relation.TOGETHER, ("worker",), ("ps",), required=True),
        Rule(Relation.TOGETHER, ("ps",), ("worker",), required=True),
    )
    job = gang(
        "pack", members("worker", 1, 2), members("ps", 1, 3), rules=rules, all_or_nothing=False
    )
    plan = plan_of(job, nodes(1, 4))
    assert not plan.placements
    assert len(plan.waiting) == 2
