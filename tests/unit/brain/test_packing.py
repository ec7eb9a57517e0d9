"""Several gangs at once: packings that placing them one after the other misses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from clusters import GIB, members, node, nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState
from mooring.brain.packing import SearchBudget
from mooring.model.cluster import CpuManager, Gpu, KubeletPolicy, Node, Snapshot, TopologyManager
from mooring.model.member import Gang, Member, Pinning, Preset, Relation, Rule
from mooring.model.plan import Plan
from mooring.model.resources import Resources

_STRICT = KubeletPolicy(CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE)
_ALONE = Pinning.EXCLUSIVE


def _gang(job: str, *groups: tuple[Member, ...]) -> Gang:
    whole = tuple(replace(member, job=job) for group in groups for member in group)
    return Gang(job, whole, Preset.SPREAD)


def _pack(cluster: tuple[Node, ...], *gangs: Gang, steps: int = 20_000) -> list[Plan] | None:
    """The plans, once each has been taken in its turn: that is the check."""
    state = ClusterState(Snapshot(cluster))
    assert state.packable(gangs)
    plans = state.pack(gangs, SearchBudget(steps))
    if plans is None:
        return None
    for gang, plan in zip(gangs, plans, strict=True):
        assert [placement.member for placement in plan.placements] == [m.id for m in gang.members]
        state.assume(gang, plan)
    return list(plans)


@pytest.mark.parametrize(
    ("cluster", "gangs"),
    [
        # 6 + 2 and 5 + 3 on nodes of 8: by size 6, 5, 3 and 2 go where they leave least.
        (nodes(2, 8), (_gang("a", members("w", 1, 6)), _gang("b", members("w", 1, 5)),
                       _gang("c", members("w", 1, 3)), _gang("d", members("w", 1, 2)))),
        # 4 + 4 + 2 and 5 + 5 on nodes of 10. By size 5 and 5 share a node only if nothing else
        # comes between them.
        (nodes(2, 10), (_gang("a", members("w", 2, 5)), _gang("b", members("w", 2, 4)),
                        _gang("c", members("w", 1, 2)))),
        # 7 + 3, 6 + 4, 5 + 5 of 10: 30 of 30.
        (nodes(3, 10), (_gang("a", members("w", 1, 7), members("v", 2, 5)),
                        _gang("b", members("w", 1, 6), members("v", 1, 4)),
                        _gang("c", members("w", 1, 3)))),
        # CPUs 9 + 1 and memory 1 + 9 of 10 on each of two nodes.
        ((node("n0", 10, memory_bytes=10 * GIB), node("n1", 10, memory_bytes=10 * GIB)),
         (_gang("a", members("w", 2, 9, memory_gib=1)),
          _gang("b", members("w", 2, 1, memory_gib=9)))),
    ],
)  # fmt: skip
def test_packings_are_found(cluster: tuple[Node, ...], gangs: tuple[Gang, ...]) -> None:
    assert _pack(cluster, *gangs) is not None


def test_who_has_no_place_gets_one_from_others() -> None:
    """The members of 6 CPUs are the largest (6 of 13) and go where they leave least: two to the
    node of 12, then one to the other. The device is on the node of 12, and 3 CPUs with it fit only
    once one of the two has left for the 7 that the other node has."""
    cluster = (node("gpu", 12, gpus=(Gpu(0, 0),)), node("big", 13))
    large, beside = _gang("a", members("w", 3, 6)), _gang("b", members("w", 1, 3))
    device = replace(beside, members=(replace(beside.members[0], resources=Resources(3000, 0, 1)),))
    plans = _pack(cluster, large, device)
    assert plans is not None
    assert plans[1].placements[0].slot.node == "gpu"
    assert Counter(p.slot.node for p in plans[0].placements) == {"gpu": 1, "big": 2}


def test_a_kubelet_takes_the_lowest_cell_and_is_followed() -> None:
    """Two cells of 4 CPUs. In the order 3, 2, 2: cell 0 takes 3, cell 1 both others, 1 is left in
    cell 0. In the order 2, 2, 3 the first two would fill cell 0 and the last would be in cell 1."""
    cluster = (node("n", 8, cells=2, kubelet=_STRICT),)
    three, two = members("w", 1, 3, pinning=_ALONE), members("w", 2, 2, pinning=_ALONE)
    plans = _pack(cluster, _gang("a", three), _gang("b", two))
    assert plans is not None
    assert [p.slot.cells for plan in plans for p in plan.placements] == [(0,), (1,), (1,)]
    plans = _pack(cluster, _gang("b", two), _gang("a", three))
    assert plans is not None
    assert [p.slot.cells for plan in plans for p in plan.placements] == [(0,), (0,), (1,)]
    # 3 + 3 of 8 leaves 1 and 1: no 2 fits into one cell.
    assert _pack(cluster, _gang("a", three), _gang("b", three), _gang("c", two[:1])) is None


def test_the_budget_ends_the_search() -> None:
    """4 + 3 + 2 of 9 CPUs on each of three nodes: some steps find it, none do not."""
    gangs = [_gang("a", members("w", 3, 4)), _gang("b", members("w", 3, 3, memory_gib=1)),
             _gang("c", members("w", 3, 2))]  # fmt: skip
    state = ClusterState(Snapshot(nodes(3, 9)))
    budget = SearchBudget(1_000)
    assert state.pack(gangs, budget) is not None
    assert 9 <= 1_000 - budget.left < 1_000
    assert state.pack(gangs, SearchBudget(0)) is None


def test_members_that_depend_on_each_other_are_not_packed() -> None:
    state = ClusterState(Snapshot(nodes(2)))
    free = _gang("a", members("w", 2))
    apart = Rule(Relation.APART, ("w",), ("w",), required=True)
    assert state.packable([free])
    assert not state.packable([free, replace(free, job="b", rules=(apart,))])
    assert not state.packable([_gang("c", members("w", 1, ports={"main": 80}))])
    assert not ClusterState(Snapshot(nodes(65))).packable([free])


sizes = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2), st.booleans())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(2, 10), st.integers(0, 4), st.booleans()), min_size=1, max_size=4
    ),
    st.lists(sizes, min_size=1, max_size=5),
)
def test_what_is_packed_can_be_taken_and_is_the_same_each_time(
    hardware: list[tuple[int, int, bool]], asked: list[tuple[int, int, int, bool]]
) -> None:
    cluster = tuple(
        node(f"n{i}", 2 * cpus, cells=2, gpus=gpus, kubelet=_STRICT if strict else None)
        for i, (cpus, gpus, strict) in enumerate(hardware)
    )
    gangs = [
        _gang(
            f"g{i}", members("w", count, cpu, gpus=gpus, pinning=_ALONE if own else Pinning.SHARED)
        )
        for i, (count, cpu, gpus, own) in enumerate(asked)
    ]
    plans = _pack(cluster, *gangs, steps=3_000)
    assert plans == _pack(cluster, *gangs, steps=3_000)
    if plans is None:
        return
    held = Counter[str]()
    for gang, plan in zip(gangs, plans, strict=True):
        for placement, member in zip(plan.placements, gang.members, strict=True):
            held[placement.slot.node] += member.resources.cpu_millis
    assert all(held[one.name] <= one.cpu_millis for one in cluster)
