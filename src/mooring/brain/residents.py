"""Who is where, by labels: for rules that look at members of other jobs.

Only members with labels are kept. The inner mappings are never changed in place, so that copies
of a cluster share them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from mooring.brain.pool import Numbers
from mooring.model.labels import Labels

#: Labels -> node -> how many members with exactly these labels are there.
Residents = dict[Labels, Mapping[int, int]]


def settle(residents: Residents, who: Iterable[tuple[Labels, int]], sign: int) -> None:
    """Members with labels come to nodes, or leave them."""
    changes: dict[Labels, Counter[int]] = {}
    for labels, node in who:
        if labels:
            changes.setdefault(labels, Counter())[node] += sign
    for labels, counts in changes.items():
        here = Counter(residents.get(labels, {}))
        here.update(counts)
        left = {node: count for node, count in here.items() if count}
        if left:
            residents[labels] = left
        else:
            residents.pop(labels, None)


def with_labels(residents: Residents, sought: Labels, nodes: int) -> Numbers | None:
    """How many members with all the sought labels each node has; None if nobody has them."""
    wanted = set(sought)
    matching = [here for labels, here in residents.items() if wanted <= set(labels)]
    if not matching:
        return None
    found: Numbers = np.zeros(nodes, dtype=np.int32)
    for here in matching:
        found[list(here)] += list(here.values())
    return found


def on_node(residents: Residents, node: int) -> tuple[tuple[Labels, int], ...]:
    return tuple(
        (labels, residents[labels][node])
        for labels in sorted(residents)
        if node in residents[labels]
    )
