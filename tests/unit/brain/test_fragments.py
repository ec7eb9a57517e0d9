"""What is stranded, worked out by hand, and the bounds of the figure."""

from __future__ import annotations

import pytest
from clusters import node, nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState
from mooring.brain.fragments import SIZES, fragments_of
from mooring.model.cluster import Gpu, NodeUse, Snapshot
from mooring.model.resources import Resources


@pytest.mark.parametrize(
    ("has", "free", "stranded"),
    [
        # an empty cluster strands nothing; 8 fits on none of these nodes
        ([4, 4], [(4, 4), (4, 4)], [0, 0, 0, None]),
        ([8, 4], [(8, 8), (4, 4)], [0, 0, 0, 0]),
        # a node of 6 could give 4 to a request of four, and still does with 5 free
        ([6], [(5, 5)], [0, 1 - 4 / 5, 0, None]),
        # 3 free: two make a pair; none make four, of three that could
        ([4], [(3, 3)], [0, 1 - 2 / 3, 1, None]),
        # one here, one there: both serve single requests only
        ([2, 2], [(1, 1), (1, 1)], [0, 1, None, None]),
        # half of a shared card is nobody's who asks for whole ones
        ([2], [(1, 1.5)], [1 - 1 / 1.5, 1, None, None]),
        # nothing free, nothing stranded
        ([4], [(0, 0)], [0, 0, 0, None]),
    ],
)
def test_stranded(
    has: list[int], free: list[tuple[int, float]], stranded: list[float | None]
) -> None:
    found = fragments_of([node(f"n{i}", gpus=count) for i, count in enumerate(has)])
    for index, (whole, in_all) in enumerate(free):
        found.change(index, 1000 * whole, round(1000 * in_all))
    assert found.stranded() == [part if part is None else pytest.approx(part) for part in stranded]
    known = [part for part in stranded if part is not None]
    assert found.mean == pytest.approx(sum(known) / len(known))


def test_broken_cards_are_no_capacity() -> None:
    cards = tuple(Gpu(i, 0, healthy=i > 0) for i in range(4))
    # 3 that work: 4 fits nowhere, 2 could have 2
    found = ClusterState(Snapshot((node("n0", gpus=cards),))).fragments()
    assert found.stranded() == [0.0, 0.0, None, None]


def test_of_a_cluster_in_use() -> None:
    use = {
        "n0": NodeUse(
            Resources(gpus=1, gpu_share_millis=500), gpus=frozenset({0}), gpu_shares=((1, 500),)
        )
    }
    found = ClusterState(Snapshot(nodes(1, gpus=4), use)).fragments()
    # 2.5 free, 2 of them whole: by 1 and 2 usable 2 of 2.5; by 4 nothing
    assert found.stranded() == [pytest.approx(0.2), pytest.approx(0.2), 1.0, None]


def test_without_cards_whole_nodes_of_cpus_are_asked_for() -> None:
    use = {"n0": NodeUse(Resources(2000))}
    # 6 of 14 free CPUs are on a node in use
    assert ClusterState(Snapshot(nodes(2), use)).fragments().mean == pytest.approx(6 / 14)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16), st.integers(0, 999))))
def test_between_nothing_and_all(shape: list[tuple[int, int, int]]) -> None:
    found = fragments_of([node(f"n{i}", gpus=has) for i, (has, _, _) in enumerate(shape)])
    fits = [any(has >= size for has, _, _ in shape) for size in SIZES]
    if any(has for has, _, _ in shape):
        assert found.stranded() == [0.0 if some else None for some in fits]
        for index, (has, used, rest) in enumerate(shape):
            whole = max(0, has - used)
            found.change(index, 1000 * whole, 1000 * whole + (rest if whole < has else 0))
    assert all(part is None or 0 <= part <= 1 for part in found.stranded())
    assert 0 <= found.mean <= 1
