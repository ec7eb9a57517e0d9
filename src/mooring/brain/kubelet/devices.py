"""Which devices a container gets: those of its cells first, then those linked to each other.

The kubelet keeps to the cells that the topology manager chose and leaves the choice among them
to the device plugin; plugins of linked devices choose a linked group. Where the kubelet's own
choice has no fixed order, the lowest numbers are taken here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from mooring.model.cluster import Gpu


def choose(free: Sequence[Gpu], count: int, near: Collection[int] | None) -> tuple[Gpu, ...] | None:
    """`count` of the `free` devices, those of the cells `near` first; None = too few."""
    if count > len(free):
        return None
    aligned = [gpu for gpu in free if near is None or gpu.cell in near]
    if count <= len(aligned):
        return tuple(_linked(aligned, count))
    others = [gpu for gpu in free if gpu not in aligned]
    return (*aligned, *_linked(others, count - len(aligned)))


_LEVELS: tuple[Callable[[Gpu], tuple[int, ...]], ...] = (
    lambda gpu: (gpu.link_group,),
    lambda gpu: (gpu.link_group, gpu.cell, gpu.switch),
)


def _linked(free: Sequence[Gpu], count: int, level: int = 0) -> list[Gpu]:
    """From one link group if possible, and there from one switch: the fullest that fits."""
    if level == len(_LEVELS):
        return sorted(free, key=lambda gpu: gpu.index)[:count]
    groups: dict[tuple[int, ...], list[Gpu]] = {}
    for gpu in free:
        groups.setdefault(_LEVELS[level](gpu), []).append(gpu)
    taken: list[Gpu] = []
    while len(taken) < count:
        missing = count - len(taken)
        fitting = [key for key, gpus in groups.items() if len(gpus) >= missing]
        if fitting:
            key = min(fitting, key=lambda key: (len(groups[key]), key))
            return taken + _linked(groups[key], missing, level + 1)
        key = max(groups, key=lambda key: (len(groups[key]), [-part for part in key]))
        taken += groups.pop(key)
    return taken
