"""Which devices a member gets: the best linked set, and the best linked rest for those who follow.

Two devices talk fastest over links of their own (NVLink), then over a switch that they share, then
within a NUMA cell, and slowest across cells. So a set is better, in this order, if it

1. comes from fewer link groups,
2. comes from fewer cells,
3. comes from cells where the member's CPUs fit too,
4. comes from fewer switches,
5. leaves fewer devices behind in the link groups, switches and cells that it touches: a device that
   is left over alone serves before a group that is still whole is broken.

Choosing exactly is a search over all sets. Here only sets of cells are searched; within one, link
groups, then cells and switches are taken greedily, the largest whole and the rest by best fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mooring.model.cluster import Gpu

Key = tuple[int, ...]
#: With more cells than this, all sets of them are too many: single cells, pairs and all are tried.
_MOST_CELLS = 6


def choose(
    free: Sequence[Gpu], count: int, free_cpus: Mapping[int, int], whole_cpus: int
) -> tuple[Gpu, ...]:
    """`count` of the `free` devices. `free_cpus` counts the free CPUs of each cell."""
    if count > len(free):
        raise ValueError(f"{count} devices wanted, {len(free)} free")
    if not count:
        return ()
    groups, switches = _grouped(free, _group), _grouped(free, _switch)
    cells = _grouped(free, _cell)

    def worth(chosen: Sequence[Gpu]) -> tuple[object, ...]:
        near = {gpu.cell for gpu in chosen}
        return (
            len({gpu.link_group for gpu in chosen}),
            len(near),
            sum(free_cpus.get(cell, 0) for cell in near) < whole_cpus,
            len({_switch(gpu) for gpu in chosen}),
            _left(groups, chosen, _group),
            _left(switches, chosen, _switch),
            _left(cells, chosen, _cell),
            sorted(gpu.index for gpu in chosen),
        )

    best: list[Gpu] = []
    for near in _sets_of(sorted(cells)):
        if best and len(near) > 1 and len({gpu.link_group for gpu in best}) == 1:
            break  # more cells cannot make it better
        here = [gpu for cell in near for gpu in cells[cell]]
        if len(here) >= count:
            found = min(_taken(here, count), key=worth)
            best = min(best, found, key=worth) if best else found
    return tuple(sorted(best, key=lambda gpu: gpu.index))


def links(gpus: Sequence[Gpu]) -> tuple[int, int]:
    """How many link groups and how many switches these come from."""
    return len({gpu.link_group for gpu in gpus}), len({_switch(gpu) for gpu in gpus})


def _group(gpu: Gpu) -> Key:
    return (gpu.link_group,)


def _switch(gpu: Gpu) -> Key:
    """Where no switch is known, all of a cell count as one."""
    return (gpu.cell, gpu.switch)


def _cell(gpu: Gpu) -> Key:
    return (gpu.cell,)


_LEVELS: tuple[Callable[[Gpu], Key], ...] = (_group, _cell, _switch)


def _sets_of(cells: Sequence[Key]) -> Iterator[tuple[Key, ...]]:
    """Sets of cells, small ones first."""
    sizes: Iterable[int] = range(1, len(cells) + 1)
    if len(cells) > _MOST_CELLS:
        sizes = (1, 2, len(cells))
    for size in sizes:
        yield from itertools.combinations(cells, size)


def _taken(free: Sequence[Gpu], count: int, level: int = 0) -> Iterator[list[Gpu]]:
    """Candidates: as few link groups as possible, then cells, then switches, each time ended in
    each of those that can end it."""
    if level == len(_LEVELS):
        yield list(free[:count])
        return
    taken, left = _largest_whole(_grouped(free, _LEVELS[level]), count)
    missing = count - len(taken)
    if not missing:
        yield taken
        return
    for gpus in left.values():
        if len(gpus) >= missing:
            for rest in _taken(gpus, missing, level + 1):
                yield taken + rest


def _largest_whole(
    groups: dict[Key, list[Gpu]], count: int
) -> tuple[list[Gpu], dict[Key, list[Gpu]]]:
    """The largest ones, until what is missing fits into one of the others."""
    taken: list[Gpu] = []
    left = dict(groups)
    while count > len(taken) and max(map(len, left.values())) < count - len(taken):
        key = max(left, key=lambda key: (len(left[key]), [-part for part in key]))
        taken += left.pop(key)
    return taken, left


def _left(groups: Mapping[Key, list[Gpu]], chosen: Sequence[Gpu], of: Callable[[Gpu], Key]) -> int:
    """How many are left behind where something was taken."""
    return sum(len(groups[key]) for key in {of(gpu) for gpu in chosen}) - len(chosen)


def _grouped(gpus: Iterable[Gpu], of: Callable[[Gpu], Key]) -> dict[Key, list[Gpu]]:
    found: dict[Key, list[Gpu]] = {}
    for gpu in sorted(gpus, key=lambda gpu: gpu.index):
        found.setdefault(of(gpu), []).append(gpu)
    return found
