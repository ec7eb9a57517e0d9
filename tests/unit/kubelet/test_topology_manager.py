"""The topology manager's policies and scopes, each case worked out by hand.

A set of cells is *preferred* by a provider if it has as few cells as the empty machine would
need (counted with reserved CPUs and broken devices), and enough is free in it. Written {0}, {0,1}.
"""

from __future__ import annotations

from typing import Any

import pytest
from machines import (
    DUAL,
    EPYC,
    FLAT,
    LINKED,
    QUAD,
    SICK,
    SMALL,
    TOPOLOGY,
    UNEVEN,
    UNEXPECTED,
    answer,
    static,
    want,
)

from mooring.model.cluster import KubeletPolicy, Node, TopologyManager

NONE, BEST, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"

#: node, policy, reserved, free CPUs (None = all), CPUs wanted, what is given
CPUS_ALONE: list[tuple[Node, str, str, str | None, int, Any]] = [
    # Cores 0, 1 taken: cell 0 has 4, cell 1 has 8. 6 fit in {1} alone: 3 cores there, although
    # packing without a topology manager would start in cell 0.
    (DUAL, BEST, "", "2-7,10-15", 6, ["4-6,12-14"]),
    (DUAL, RESTRICTED, "", "2-7,10-15", 6, ["4-6,12-14"]),
    (DUAL, SINGLE, "", "2-7,10-15", 6, ["4-6,12-14"]),
    (DUAL, NONE, "", "2-7,10-15", 6, ["2-4,10-12"]),
    # Both cells fit: the lower one, even if it is the emptier.
    (DUAL, SINGLE, "", "0-5,8-13", 4, ["0-1,8-9"]),
    # 4 free in each cell: 6 need both, an empty machine would need one: {0,1} is not preferred.
    # Cell 0 is used up (cores 2, 3), then core 6.
    (DUAL, BEST, "", "2-3,6-7,10-11,14-15", 6, ["2-3,6,10-11,14"]),
    (DUAL, RESTRICTED, "", "2-3,6-7,10-11,14-15", 6, TOPOLOGY),
    (DUAL, SINGLE, "", "2-3,6-7,10-11,14-15", 6, TOPOLOGY),
    # 10 need two cells of 8 on any machine: {0,1} is preferred, but not a single cell.
    (DUAL, BEST, "", None, 10, ["0-4,8-12"]),
    (DUAL, RESTRICTED, "", None, 10, ["0-4,8-12"]),
    (DUAL, SINGLE, "", None, 10, TOPOLOGY),
    # A cell has 8 with the reserved one, 7 without: only {1} has 8 free.
    (DUAL, RESTRICTED, "0", None, 8, ["4-7,12-15"]),
    # One reserved in each: 8 "fit in one cell" by size, but 7 are free in each. Only {0,1} is
    # left, which is not preferred: rejected by an idle node.
    (DUAL, RESTRICTED, "0,4", None, 8, TOPOLOGY),
    # Cell 0 and 1 have 7 each: cores 1 to 3, then core 5.
    (DUAL, BEST, "0,4", None, 8, ["1-3,5,9-11,13"]),
    # 16 wanted, 15 free: no set of cells has enough. Best effort lets the pod pass to the CPU
    # manager, which fails; the others reject it themselves.
    (DUAL, BEST, "0", None, 16, UNEXPECTED),
    (DUAL, RESTRICTED, "0", None, 16, TOPOLOGY),
    (DUAL, SINGLE, "0", None, 16, TOPOLOGY),
    # SMT off: 3 in cell 0 (2 free) do not fit, {1} has them.
    (FLAT, SINGLE, "", "6-15", 3, ["8-10"]),
    # --- EPYC-like, four cells of 8 ---
    (EPYC, SINGLE, "", None, 8, ["0-3,16-19"]),
    # Core 0 taken: {0} has 6; cores 1 and 2 are of different L3 caches.
    (EPYC, SINGLE, "", "1-15,17-31", 4, ["1-2,17-18"]),
    # 12 need two cells: {0,1} is the lowest. Cell 0 whole, then cores 4 and 5.
    (EPYC, RESTRICTED, "", None, 12, ["0-5,16-21"]),
    # Cell 0 has core 3 alone: {0,1} and {0,2} have 10, {1,2} has 16 (and is lower than {0,3}).
    (EPYC, RESTRICTED, "", "3-15,19-31", 12, ["4-9,20-25"]),
    # The last core of each cell: 6 would fit into an empty cell, and need three here. Among the
    # sets that are not preferred, three cells are best: {0,1,2}.
    (EPYC, BEST, "", "3,7,11,15,19,23,27,31", 6, ["3,7,11,19,23,27"]),
    (EPYC, RESTRICTED, "", "3,7,11,15,19,23,27,31", 6, TOPOLOGY),
    # --- two sockets of two cells ---
    # 20 need three cells of 8: {0,1,2}. Socket 0 whole (16), then cores 8 and 9 of cell 2.
    (QUAD, RESTRICTED, "", None, 20, ["0-9,16-25"]),
    # Cell 1 taken; 16 need two cells: {0,2} is lower than {2,3}, although it spans sockets.
    (QUAD, RESTRICTED, "", "0-3,8-19,24-31", 16, ["0-3,8-11,16-19,24-27"]),
    # --- uneven cells of 2 and 6 ---
    (UNEVEN, SINGLE, "", None, 2, ["0-1"]),
    # {0} has 2, {1} has 6.
    (UNEVEN, RESTRICTED, "", None, 4, ["2-5"]),
    # No cell has 7, so two are what it takes.
    (UNEVEN, SINGLE, "", None, 7, TOPOLOGY),
    # Cell 0 is whole and goes first, then 2 to 6.
    (UNEVEN, RESTRICTED, "", None, 7, ["0-6"]),
    # Cell 1 has 5 of its 6 left: 6 would have to span cells.
    (UNEVEN, RESTRICTED, "", "0-1,3-7", 6, TOPOLOGY),
    (UNEVEN, BEST, "", "0-1,3-7", 6, ["0-1,3-6"]),
    # --- one cell: nothing to align ---
    (SMALL, SINGLE, "", None, 3, ["0-2"]),
    (SMALL, SINGLE, "", None, 5, TOPOLOGY),
    (SMALL, BEST, "", None, 5, UNEXPECTED),
]


