"""The order in which the static CPU manager takes CPUs, each case worked out by hand.

No topology manager here: CPUs come from the whole node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from machines import (
    CACHES,
    DUAL,
    EPYC,
    FLAT,
    FOURWAY,
    LOPSIDED,
    QUAD,
    SMT,
    UNEVEN,
    UNEXPECTED,
    answer,
    static,
    want,
)

from mooring.model.cluster import KubeletPolicy, Node

#: node, CPUs wanted, reserved, free (None = all), what is given
ORDER: list[tuple[Node, int, str, str | None, Any]] = [
    # --- 2 sockets with SMT; cells and sockets are the same here ---
    # Less than a core: both cells have 8 free, so cell 0; all cores have 2, so core 0.
    (DUAL, 1, "", None, ["0"]),
    # One whole core.
    (DUAL, 2, "", None, ["0,8"]),
    # Core 0, then a thread: cell 0 has 6 free and comes before cell 1 with 8; core 1 is next.
    (DUAL, 3, "", None, ["0-1,8"]),
    (DUAL, 4, "", None, ["0-1,8-9"]),
    # A cell's worth: the whole cell.
    (DUAL, 8, "", None, ["0-3,8-11"]),
    # A whole cell and one core of the other.
    (DUAL, 10, "", None, ["0-4,8-12"]),
    (DUAL, 16, "", None, ["0-15"]),
    (DUAL, 17, "", None, UNEXPECTED),
    # CPU 0 is kept: cell 0 has 7 free, fewer than cell 1; there core 0 has 1 left: CPU 8.
    (DUAL, 1, "0", None, ["8"]),
    # Whole cores only: core 0 is broken, so core 1.
    (DUAL, 2, "0", None, ["1,9"]),
    # Core 1, then the thread of the core that is already broken.
    (DUAL, 3, "0", None, ["1,8-9"]),
    # Cell 0 is not whole (7 of 8), cell 1 is.
    (DUAL, 8, "0", None, ["4-7,12-15"]),
    (DUAL, 2, "0,8", None, ["1,9"]),
    # Whole cell 1 (8), then cores 1 to 3 of cell 0: all that is not kept.
    (DUAL, 14, "0,8", None, ["1-7,9-15"]),
    (DUAL, 15, "0,8", None, UNEXPECTED),
    # --- partly used cells ---
    # Cores 0 and 1 are taken: cell 0 has 4 free, fewer than 8, and is used up first.
    (DUAL, 2, "", "2-7,10-15", ["2,10"]),
    # 6 would fit into cell 1, but packing starts in cell 0 (4) and ends in cell 1 (2).
    (DUAL, 6, "", "2-7,10-15", ["2-4,10-12"]),
    # A whole free cell goes before cores.
    (DUAL, 8, "", "2-7,10-15", ["4-7,12-15"]),
    # Cell 0 has one thread of each core left: no whole core there.
    (DUAL, 2, "", "4-15", ["4,12"]),
    (DUAL, 1, "", "4-15", ["8"]),
    # Core 4, then a thread: cell 0 has 4 free, cell 1 has 6 by now: CPU 8, in the other cell.
    (DUAL, 3, "", "4-15", ["4,8,12"]),
    # Cell 0: cores 0, 1 whole and a thread of core 2. The broken core goes first.
    (DUAL, 1, "", "0-1,4-10,12-15", ["10"]),
    # Nothing but threads: one a core in both cells, 4 and 4: cell 0 first.
    (DUAL, 5, "", "0-7", ["0-4"]),
    # --- SMT off: every CPU is a core ---
    (FLAT, 3, "", None, ["0-2"]),
    # Cell 0 has 2 left, then cell 1.
    (FLAT, 3, "", "6-15", ["6-8"]),
    (FLAT, 8, "", "6-15", ["8-15"]),
    # Whole cell 1, then one core of cell 0.
    (FLAT, 9, "", "6-15", ["6,8-15"]),
    # 6 free in cell 0, 7 in cell 1.
    (FLAT, 5, "0-1,8", None, ["2-6"]),
    # --- EPYC-like: one socket above four cells ---
    # Less than the socket (32), a cell's worth.
    (EPYC, 8, "", None, ["0-3,16-19"]),
    (EPYC, 4, "", None, ["0-1,16-17"]),
    # Core 0 is taken: cores 1 and 2, of different L3 caches. Caches do not count by default.
    (EPYC, 4, "", "1-15,17-31", ["1-2,17-18"]),
    # Two cells (16) and two cores of the third.
    (EPYC, 20, "", None, ["0-9,16-25"]),
    (EPYC, 32, "", None, ["0-31"]),
    # Cell 0 is not whole: cell 1.
    (EPYC, 8, "0,16", None, ["4-7,20-23"]),
    # Cells have 6, 8, 6, 8 free (core 8 is taken): cell 0 comes first, with cores 1 to 3.
    (EPYC, 6, "0,16", "0-7,9-23,25-31", ["1-3,17-19"]),
    # Whole cells in the order 0, 2 (6 each, not whole), 1, 3: cell 1 is taken, 4 are missing,
    # too few for cell 3: cores 1 and 2 of cell 0.
    (EPYC, 12, "0,16", "0-7,9-23,25-31", ["1-2,4-7,17-18,20-23"]),
    # --- two sockets of two cells: sockets first, then cells ---
    (QUAD, 16, "", None, ["0-7,16-23"]),
    # Core 4 is taken: socket 0 is not whole, socket 1 is.
    (QUAD, 16, "", "0-3,5-19,21-31", ["8-15,24-31"]),
    # Cells by socket: socket 0 has 14 free and goes first; cell 1 has 6, cell 0 is whole.
    (QUAD, 8, "", "0-3,5-19,21-31", ["0-3,16-19"]),
    # Cell 1 is taken: socket 0 has 8 free, fewer than 16.
    (QUAD, 2, "", "0-3,8-19,24-31", ["0,16"]),
    # Socket 0: cores 2 to 7 free (12 CPUs), socket 1: core 11 alone. Socket 1 goes first.
    (QUAD, 2, "", "2-7,11,18-23,27", ["11,27"]),
    # Then cell 0 of socket 0, which has 4 free against 8 of cell 1: core 2.
    (QUAD, 4, "", "2-7,11,18-23,27", ["2,11,18,27"]),
    # --- uneven cells and sockets ---
    (UNEVEN, 2, "", None, ["0-1"]),
    # The small cell is whole and fits, so it goes first; 4 are missing, cell 1 has 6: cores.
    (UNEVEN, 6, "", None, ["0-5"]),
    (UNEVEN, 8, "", None, ["0-7"]),
    # Cell 0 is not whole any more, cell 1 is.
    (UNEVEN, 6, "0", None, ["2-7"]),
    (LOPSIDED, 4, "", None, ["0-3"]),
    # Cell 0 (4), then 4 are missing: cell 1 is too large, and no socket has the average size 6.
    (LOPSIDED, 8, "", None, ["0-7"]),
    (LOPSIDED, 12, "", None, ["0-11"]),
    # --- four threads a core ---
    (FOURWAY, 4, "", None, ["0,2,4,6"]),
    # Core 0 whole, then two threads of core 1.
    (FOURWAY, 6, "", None, ["0-4,6"]),
    # CPU 0 is kept: core 1 is whole; for less, the rest of core 0 goes first.
    (FOURWAY, 4, "0", None, ["1,3,5,7"]),
    (FOURWAY, 3, "0", None, ["2,4,6"]),
]


@pytest.mark.parametrize(("node", "count", "reserved", "free", "expected"), ORDER)
def test_cpus_are_taken_in_this_order(
    node: Node, count: int, reserved: str, free: str | None, expected: Any
) -> None:
    assert answer(node, static(reserved=reserved), want(count), free=free) == expected


#: node, CPUs wanted, reserved, free, what is given when only whole cores may be
FULL_CORES: list[tuple[Node, int, str, str | None, Any]] = [
    # 3 and 1 are no multiples of 2 threads.
    (DUAL, 3, "", None, SMT),
    (DUAL, 1, "", None, SMT),
    (DUAL, 4, "", None, ["0-1,8-9"]),
    # Cell 0 has half cores only, which do not count.
    (DUAL, 8, "", "4-15", ["4-7,12-15"]),
    # 5 whole cores wanted, 4 free.
    (DUAL, 10, "", "4-15", SMT),
    # CPU 8 shares its core with the reserved CPU 0.
    (DUAL, 2, "0", None, ["1,9"]),
    (DUAL, 14, "0", None, ["1-7,9-15"]),
    (DUAL, 16, "0", None, SMT),
    # Without SMT every CPU is a whole core; too many are too many whole cores.
    (FLAT, 3, "", None, ["0-2"]),
    (FLAT, 17, "", None, SMT),
    # 4 threads a core: 6 is no multiple of 4.
    (FOURWAY, 6, "", None, SMT),
    (FOURWAY, 8, "", None, ["0-7"]),
    (FOURWAY, 4, "0", None, ["1,3,5,7"]),
    (FOURWAY, 8, "0", None, SMT),
]


@pytest.mark.parametrize(("node", "count", "reserved", "free", "expected"), FULL_CORES)
def test_full_physical_cores_only(
    node: Node, count: int, reserved: str, free: str | None, expected: Any
) -> None:
    policy = static(reserved=reserved, full=True)
    assert answer(node, policy, want(count), free=free) == expected


#: node, CPUs wanted, free, what is given when L3 caches are to be kept together
BY_CACHE: list[tuple[Node, int, str | None, Any]] = [
    # Core 0 is taken: cell 0 has the cache of cores 0, 1 with 2 free and that of cores 2, 3 whole:
    # a whole cache, where packing by cores would take cores 1 and 2.
    (EPYC, 4, "1-15,17-31", ["2-3,18-19"]),
    # No whole cache fits in 2; the cache with the fewest free has exactly core 1.
    (EPYC, 2, "1-15,17-31", ["1,17"]),
    # A whole cache, and 2 of the next one in the same cell.
    (EPYC, 6, None, ["0-2,16-18"]),
    # Two cores' worth of the first cache, without its last thread.
    (EPYC, 3, None, ["0-1,16"]),
    # A whole cell goes before caches.
    (EPYC, 8, None, ["0-3,16-19"]),
    # Caches 0-3 (3 free), 4-7, 8-11, 12-15: two whole ones, 2 missing: from the broken one.
    (CACHES, 10, "1-15", ["1-2,4-11"]),
    # 2 left of every cache: none holds 3, so it is cores in order after all.
    (CACHES, 3, "0-1,4-5,8-9,12-13", ["0-1,4"]),
    # The fewest free that hold all: cache 4-7 with 2 free, not 0-3 with 4.
    (CACHES, 2, "0-3,6-15", ["6-7"]),
]


@pytest.mark.parametrize(("node", "count", "free", "expected"), BY_CACHE)
def test_caches_are_kept_together_on_request(
    node: Node, count: int, free: str | None, expected: Any
) -> None:
    policy = replace(static(), prefer_l3_alignment=True)
    assert answer(node, policy, want(count), free=free) == expected


#: policy, containers, what is given on the 2-socket machine
CONTAINERS: list[tuple[KubeletPolicy, list[Any], Any]] = [
    # No static policy: everybody on the shared pool.
    (KubeletPolicy(), [want(4)], ["-"]),
    # Not a whole number of CPUs.
    (static(), [want(1.5)], ["-"]),
    # Not Guaranteed.
    (static(), [want(2, guaranteed=False)], ["-"]),
    # One Burstable container makes the whole pod Burstable.
    (static(), [want(2), want(2, guaranteed=False)], ["-", "-"]),
    # Containers of a Guaranteed pod are looked at one by one.
    (static(), [want(2), want(0.5)], ["0,8", "-"]),
    (static(), [want(2), want(2)], ["0,8", "1,9"]),
    # CPU 0; then the other thread of the broken core; then the next whole core.
    (static(), [want(1), want(1), want(2)], ["0", "8", "1,9"]),
    # A whole cell; what remains is in cell 1.
    (static(), [want(8), want(1)], ["0-3,8-11", "4"]),
    # A container cannot share CPUs if all are given away and none is reserved.
    (static(), [want(16), want(0.5)], UNEXPECTED),
    (static(reserved="0"), [want(15), want(0.5)], ["1-15", "-"]),
    (static(), [want(12), want(5)], UNEXPECTED),
    # The second container is the one that cannot have whole cores.
    (static(full=True), [want(2), want(3)], SMT),
    # Whole cores are nothing to containers that share.
    (static(full=True), [want(3, guaranteed=False)], ["-"]),
    (static(full=True), [want(2), want(1.5)], ["0,8", "-"]),
]


@pytest.mark.parametrize(("policy", "containers", "expected"), CONTAINERS)
def test_several_containers_and_kinds_of_pods(
    policy: KubeletPolicy, containers: list[Any], expected: Any
) -> None:
    assert answer(DUAL, policy, *containers) == expected
