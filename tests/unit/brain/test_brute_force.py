"""What trying everything can place on a small cluster, the brain places too; and nothing else.

The search knows nodes, amounts and the words of presets and rules, nothing of the brain. On nodes
with a kubelet it also tries every order in which pods could arrive, and asks the kubelet.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from clusters import GIB, can_be_placed, members, node, objections
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import place
from mooring.brain.kubelet import Container, KubeletAdmission, admit
from mooring.brain.queue import Admit, QueuedGang, QueueState, decide
from mooring.brain.state import ClusterState
from mooring.model.affinity import NodeWish, Operator, Requirement, Term
from mooring.model.cluster import (
    CpuManager,
    KubeletPolicy,
    Node,
    NodeUse,
    Snapshot,
    TopologyManager,
)
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset, Relation, Rule
from mooring.model.plan import Plan
from mooring.model.resources import Resources

pytestmark = pytest.mark.slow


@st.composite
def packed_nodes(draw: st.DrawFn, most: int) -> tuple[Node, ...]:
    """Small and uneven, so that it matters who goes where."""
    return tuple(
        node(
            f"n{i}",
            (cells := draw(st.sampled_from([1, 2]))) * draw(st.integers(1, 4)),
            cells,
            memory_bytes=draw(st.integers(2, 6)) * GIB,
            gpus=draw(st.integers(0, 3)),
            labels={"disk": draw(st.sampled_from(["fast", "slow"]))},
        )
        for i in range(draw(st.integers(1, most)))
    )


@st.composite
def tight_gangs(draw: st.DrawFn, most: int) -> Gang:
    """Exclusive CPUs and devices in most members, every preset, required rules in some."""
    found: list[Member] = []
    for role in ("ps", "worker"):
        pinning = draw(st.sampled_from([Pinning.EXCLUSIVE, Pinning.EXCLUSIVE, Pinning.SHARED]))
        found += members(
            role,
            draw(st.integers(0, most - len(found))),
            draw(st.integers(1, 3)),
            memory_gib=draw(st.integers(0, 2)),
            gpus=draw(st.integers(0, 2)),
            pinning=pinning,
        )
    found = found or list(members("worker", 1))
    roles = st.sampled_from([("ps",), ("worker",)])
    rule = st.builds(Rule, st.sampled_from(Relation), roles, roles, st.just(True))
    return Gang(
        "job",
        tuple(found),
        draw(st.sampled_from(Preset)),
        (("ps", Duty.SERVES),),
        tuple(draw(st.lists(rule, max_size=1))),
    )


@settings(max_examples=800, deadline=None)
@given(tight_gangs(5), packed_nodes(3))
def test_exclusive_cpus_devices_and_presets(gang: Gang, nodes: tuple[Node, ...]) -> None:
    snapshot = Snapshot(nodes)
    assert isinstance(place(gang, snapshot), Plan) == can_be_placed(gang, snapshot)


@settings(max_examples=300, deadline=None)
@given(tight_gangs(4), packed_nodes(3), st.data())
def test_node_names_and_affinity(gang: Gang, nodes: tuple[Node, ...], data: st.DataObject) -> None:
    """A wish is the same as a place that is not on the list."""
    disk = Term((Requirement("disk", Operator.IN, ("fast",)),))
    wishes = [NodeWish(), NodeWish(required=(disk,)), NodeWish(node="n0")]
    wished = tuple(
        replace(member, wish=data.draw(st.sampled_from(wishes))) for member in gang.members
    )
    gang = replace(gang, members=wished)
    snapshot = Snapshot(nodes)

    def allowed(member: Member, there: Node) -> bool:
        if member.wish.node:
            return there.name == member.wish.node
        return not member.wish.required or there.labels["disk"] == "fast"

    possible = any(
        all(allowed(*pair) for pair in zip(gang.members, choice, strict=True))
        and not any(objections(gang, snapshot, _where(gang.members, choice)))
        for choice in itertools.product(nodes, repeat=len(gang.members))
    )
    assert isinstance(place(gang, snapshot), Plan) == possible


@settings(max_examples=300, deadline=None)
@given(tight_gangs(4), packed_nodes(3))
def test_the_queue_starts_what_has_a_place_beside_others(
    gang: Gang, nodes: tuple[Node, ...]
) -> None:
    """Half of the first node is held by others; nobody else waits."""
    held = frozenset(cpu.id for cpu in nodes[0].cpus[: len(nodes[0].cpus) // 2])
    use = {nodes[0].name: NodeUse(Resources(1000 * len(held), GIB), held)}
    snapshot = Snapshot(nodes, use)
    capacity = sum((each.capacity for each in nodes), Resources())
    state = QueueState(capacity, (QueuedGang(gang),))
    decisions = decide(state, ClusterState(snapshot), 0.0)
    assert isinstance(decisions[0], Admit) == can_be_placed(gang, snapshot)


def _where(gang: Sequence[Member], nodes: Sequence[Node]) -> dict[MemberId, str]:
    return {member.id: there.name for member, there in zip(gang, nodes, strict=True)}


STATIC = KubeletPolicy(CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE)


@settings(max_examples=400, deadline=None)
@given(tight_gangs(4), packed_nodes(2), st.sampled_from([STATIC, KubeletPolicy(CpuManager.STATIC)]))
def test_what_kubelets_would_admit_in_some_order(
    gang: Gang, nodes: tuple[Node, ...], policy: KubeletPolicy
) -> None:
    gang = replace(
        gang,
        members=tuple(replace(member, pinning=Pinning.EXCLUSIVE) for member in gang.members),
    )
    snapshot = Snapshot(tuple(replace(each, kubelet=policy) for each in nodes))
    possible = any(
        not any(objections(gang, snapshot, _where(gang.members, choice)))
        and all(_admits(each, here) for each, here in _by_node(gang.members, choice).values())
        for choice in itertools.product(snapshot.nodes, repeat=len(gang.members))
    )
    assert isinstance(place(gang, snapshot), Plan) == possible


def _by_node(
    gang: Sequence[Member], nodes: Sequence[Node]
) -> Mapping[str, tuple[Node, list[Member]]]:
    found: dict[str, tuple[Node, list[Member]]] = {}
    for member, there in zip(gang, nodes, strict=True):
        found.setdefault(there.name, (there, []))[1].append(member)
    return found


def _admits(there: Node, arriving: Sequence[Member]) -> bool:
    """Does this node's kubelet take them in some order?"""
    return any(_takes_all(there, order) for order in itertools.permutations(arriving))


def _takes_all(there: Node, arriving: Sequence[Member]) -> bool:
    assert there.kubelet is not None
    cpus = frozenset(cpu.id for cpu in there.cpus)
    gpus = frozenset(gpu.index for gpu in there.gpus)
    for member in arriving:
        container = Container.of(member.resources.cpu_millis, member.resources.gpus)
        answer = admit(there, cpus, gpus, (container,), there.kubelet)
        if not isinstance(answer, KubeletAdmission):
            return False
        cpus, gpus = cpus - answer.cpus[0], gpus - answer.gpus[0]
    return True
