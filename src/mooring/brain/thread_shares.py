"""How many threads each member may use of the CPUs that it shares with others.

Numeric libraries start one thread for each CPU that they see. Members that share CPUs see the same
ones: with a thread for each of them in every member, most threads wait, and those that run wait for
them at the end of every operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Sharer:
    """A member on a machine: the CPUs that it may run on, and what it asked for (0: nothing).

    `computes` is false for a member that only starts or leads others.
    """

    cpus: frozenset[int]
    cpu_millis: int = 0
    processes: int = 1
    exclusive: bool = False
    computes: bool = True


def threads_of(sharers: Sequence[Sharer]) -> list[int]:
    """Threads for each process of each member, in the order given.

    A member that asked for CPUs counts on those; the others divide equally what is left of the CPUs
    that they may use. Fractions are rounded up as long as all threads together are no more than the
    CPUs, and down otherwise; nobody gets less than one thread.

    >>> both = frozenset({0, 1})
    >>> threads_of([Sharer(both), Sharer(both)])
    [1, 1]
    >>> threads_of([Sharer(frozenset(range(8)), cpu_millis=2000), Sharer(frozenset(range(8)))])
    [2, 6]
    """
    cpus = _shares(sharers)
    threads = [0] * len(sharers)
    for group in _overlapping(sharers):
        computing = [place for place in group if sharers[place].computes]
        available = len(frozenset().union(*(sharers[place].cpus for place in group)))
        rounded_up = {place: max(1, -(-cpus[place] // sharers[place].processes)) for place in group}
        fits = sum(rounded_up[place] * sharers[place].processes for place in computing) <= available
        for place in group:
            rounded_down = max(1, cpus[place] // sharers[place].processes)
            threads[place] = rounded_up[place] if fits else rounded_down
    return threads


def _shares(sharers: Sequence[Sharer]) -> list[Fraction]:
    """CPUs that each may count on."""
    taken: dict[int, Fraction] = {}
    waiting: Counter[int] = Counter()
    for sharer in sharers:
        if sharer.exclusive:
            taken.update(dict.fromkeys(sharer.cpus, Fraction(1)))
        elif sharer.cpu_millis:
            each = Fraction(sharer.cpu_millis, 1000 * max(1, len(sharer.cpus)))
            for cpu in sharer.cpus:
                taken[cpu] = taken.get(cpu, Fraction(0)) + each
        elif sharer.computes:
            waiting.update(sharer.cpus)
    shares = []
    for sharer in sharers:
        if sharer.exclusive:
            shares.append(Fraction(len(sharer.cpus)))
        elif sharer.cpu_millis:
            shares.append(min(Fraction(sharer.cpu_millis, 1000), Fraction(len(sharer.cpus))))
        else:
            parts = (
                max(Fraction(0), 1 - taken.get(cpu, Fraction(0))) / max(1, waiting[cpu])
                for cpu in sharer.cpus
            )
            shares.append(sum(parts, Fraction(0)))
    return shares


def _overlapping(sharers: Sequence[Sharer]) -> list[list[int]]:
    """Places of those who share CPUs with each other, directly or through others."""
    groups: list[tuple[set[int], list[int]]] = []
    for place, sharer in enumerate(sharers):
        cpus, places = set(sharer.cpus), [place]
        apart = []
        for group in groups:
            if group[0] & cpus:
                cpus |= group[0]
                places = group[1] + places
            else:
                apart.append(group)
        groups = [*apart, (cpus, places)]
    return [sorted(places) for _, places in groups]
