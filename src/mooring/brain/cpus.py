"""Which CPUs an exclusive member gets.

As few NUMA cells as possible, then as few L3 groups, whole cores before single siblings; among
those that fit, the one with the fewest CPUs left over, so that large holes stay large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from mooring.model.cluster import Cpu

CoreKey = tuple[int, int]

_LEVELS: tuple[Callable[[Cpu], int], ...] = (lambda cpu: cpu.cell, lambda cpu: cpu.l3)


def core_of(cpu: Cpu) -> CoreKey:
    """Linux numbers cores within a socket."""
    return (cpu.socket, cpu.core)


def core_sizes(cpus: Iterable[Cpu]) -> Counter[CoreKey]:
    """How many siblings each core has, free or not."""
    return Counter(core_of(cpu) for cpu in cpus)


def choose(
    free: Sequence[Cpu],
    count: int,
    sizes: Counter[CoreKey],
    near: frozenset[int] = frozenset(),
) -> tuple[Cpu, ...]:
    """`count` of the `free` CPUs, preferably in the cells `near`. There must be enough."""
    if count > len(free):
        raise ValueError(f"{count} CPUs wanted, {len(free)} free")
    return tuple(sorted(_from_groups(free, count, sizes, near, 0), key=lambda cpu: cpu.id))


def _from_groups(
    free: Sequence[Cpu], count: int, sizes: Counter[CoreKey], near: frozenset[int], level: int
) -> list[Cpu]:
    if level == len(_LEVELS):
        return _from_cores(free, count, sizes)
    groups: dict[int, list[Cpu]] = {}
    for cpu in free:
        groups.setdefault(_LEVELS[level](cpu), []).append(cpu)
    preferred = near if level == 0 else frozenset()
    taken: list[Cpu] = []
    while len(taken) < count:
        missing = count - len(taken)
        fitting = [key for key, cpus in groups.items() if len(cpus) >= missing]
        if fitting:
            key = min(
                fitting,
                key=lambda key: (
                    key not in preferred,
                    _broken_cores(groups[key], missing, sizes),
                    len(groups[key]),
                    key,
                ),
            )
            return taken + _from_groups(groups[key], missing, sizes, near, level + 1)
        key = max(groups, key=lambda key: (key in preferred, len(groups[key]), -key))
        taken += groups.pop(key)
    return taken


def _by_core(cpus: Sequence[Cpu]) -> dict[CoreKey, list[Cpu]]:
    cores: dict[CoreKey, list[Cpu]] = {}
    for cpu in sorted(cpus, key=lambda cpu: cpu.id):
        cores.setdefault(core_of(cpu), []).append(cpu)
    return cores


def _broken_cores(cpus: Sequence[Cpu], count: int, sizes: Counter[CoreKey]) -> int:
    """How many of `count` CPUs taken from here would share their core with somebody else."""
    in_whole_cores = 0
    for core, siblings in _by_core(cpus).items():
        size = sizes[core]
        if len(siblings) == size and in_whole_cores + size <= count:
            in_whole_cores += size
    return count - in_whole_cores


def _from_cores(free: Sequence[Cpu], count: int, sizes: Counter[CoreKey]) -> list[Cpu]:
    cores = _by_core(free)
    taken: list[Cpu] = []
    for core in sorted(cores):
        siblings = cores[core]
        if len(siblings) == sizes[core] and len(taken) + len(siblings) <= count:
            taken += cores.pop(core)
    while len(taken) < count:
        missing = count - len(taken)
        # A core that is already broken is used up before a whole one is broken.
        core = min(
            cores,
            key=lambda core: (
                len(cores[core]) == sizes[core],
                len(cores[core]) < missing,
                abs(len(cores[core]) - missing),
                core,
            ),
        )
        taken += cores.pop(core)[:missing]
    return taken
