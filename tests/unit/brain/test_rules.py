"""Rule by rule: what each filter refuses and what each score adds, with its arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import GIB, by_node, gang, members, node, nodes
from hypothesis import given, settings
from test_brain_properties import gangs, snapshots

from mooring.brain import place
from mooring.brain.board import Board
from mooring.brain.layout import ClusterLayout, free_of
from mooring.brain.presets import recipe_for
from mooring.brain.profile import FULL, Profile
from mooring.brain.want import kinds_of
from mooring.model.affinity import NodeWish, Operator, Requirement, Term
from mooring.model.cluster import (
    CpuManager,
    Gpu,
    KubeletPolicy,
    Node,
    NodeUse,
    Snapshot,
    TopologyManager,
)
from mooring.model.member import Gang, Pinning
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

EXCLUSIVE = Pinning.EXCLUSIVE


def reasons(cluster: tuple[Node, ...], **more: object) -> list[tuple[str, ...]]:
    """Of every node, for one worker that nobody can take."""
    refusal = place(gang("spread", members("worker", 1, **more)), Snapshot(cluster))
    assert isinstance(refusal, Refusal), by_node(refusal)
    return [verdict.reasons for verdict in refusal.verdicts]


def scores(
    profile: Profile,
    cluster: tuple[Node, ...],
    use: dict[str, NodeUse] | None = None,
    **more: object,
) -> list[dict[str, float]]:
    """Of every node, for one worker."""
    job = gang("spread", members("worker", 1, **more))
    plan = place(job, Snapshot(cluster, use or {}), profile)
    assert isinstance(plan, Plan)
    return [dict(verdict.scores) for verdict in plan.placements[0].verdicts]


# -- filters


@pytest.mark.parametrize(
    ("operator", "values", "matching"),
    [
        (Operator.IN, ("a", "b"), {"a", "b"}),
        (Operator.NOT_IN, ("a",), {"b", "7", "none"}),
        (Operator.EXISTS, (), {"a", "b", "7"}),
        (Operator.DOES_NOT_EXIST, (), {"none"}),
        (Operator.GT, ("6",), {"7"}),
        (Operator.GT, ("7",), set()),
        (Operator.LT, ("8",), {"7"}),
        (Operator.LT, ("x",), set()),
        (Operator.GT, (), set()),
    ],
)
def test_operators_of_node_affinity(
    operator: Operator, values: tuple[str, ...], matching: set[str]
) -> None:
    requirement = Requirement("key", operator, values)
    found = {
        value
        for value in ("a", "b", "7", "none")
        if requirement.matches({} if value == "none" else {"key": value})
    }
    assert found == matching


def test_any_term_will_do_but_all_of_its_requirements() -> None:
    fast = Requirement("disk", Operator.IN, ("fast",))
    new = Requirement("year", Operator.GT, ("2024",))
    wish = NodeWish(required=(Term((fast, new)), Term((Requirement("any", Operator.EXISTS),))))
    cluster = (
        node("n0", labels={"disk": "fast", "year": "2024"}),
        node("n1", labels={"disk": "fast", "year": "2025"}),
        node("n2", labels={"any": ""}),
    )
    plan = place(gang("spread", members("worker", 2, 1, wish=wish)), Snapshot(cluster))
    assert list(by_node(plan)) == ["n1", "n2"]
    assert reasons(cluster[:1], wish=wish) == [
        ("node affinity does not match (wants disk In fast and year Gt 2024 or any Exists)",)
    ]


def test_a_term_without_requirements_matches_nothing() -> None:
    wish = NodeWish(required=(Term(()),))
    assert reasons(nodes(1), wish=wish)


def test_host_name() -> None:
    job = gang("spread", members("worker", 2, 1, wish=NodeWish(node="n1")))
    assert list(by_node(place(job, Snapshot(nodes(3))))) == ["n1"]
    assert reasons(nodes(1), wish=NodeWish(node="n7")) == [("another node is asked for (n7)",)]


def test_kind_and_health_of_devices() -> None:
    cluster = (
        node("n0", gpus=(Gpu(0, 0, "t4"),)),
        node("n1", gpus=(Gpu(0, 0, "a100", healthy=False),)),
        node("n2", gpus=(Gpu(0, 0, "a100"), Gpu(1, 0, "t4"))),
        node("n3"),
    )
    wish = NodeWish(gpu_kind="a100")
    assert reasons(cluster, gpus=1, wish=wish) == [
        ("devices are of another kind (has t4, wants a100)",),
        ("insufficient gpu (has 0 free)", "too few healthy devices (0 of 1)"),
        ("devices are of another kind (has a100, t4, wants a100)",),
        ("insufficient gpu (has 0 free)",),
    ]
    good = node("n4", gpus=(Gpu(0, 0, "a100", healthy=False), Gpu(1, 0, "a100")))
    plan = place(
        gang("spread", members("worker", 1, gpus=1, wish=wish)), Snapshot((*cluster, good))
    )
    assert isinstance(plan, Plan)
    assert (plan.placements[0].slot.node, plan.placements[0].slot.gpus) == ("n4", (1,))


def test_memory_of_devices() -> None:
    def cards(*gib: int) -> tuple[Gpu, ...]:
        return tuple(Gpu(i, 0, memory_bytes=size * GIB) for i, size in enumerate(gib))

    cluster = (node("n0", gpus=cards(16)), node("n1", gpus=cards(80, 16)), node("n2", gpus=1))
    wish = NodeWish(gpu_memory_bytes=40 * GIB)
    assert reasons(cluster, gpus=1, wish=wish) == [
        ("devices have too little memory (has 16Gi, wants 40Gi)",),
        ("devices have too little memory (has 16Gi, wants 40Gi)",),
        ("devices have too little memory (has an unknown amount, wants 40Gi)",),
    ]
    # a card that is broken is nobody's, however small
    broken = (Gpu(0, 0, healthy=False), Gpu(1, 0, memory_bytes=80 * GIB))
    job = gang("pack", members("worker", 1, gpus=1, wish=wish))
    assert by_node(place(job, Snapshot((*cluster, node("n3", gpus=broken))))) == {
        "n3": ["worker-0"]
    }


STATIC = KubeletPolicy(CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE)


def test_only_where_the_kubelet_would_admit_it() -> None:
    # 2 cells of 4: 3 + 3 are free on n0, so that 4 CPUs are in no single cell; n1 has a free cell
    cluster = (node("n0", 8, cells=2, kubelet=STATIC), node("n1", 8, cells=2, kubelet=STATIC))
    use = {
        "n0": NodeUse(Resources(2000), cpus=frozenset({0, 4})),
        "n1": NodeUse(Resources(4000), cpus=frozenset({0, 1, 2, 3})),
    }
    job = gang("spread", members("worker", 1, 4, pinning=EXCLUSIVE))
    plan = place(job, Snapshot(cluster, use))
    assert isinstance(plan, Plan)
    assert plan.placements[0].slot.node == "n1"
    assert plan.placements[0].slot.cpus == (4, 5, 6, 7)
    (refused,) = plan.placements[0].verdicts[0].reasons
    assert refused.startswith("its kubelet would not admit it (TopologyAffinityError: ")
    # a gang of two: the second would have to span the cells of n0
    both = gang("spread", members("worker", 2, 4, pinning=EXCLUSIVE))
    refusal = place(both, Snapshot(cluster, use))
    assert isinstance(refusal, Refusal)
    assert refusal.sentence == (
        "0/2 nodes can take worker-1 (needs 4 cpu): 2 whose kubelet would not admit it, "
        "1 insufficient cpu; 1 of 2 members placed"
    )


def test_a_kubelet_keeps_its_reserved_cpus() -> None:
    policy = KubeletPolicy(CpuManager.STATIC, reserved_cpus=frozenset({0, 1}))
    job = gang("spread", members("worker", 1, 2, pinning=EXCLUSIVE))
    plan = place(job, Snapshot((node("n0", 4, kubelet=policy),)))
    assert isinstance(plan, Plan)
    assert plan.placements[0].slot.cpus == (2, 3)


@pytest.mark.parametrize(
    ("policy", "more", "said"),
    [
        (KubeletPolicy(), {"pinning": EXCLUSIVE}, "gives nobody CPUs of their own"),
        (STATIC, {"gpus": 1, "cpu": 1.5}, "would lose its GPUs"),
    ],
)
def test_what_a_kubelet_can_never_do(
    policy: KubeletPolicy, more: dict[str, object], said: str
) -> None:
    ((refused,),) = reasons((node("n0", gpus=1, kubelet=policy),), **more)
    assert said in refused


def test_the_advice_counts_whole_cores_of_the_node() -> None:
    # 2.5 CPUs are 2 cores of 2 threads: 4 CPUs
    policy = KubeletPolicy(CpuManager.STATIC, full_physical_cores_only=True)
    machine = node("n0", 8, smt=2, gpus=1, kubelet=policy)
    ((refused,),) = reasons((machine,), cpu=2.5, gpus=1)
    assert "ask for 4 whole CPUs" in refused


def test_a_pod_with_devices_is_guaranteed_whether_it_is_pinned_or_not() -> None:
    """So a static kubelet hands it whole CPUs, or turns it away where it cannot."""
    whole = KubeletPolicy(CpuManager.STATIC, full_physical_cores_only=True)
    cores = node("n0", 8, smt=2, gpus=1, kubelet=whole)
    assert taken_in(cores, cpu=4, gpus=1)
    ((refused,),) = reasons((cores,), cpu=3, gpus=1)
    assert "SMTAlignmentError" in refused
    # One cell of 4 CPUs has the card: 4 fit there, 5 do not.
    one = KubeletPolicy(CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE)
    halves = node("n0", 8, cells=2, gpus=1, kubelet=one)
    assert taken_in(halves, cpu=4, gpus=1)
    ((refused,),) = reasons((halves,), cpu=5, gpus=1)
    assert "TopologyAffinityError" in refused


def taken_in(machine: Node, **more: object) -> bool:
    return isinstance(
        place(gang("spread", members("worker", 1, **more)), Snapshot((machine,))), Plan
    )


# -- scores

ONE = Resources(4000, 16 * GIB)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 1 cpu and 16Gi on 8 cpu and 64Gi, of which n1 has 4 and 16Gi in use:
        # n0 1/8, 1/4; n1 5/8, 1/2
        ("most-requested", [(1 / 8 + 1 / 4) / 2, (5 / 8 + 1 / 2) / 2]),
        ("least-requested", [1 - (1 / 8 + 1 / 4) / 2, 1 - (5 / 8 + 1 / 2) / 2]),
        # the standard deviation of two is half their difference
        ("balanced", [1 - 1 / 16, 1 - 1 / 16]),
        # lowest ratio: (10 - 10 * used) / 10
        ("ratio", [1 - (1 / 8 + 1 / 4) / 2, 1 - (5 / 8 + 1 / 2) / 2]),
        ("equal", [1, 1]),
    ],
)
def test_scores_of_amounts(name: str, expected: list[float]) -> None:
    profile = Profile("test", scores=((name, 1.0),))
    found = scores(profile, nodes(2), {"n1": NodeUse(ONE)}, memory_gib=16)
    assert [each[name] for each in found] == pytest.approx(expected)


def test_any_shape_of_any_resource() -> None:
    # full nodes are best up to half, then worse: devices 2 of 4 and 3 of 4 in use afterwards
    profile = Profile(
        "test",
        scores=(("ratio", 1.0),),
        shape=((0, 0), (50, 10), (100, 0)),
        ratio_of=(("gpu", 3.0), ("cpu", 1.0)),
    )
    use = {
        "n0": NodeUse(Resources(gpus=1), gpus=frozenset({0})),
        "n1": NodeUse(Resources(gpus=2), gpus=frozenset({0, 1})),
    }
    found = scores(profile, nodes(2, 8, gpus=4), use, gpus=1)
    # cpu 1/8 -> 2.5 of 10; gpu 50 % -> 10, 75 % -> 5
    assert [each["ratio"] for each in found] == pytest.approx(
        [(3 * 1.0 + 0.25) / 4, (3 * 0.5 + 0.25) / 4]
    )


def test_preferred_affinity_is_the_part_of_the_weights() -> None:
    fast = Term((Requirement("disk", Operator.IN, ("fast",)),), 3)
    near = Term((Requirement("zone", Operator.IN, ("a",)),), 1)
    cluster = (
        node("n0"),
        node("n1", labels={"zone": "a"}),
        node("n2", labels={"zone": "a", "disk": "fast"}),
    )
    found = scores(Profile("test"), cluster, wish=NodeWish(preferred=(fast, near)))
    assert [each["affinity"] for each in found] == [0.0, 12.5, 50.0]  # x 50


def test_linked_devices_are_liked_together() -> None:
    # two devices: on n0 each from its own group, on n1 both from one
    cluster = (
        node("n0", gpus=(Gpu(0, 0, link_group=0), Gpu(1, 0, link_group=1))),
        node("n1", gpus=(Gpu(0, 0, link_group=1), Gpu(1, 0, link_group=1))),
    )
    found = scores(Profile("test", scores=(("links", 10.0),)), cluster, gpus=2)
    assert [each["links"] for each in found] == [-50.0, 0.0]  # the preset weighs 40


# -- all of them


@settings(max_examples=150, deadline=None)
@given(gangs(most=5), snapshots(most_nodes=5))
def test_a_filter_has_a_reason_exactly_where_it_refuses(gang: Gang, snapshot: Snapshot) -> None:
    layout = ClusterLayout(snapshot.nodes)
    board = Board(gang, recipe_for(gang, FULL), layout, free_of(layout, snapshot))
    for want in kinds_of(gang).wants:
        able = board.can_take(want)
        if able.any():
            board.take(want, able.nonzero()[0][:1])
        for rule in (*board.node_filters, *board.gang_filters):
            found = rule.rule(want, board, slice(None))
            for index in range(len(layout)):
                said = [reason.partition(" (")[0] for reason in rule.why(want, board, index)]
                assert sorted(said) == sorted(name for name, mask in found.items() if mask[index])


@settings(max_examples=100, deadline=None)
@given(gangs(most=6), snapshots(most_nodes=4))
def test_more_scores_do_not_decide_whether_a_gang_fits(gang: Gang, snapshot: Snapshot) -> None:
    one = place(gang, snapshot)
    other = place(gang, snapshot, replace(FULL, filters=()))
    assert isinstance(one, Plan) == isinstance(other, Plan)


@pytest.mark.parametrize(
    ("asked", "seats"),
    [
        # A node without devices takes 3 more than one with them before it costs more than 300.
        ({"cpu": 1}, {"gpu": 1, "plain": 4}),
        # Who asks for a device has no choice, and counts nothing.
        ({"cpu": 1, "gpus": 1}, {"gpu": 5}),
    ],
)
def test_members_without_devices_leave_nodes_with_devices_to_others(
    asked: dict[str, int], seats: dict[str, int]
) -> None:
    """5 members, spread (100 for each that is there). Without a device: plain 0, -100, -200, -300,
    the node with devices -300 at once: it is the first of the list and gets the fourth."""
    cluster = (node("gpu", 16, gpus=8), node("plain", 16))
    job = gang("spread", members("worker", 5, **asked))
    plan = place(job, Snapshot(cluster))
    assert {name: len(there) for name, there in by_node(plan).items()} == seats
    alike = place(job, Snapshot((node("a", 16, gpus=8), node("b", 16, gpus=8))))
    assert sorted(map(len, by_node(alike).values())) == [2, 3]
