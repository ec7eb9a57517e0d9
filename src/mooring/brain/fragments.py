"""Fragmentation: how much of what is free cannot be used by a request of a certain size.

For a request of k whole cards on one node, of what is free

    usable  = the sum over nodes of the largest multiple of k that its free whole cards make
    could be = the sum over nodes of what is free, at most the largest multiple of k that it has
    stranded = 1 - usable / could be

so a free card is stranded for k if others on its node are in its way, not if the node could never
take such a request; what is left of a shared card is stranded for every k. A cluster without use
strands nothing. The figure is the mean over the sizes that fit on some node at all. Where there are
no cards the same is asked of CPUs, with one size: the whole node.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.brain.shares import WHOLE
from mooring.model.cluster import Node

#: Cards of one request, as training jobs ask for them.
SIZES = (1, 2, 4, 8)


class Fragments:
    """The sums, kept while nodes change one at a time. All amounts are in the same small unit."""

    def __init__(self, has: Sequence[int], blocks: Sequence[Sequence[int]]) -> None:
        """What each node has, and the requests that are asked of it: as many for each node."""
        self._has = list(has)
        self._blocks = [tuple(some) for some in blocks]
        count = len(self._blocks[0]) if self._blocks else 0
        self._known: list[tuple[int, int]] = []
        self._usable = [0] * count
        self._possible = [0] * count
        self._fits = [False] * count
        #: Until something changes.
        self._mean: float | None = None
        for node, most in enumerate(self._has):
            self._known.append((most, most))
            self._add(node, 1)
            for at, block in enumerate(self._blocks[node]):
                self._fits[at] = self._fits[at] or 0 < block <= most

    def change(self, node: int, whole: int, free: int) -> None:
        """Now this much is free there, and of it this much in whole pieces."""
        if self._known[node] == (whole, free):
            return
        self._add(node, -1)
        self._known[node] = (whole, free)
        self._add(node, 1)
        self._mean = None

    def _add(self, node: int, sign: int) -> None:
        whole, free = self._known[node]
        most = self._has[node]
        for at, block in enumerate(self._blocks[node]):
            if 0 < block <= most:
                self._usable[at] += sign * (whole - whole % block)
                self._possible[at] += sign * min(free, most - most % block)

    def stranded(self) -> list[float | None]:
        """For each size, the part that is stranded; None if it fits on no node at all."""
        return [
            (1 - usable / possible if possible else 0.0) if fits else None
            for usable, possible, fits in zip(self._usable, self._possible, self._fits, strict=True)
        ]

    @property
    def mean(self) -> float:
        if self._mean is None:
            known = [part for part in self.stranded() if part is not None]
            self._mean = sum(known) / len(known) if known else 0.0
        return self._mean


def fragments_of(nodes: Sequence[Node]) -> Fragments:
    """Of these nodes, empty: in thousandths of a card, or of a CPU where there are no cards."""
    cards = [WHOLE * sum(gpu.healthy for gpu in node.gpus) for node in nodes]
    if any(cards):
        return Fragments(cards, [tuple(WHOLE * size for size in SIZES)] * len(nodes))
    cpus = [node.cpu_millis for node in nodes]
    return Fragments(cpus, [(millis,) for millis in cpus])