@pytest.mark.parametrize(("node", "policy", "reserved", "free", "count", "expected"), CPUS_ALONE)
def test_cells_of_cpus(
    node: Node, policy: str, reserved: str, free: str | None, count: int, expected: Any
) -> None:
    assert answer(node, static(policy, reserved=reserved), want(count), free=free) == expected


#: node, policy, free CPUs, free GPUs, CPUs wanted, GPUs wanted, what is given
WITH_GPUS: list[tuple[Node, str, str | None, str | None, float, int, Any]] = [
    # GPUs 2, 3 (cell 1) are free. Without a topology manager the CPUs come from cell 0.
    (DUAL, NONE, None, "2-3", 2, 1, ["0,8 +2"]),
    # GPUs: {1}, {0,1}; CPUs: {0}, {1}, {0,1}. Both prefer {1}.
    (DUAL, BEST, None, "2-3", 2, 1, ["4,12 +2"]),
    (DUAL, RESTRICTED, None, "2-3", 2, 1, ["4,12 +2"]),
    (DUAL, SINGLE, None, "2-3", 2, 1, ["4,12 +2"]),
    # GPUs in cell 1 only, CPUs in cell 0 only: the sets {1} and {0} have nothing in common, so
    # nothing is preferred. With {0,1} of either: {0} or {1}, one cell as both need: {0}.
    (DUAL, BEST, "0-3,8-11", "2-3", 2, 1, ["0,8 +2"]),
    (DUAL, RESTRICTED, "0-3,8-11", "2-3", 2, 1, TOPOLOGY),
    (DUAL, SINGLE, "0-3,8-11", "2-3", 2, 1, TOPOLOGY),
    # 3 GPUs need two cells, 2 CPUs one: the sets are never equal. Best effort takes the two
    # cells that the GPUs need.
    (DUAL, BEST, None, None, 2, 3, ["0,8 +0-2"]),
    (DUAL, RESTRICTED, None, None, 2, 3, TOPOLOGY),
    # 10 CPUs need two cells as well: {0,1} it is.
    (DUAL, RESTRICTED, None, None, 10, 3, ["0-4,8-12 +0-2"]),
    (DUAL, SINGLE, None, None, 10, 3, TOPOLOGY),
    # GPU 0 is broken: cell 0 has 1 left, cell 1 has 2.
    (SICK, SINGLE, None, None, 2, 2, ["4,12 +2-3"]),
    (SICK, SINGLE, None, None, 2, 1, ["0,8 +1"]),
    (SICK, NONE, None, None, 2, 4, UNEXPECTED),
    # One GPU free in each cell: 2 would fit in one cell of an empty machine.
    (DUAL, RESTRICTED, None, "1-2", 2, 2, TOPOLOGY),
    (DUAL, BEST, None, "1-2", 2, 2, ["0,8 +1-2"]),
    # Too many: a failed allocation without alignment, a misfit with it.
    (DUAL, NONE, None, None, 2, 5, UNEXPECTED),
    (DUAL, BEST, None, None, 2, 5, UNEXPECTED),
    (DUAL, SINGLE, None, None, 2, 5, TOPOLOGY),
    # 1.5 CPUs give no wish for cells; the GPU alone decides, the CPUs are shared.
    (DUAL, SINGLE, None, "2", 1.5, 1, ["- +2"]),
    # Cell 1 has no CPU left, but this pod wants none of its own.
    (DUAL, SINGLE, "0-3,8-11", "2", 1.5, 1, ["- +2"]),
    (DUAL, SINGLE, None, None, 1.5, 0, ["-"]),
    # The GPU of the EPYC-like machine hangs off cell 2: cores 8 and 9.
    (EPYC, SINGLE, None, None, 4, 1, ["8-9,24-25 +0"]),
    # 12 CPUs need two cells, the GPU one.
    (EPYC, RESTRICTED, None, None, 12, 1, TOPOLOGY),
    # Best effort wants two cells, as the CPUs need. The GPU offers every set with 2 in it, also
    # {0,1,2}; together with the CPUs' {0,1} that makes {0,1}, the lowest pair of all: cell 0
    # whole, then cores 4 and 5, none of them near the GPU.
    (EPYC, BEST, None, None, 12, 1, ["0-5,16-21 +0"]),
    # Links. GPU 1 is alone on its switch, 2 and 3 share one.
    (LINKED, NONE, None, "1-3", 2, 2, ["0,8 +2-3"]),
    # 4 and 5 are linked, 0 is not linked to them.
    (LINKED, NONE, None, "0,4-5", 2, 2, ["0,8 +4-5"]),
    (LINKED, NONE, None, "0-1,4-6", 2, 3, ["0,8 +4-6"]),
    # One GPU: from the linked group that has fewer left, and there from the broken pair.
    (LINKED, NONE, None, "0,2-7", 2, 1, ["0,8 +0"]),
    (LINKED, SINGLE, None, "0,4-7", 2, 3, ["4,12 +4-6"]),
]


