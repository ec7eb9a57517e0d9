"""Which CPUs the kubelet's static CPU manager takes, in the order in which it takes them.

Packed, as by default: whole sockets, whole cells, whole cores, then single threads; each time
from where the fewest CPUs are free, and among equals by number. Whichever of sockets and cells
are fewer is the upper level and goes first (on a tie the cells). L3 caches play no part in it
unless asked to: then whole caches, and one cache that holds all the rest, go before cores.
Source: the kubelet's CPU manager (cpu_assignment.go, policy_static.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mooring.brain.kubelet.layout import Branch, CpuLayout, L3Cache, Leaf, to_bits, to_ids


def allocate(
    layout: CpuLayout, free: int, count: int, near: int | None, by_cache: bool = False
) -> int | None:
    """`count` of the `free` CPUs as a bit set, those in the CPUs `near` first; None = too few.

    `near` None: the topology manager has no wish.
    """
    taken = 0
    if near is not None:
        aligned = free & near
        taken = take(layout, aligned, min(count, aligned.bit_count()), by_cache) or 0
    rest = take(layout, free & ~taken, count - taken.bit_count(), by_cache)
    return None if rest is None else taken | rest


def take(layout: CpuLayout, free: int, count: int, by_cache: bool = False) -> int | None:
    """`count` of the `free` CPUs; None if there are fewer."""
    if count > free.bit_count():
        return None
    left = free
    for upper in (True, False):
        left = _take_groups(layout, left, count - (free & ~left).bit_count(), upper)
    if by_cache:
        left = _take_caches(layout, left, count - (free & ~left).bit_count())
    left = _take_cores(layout, left, count - (free & ~left).bit_count())
    missing = count - (free & ~left).bit_count()
    for leaf in _leaves(layout, left) if missing else ():
        for core in _least_free_first(leaf.cores, left):
            for cpu in to_ids(core & left):
                if missing < 1:
                    return free & ~left
                left &= ~(1 << cpu)
                missing -= 1
    return free & ~left


def _take_groups(layout: CpuLayout, free: int, count: int, upper: bool) -> int:
    """What is left of `free` after taking whole sockets or cells, at most `count` CPUs.

    Cells may differ in size; a socket must have the average size to be taken whole.
    """
    sockets = upper is not layout.cells_first
    if count < (layout.cpus_per_socket if sockets else layout.smallest_cell):
        return free
    if upper:
        groups = _least_free_first([branch.mask for branch in layout.branches], free)
    else:
        groups = [leaf.mask for leaf in _leaves(layout, free)]
    left = free
    for group in groups:
        size = group.bit_count()
        if group & left == group and size <= count:
            if sockets and size != layout.cpus_per_socket:
                continue
            left &= ~group
            count -= size
    return left


def _take_caches(layout: CpuLayout, free: int, count: int) -> int:
    """What is left of `free` after taking whole caches, and then one that has all the rest."""
    left = free
    for cache in _caches(layout, free):
        size = cache.mask.bit_count()
        if cache.mask & left == cache.mask and size <= count:
            left &= ~cache.mask
            count -= size
    if not count:
        return left
    threads = layout.cpus_per_core
    for cache in _caches(layout, left):
        cores = [core for core in cache.cores if core & left][: -(-count // threads)]
        cpus = [cpu for core in cores for cpu in to_ids(core & left)]
        if count % 2 and threads > 1 and len(cpus) > count:
            cpus = sorted(cpus)[:-1]
        if len(cpus) == count:
            return left & ~to_bits(cpus)
    return left


def _caches(layout: CpuLayout, free: int) -> Iterator[L3Cache]:
    """Caches with a free CPU: cell by cell, in each the one with the fewest free CPUs first."""
    if layout.cells_first:
        cells = _least_free_first([branch.mask for branch in layout.branches], free)
    else:
        cells = [leaf.mask for leaf in _leaves(layout, free)]
    for cell in cells:
        found = [cache for cache in layout.caches[cell] if cache.mask & free]
        yield from sorted(found, key=lambda cache: (cache.mask & free).bit_count())


def _take_cores(layout: CpuLayout, free: int, count: int) -> int:
    """What is left of `free` after taking whole cores, at most `count` CPUs."""
    size = layout.cpus_per_core
    left = free
    for leaf in _leaves(layout, free):
        for core in leaf.cores:
            if count < size:
                return left
            if core & left == core and core.bit_count() == size:
                left &= ~core
                count -= size
    return left


def _least_free_first(groups: Sequence[int], free: int) -> list[int]:
    """Groups with a free CPU; the sort is stable and `groups` are in the order of their numbers."""
    return sorted((g for g in groups if g & free), key=lambda group: (group & free).bit_count())


def _leaves(layout: CpuLayout, free: int) -> Iterator[Leaf]:
    """The lower groups, from the upper one with the fewest free CPUs on."""

    def of_branch(branch: Branch) -> int:
        return (branch.mask & free).bit_count()

    def of_leaf(leaf: Leaf) -> int:
        return (leaf.mask & free).bit_count()

    for branch in sorted((b for b in layout.branches if b.mask & free), key=of_branch):
        yield from sorted((leaf for leaf in branch.leaves if leaf.mask & free), key=of_leaf)
