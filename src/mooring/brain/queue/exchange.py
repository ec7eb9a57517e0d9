"""Other sets of equals: which gangs could start in the place of which, so that more of them start.

Gangs of one turn that arrived together, in one pool, have no claim against each other. Of these as
many start as can: some that were to start wait instead, if one more than them can start for it. The
fewest that lose their place come first, then the sets that ask for least, because these most
probably fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice

from mooring.brain.queue.types import Amount, QueuedGang

#: Those that ask for most among the ones that start, and for least among the ones that wait.
_MOST_LOOKED_AT = 12
#: Gangs that wait instead.
_MOST_DROPPED = 2
#: Sets that are proposed, by how many wait instead.
_MOST_PROPOSED = (12, 24, 12)

Proposal = tuple[tuple[QueuedGang, ...], tuple[QueuedGang, ...]]


def proposals(
    starting: Sequence[QueuedGang],
    waiting: Sequence[QueuedGang],
    free: Amount,
    part: Callable[[QueuedGang], float],
) -> Iterator[Proposal]:
    """Who waits instead, and who starts; `free` is what all those that start leave over."""
    large = sorted(starting, key=lambda gang: (-part(gang), gang.job))[:_MOST_LOOKED_AT]
    small = sorted(waiting, key=lambda gang: (part(gang), gang.job))[:_MOST_LOOKED_AT]
    for dropped in range(min(_MOST_DROPPED, len(large)) + 1):
        found: list[tuple[float, int, tuple[QueuedGang, ...], tuple[QueuedGang, ...]]] = []
        outs = [(out, _sum(out)) for out in combinations(large, dropped)]
        for joining in combinations(small, dropped + 1):
            needed = _sum(joining)
            for out, given in outs:
                if all(needed[k] <= free[k] + given[k] for k in range(3)):
                    more = sum(map(part, joining)) - sum(map(part, out))
                    found.append((more, len(found), out, joining))
        for _, _, out, joining in islice(sorted(found), _MOST_PROPOSED[dropped]):
            yield out, joining


def _sum(gangs: Sequence[QueuedGang]) -> Amount:
    asks = [gang.sized(gang.least)[1] for gang in gangs]
    return sum(a[0] for a in asks), sum(a[1] for a in asks), sum(a[2] for a in asks)
