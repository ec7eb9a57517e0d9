"""Which CPUs are chosen; the arithmetic of each case is beside it."""

from __future__ import annotations

import pytest
from clusters import cpu_list

from mooring.brain import cpus
from mooring.model.cluster import Cpu

# Two cells of 8 CPUs, 2 siblings a core, 2 L3 groups a cell:
#   cell 0: L3 0 = 0-3 (cores 0-1 | 2-3), L3 1 = 4-7;  cell 1: L3 2 = 8-11, L3 3 = 12-15
TWO_CELLS = cpu_list(16, cells=2, smt=2, l3_per_cell=2)
# Four cells of 4 CPUs without siblings.
FOUR_CELLS = cpu_list(16, cells=4)
# Siblings as Linux often numbers them: CPU i and i + 4 are one core.
FAR_SIBLINGS = tuple(Cpu(i, core=i % 4, l3=0, cell=0, socket=0) for i in range(8))


@pytest.mark.parametrize(
    ("machine", "held", "count", "expected"),
    [
        # all free: every L3 group has 4, the first with the lowest number wins; a whole core
        pytest.param(TWO_CELLS, "", 2, {0, 1}, id="whole core"),
        # 4 = one L3 group
        pytest.param(TWO_CELLS, "", 4, {0, 1, 2, 3}, id="whole L3 group"),
        # 6 fits no L3 group (4), one cell (8): L3 0 whole, then 2 of L3 1
        pytest.param(TWO_CELLS, "", 6, {0, 1, 2, 3, 4, 5}, id="two L3 groups, one cell"),
        # 10 fits no cell: cell 0 whole (8), then 2 in cell 1
        pytest.param(TWO_CELLS, "", 10, {*range(8), 8, 9}, id="spans cells"),
        # cell 0 has 8 - 4 = 4 free, cell 1 has 8: best fit for 4 is cell 0
        pytest.param(TWO_CELLS, "0-3", 4, {4, 5, 6, 7}, id="best fit cell"),
        # 5 fits only cell 1 (cell 0 has 4): L3 2 whole, 1 of L3 3
        pytest.param(TWO_CELLS, "0-3", 5, {8, 9, 10, 11, 12}, id="the only cell that fits"),
        # L3 0 has 3 free (1 broken core), L3 1 has 4; 1 CPU: the broken core of L3 0
        pytest.param(TWO_CELLS, "0", 1, {1}, id="broken core first"),
        # 2 CPUs: L3 0 has 1,2,3 free with the whole core 2-3
        pytest.param(TWO_CELLS, "0", 2, {2, 3}, id="whole core before siblings"),
        # cell 0: only halves of cores (1,3,5,7); cell 1 whole: 2 CPUs as a whole core in cell 1
        pytest.param(TWO_CELLS, "0,2,4,6", 2, {8, 9}, id="whole core in the larger cell"),
        # everywhere only halves: two of one L3 group
        pytest.param(TWO_CELLS, "0,2,4,6,8,10,12,14", 2, {1, 3}, id="halves if there is no core"),
        # odd count: a whole core and one sibling, from one L3 group
        pytest.param(TWO_CELLS, "", 3, {0, 1, 2}, id="odd count breaks one core"),
        # 3 after 0-2 are held: L3 0 has only CPU 3; L3 1 has 4 -> 4,5 and 6
        pytest.param(TWO_CELLS, "0-2", 3, {4, 5, 6}, id="one L3 group before a full cell"),
        # cells have 4,3,2,4 free; 2 -> cell 2, the smallest that fits
        pytest.param(FOUR_CELLS, "4,8,9", 2, {10, 11}, id="smallest cell that fits"),
        # 6 over cells with 4,3,2,4: first the largest (cell 0: 4), then 2 fit cell 2 exactly
        pytest.param(FOUR_CELLS, "4,8,9", 6, {0, 1, 2, 3, 10, 11}, id="fewest cells, best rest"),
        pytest.param(FAR_SIBLINGS, "", 2, {0, 4}, id="siblings by core, not by number"),
        pytest.param(FAR_SIBLINGS, "0", 3, {1, 5, 4}, id="a core, then the broken one"),
    ],
)
def test_chosen_cpus(machine: tuple[Cpu, ...], held: str, count: int, expected: set[int]) -> None:
    free = [cpu for cpu in machine if cpu.id not in _ids(held)]
    chosen = cpus.choose(free, count, cpus.core_sizes(machine))
    assert {cpu.id for cpu in chosen} == expected
    assert cpus.choose(free[::-1], count, cpus.core_sizes(machine)) == chosen


def test_cpus_near_a_device_win_over_the_best_fit() -> None:
    # cell 0 has 4 free, cell 1 has 8; the device hangs off cell 1
    free = [cpu for cpu in TWO_CELLS if cpu.id >= 4]
    chosen = cpus.choose(free, 2, cpus.core_sizes(TWO_CELLS), near=frozenset({1}))
    assert [cpu.id for cpu in chosen] == [8, 9]


def test_more_cpus_than_free_is_a_defect_of_the_caller() -> None:
    with pytest.raises(ValueError, match="3 CPUs wanted, 2 free"):
        cpus.choose(FOUR_CELLS[:2], 3, cpus.core_sizes(FOUR_CELLS))


def _ids(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found