@pytest.mark.parametrize(
    ("node", "policy", "free", "gpus", "count", "devices", "expected"), WITH_GPUS
)
def test_cells_of_cpus_and_gpus(
    node: Node,
    policy: str,
    free: str | None,
    gpus: str | None,
    count: float,
    devices: int,
    expected: Any,
) -> None:
    given = answer(node, static(policy), want(count, devices), free=free, gpus=gpus)
    assert given == expected


#: policy, scope, free CPUs, free GPUs, containers, what is given on the 2-socket machine
SCOPES: list[tuple[str, str, str | None, str | None, list[Any], Any]] = [
    # Each container for itself: 6 in {0}; cell 0 then has 2, so {1}.
    (SINGLE, "container", None, None, [want(6), want(6)], ["0-2,8-10", "4-6,12-14"]),
    # Together they are 12, more than a cell.
    (SINGLE, "pod", None, None, [want(6), want(6)], TOPOLOGY),
    # 12 need two cells: {0,1} is preferred. Within it CPUs are packed: the second container gets
    # core 3 of cell 0 and cores 4, 5 of cell 1.
    (RESTRICTED, "pod", None, None, [want(6), want(6)], ["0-2,8-10", "3-5,11-13"]),
    (RESTRICTED, "container", None, None, [want(6), want(6)], ["0-2,8-10", "4-6,12-14"]),
    (SINGLE, "pod", None, None, [want(4), want(4)], ["0-1,8-9", "2-3,10-11"]),
    # Core 0 taken: 8 do not fit in the 6 of cell 0; they do in cell 1.
    (SINGLE, "pod", "1-7,9-15", None, [want(4), want(4)], ["4-5,12-13", "6-7,14-15"]),
    # For itself the first container fits in cell 0, where the second then has 2.
    (SINGLE, "container", "1-7,9-15", None, [want(4), want(4)], ["1-2,9-10", "4-5,12-13"]),
    (SINGLE, "pod", None, None, [want(2, 1), want(2, 1)], ["0,8 +0", "1,9 +1"]),
    # One GPU free in each cell: apart they fit, together they do not.
    (SINGLE, "container", None, "1-2", [want(2, 1), want(2, 1)], ["0,8 +1", "4,12 +2"]),
    (SINGLE, "pod", None, "1-2", [want(2, 1), want(2, 1)], TOPOLOGY),
    # Best effort for the pod: {0,1}, two cells as the GPUs need; CPUs are packed in cell 0.
    (BEST, "pod", None, "1-2", [want(2, 1), want(2, 1)], ["0,8 +1", "1,9 +2"]),
    # A container that shares CPUs adds nothing to the pod's wish.
    (SINGLE, "pod", None, None, [want(8), want(0.5)], ["0-3,8-11", "-"]),
    # The third container finds no cell with 4: 2 are left in each.
    (SINGLE, "container", None, None, [want(6), want(6), want(4)], TOPOLOGY),
    # Burstable: nobody has a wish.
    (SINGLE, "pod", None, None, [want(9), want(9, guaranteed=False)], ["-", "-"]),
    # Nothing is aligned without a policy, whatever the scope.
    (NONE, "pod", None, None, [want(6), want(6)], ["0-2,8-10", "3-5,11-13"]),
]


