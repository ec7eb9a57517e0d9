"""How the kubelet's topology manager decides on which NUMA cells a container or pod belongs.

Each provider (CPUs, devices) names the sets of cells that have enough free, and prefers those
with no more cells than an empty machine would need. One set of each provider is combined with
the other's by intersection; the result is preferred only if both sets are equal and preferred.
A preferred result wins, then the narrowest, then the one with the lowest cells. Among results
that are not preferred, those win that have as many cells as the neediest provider needs.

The sets that satisfy a provider contain each other's supersets, so the winner is found without
trying all pairs. Source: the kubelet's topology manager (policy.go), no options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from mooring.model.cluster import TopologyManager


@dataclass(frozen=True)
class Demand:
    """What one provider is asked for, with what each cell has free and has in all."""

    count: int
    free: Sequence[int]
    total: Sequence[int]


@dataclass(frozen=True)
class Affinity:
    """The cells to take from, as a bit set; None = from anywhere."""

    cells: int | None
    admitted: bool


_ANYWHERE = Affinity(None, True)


CellSet = tuple[int, tuple[int, ...]]


@cache
def cell_sets(cells: int, size: int) -> tuple[CellSet, ...]:
    """All sets of `size` of so many cells, as bits and as members: the lowest first."""
    sets = [
        (sum(1 << cell for cell in chosen), chosen) for chosen in combinations(range(cells), size)
    ]
    return tuple(sorted(sets))


def decide(policy: TopologyManager, demands: Sequence[Demand], cells: int) -> Affinity:
    """Where these demands go together, and whether the policy lets them in."""
    if policy is TopologyManager.NONE or not demands:
        return _ANYWHERE
    preferred = _preferred(demands, cells)
    if policy is TopologyManager.SINGLE_NUMA_NODE:
        if preferred is None or preferred & (preferred - 1):
            return Affinity(None, False)
        # On a machine of one cell there is nothing to align.
        return _ANYWHERE if cells == 1 else Affinity(preferred, True)
    if preferred is not None:
        return Affinity(preferred, True)
    if policy is TopologyManager.RESTRICTED:
        return Affinity(None, False)
    return Affinity(_best_of_the_rest(demands, cells), True)


def fewest_cells(count: int, amounts: Sequence[int]) -> int | None:
    """How many cells it takes to come to `count`; None = all of them are not enough."""
    for cells, amount in enumerate(_running_sums(amounts), start=1):
        if amount >= count:
            return cells
    return None


def _running_sums(amounts: Sequence[int]) -> list[int]:
    sums, total = [], 0
    for amount in sorted(amounts, reverse=True):
        total += amount
        sums.append(total)
    return sums


def _preferred(demands: Sequence[Demand], cells: int) -> int | None:
    """The lowest set of cells that every provider prefers."""
    sizes = {fewest_cells(demand.count, demand.total) or cells for demand in demands}
    if len(sizes) > 1:
        return None
    (size,) = sizes
    for chosen, members in cell_sets(cells, size):
        if all(_enough(demand, members) for demand in demands):
            return chosen
    return None


def _enough(demand: Demand, members: Sequence[int]) -> bool:
    return sum(demand.free[cell] for cell in members) >= demand.count


def _best_of_the_rest(demands: Sequence[Demand], cells: int) -> int:
    """The winner among the results that are not preferred; all cells if nobody has a wish."""
    everything = (1 << cells) - 1
    served = [d for d in demands if sum(d.free) >= d.count]
    if not served:
        return everything
    wanted = max(fewest_cells(demand.count, demand.free) or 0 for demand in served)

    for size in (wanted, *range(wanted - 1, 0, -1), *range(wanted + 1, cells + 1)):
        for chosen, members in cell_sets(cells, size):
            if _reachable(chosen, members, served, cells):
                return chosen
    return everything


def _reachable(chosen: int, members: Sequence[int], demands: Sequence[Demand], cells: int) -> bool:
    """Is this the intersection of one satisfying set of each provider?

    Beyond `chosen`, the cells of the one must be foreign to the other.
    """
    if len(demands) == 1:
        return _enough(demands[0], members)
    first, second = demands
    others = [cell for cell in range(cells) if not chosen >> cell & 1]
    for picked in range(1 << len(others)):
        one = [cell for bit, cell in enumerate(others) if picked >> bit & 1]
        two = [cell for bit, cell in enumerate(others) if not picked >> bit & 1]
        if _enough(first, [*members, *one]) and _enough(second, [*members, *two]):
            return True
    return False