@pytest.mark.parametrize(("policy", "scope", "free", "gpus", "containers", "expected"), SCOPES)
def test_container_and_pod_scope(
    policy: str,
    scope: str,
    free: str | None,
    gpus: str | None,
    containers: list[Any],
    expected: Any,
) -> None:
    given = answer(DUAL, static(policy, scope), *containers, free=free, gpus=gpus)
    assert given == expected


def test_full_cores_are_asked_for_after_the_cells() -> None:
    # 3 fit in cell 0, so the topology manager lets them pass and the CPU manager rejects them;
    # 9 fit in no cell, so the topology manager is the one to reject them.
    policy = static(SINGLE, full=True)
    assert answer(DUAL, policy, want(3)) == "SMTAlignmentError"
    assert answer(DUAL, policy, want(9)) == "TopologyAffinityError"
    # Core 0 keeps its thread 8 to itself: 4 of cell 0's cores are not free, 8 CPUs are in cell 1.
    assert answer(DUAL, static(SINGLE, full=True, reserved="0"), want(8)) == ["4-7,12-15"]


def test_devices_are_aligned_without_the_static_cpu_policy() -> None:
    policy = KubeletPolicy(topology_manager=TopologyManager.SINGLE_NUMA_NODE)
    assert answer(DUAL, policy, want(4, 2)) == ["- +0-1"]
    assert answer(DUAL, policy, want(4, 3)) == TOPOLOGY
