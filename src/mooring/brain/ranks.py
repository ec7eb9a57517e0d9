"""Ranks that follow the nodes: neighbours in a ring share a node wherever they can.

Members of one kind are interchangeable, so which of their seats each of them gets is free. In an
all-reduce every member sends to the next rank, and ranks are numbered in the order of the gang. So
the seats of a kind are dealt node by node: a node then has one way in and one way out, however the
scores went back and forth between nodes. Nodes behind one switch or in one zone, as their labels
say, follow each other. Names, ranks and the set of seats stay what they were, and nothing depends
on chance: the same input gives the same ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.brain.layout import ClusterLayout
from mooring.model.member import Gang
from mooring.model.traffic import Pattern

#: From the widest to the narrowest; nodes that differ in an earlier one are further apart.
SITE_LABELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "mooring.dev/switch",
)


def is_ring(gang: Gang) -> bool:
    """Does each member talk to the next one? Without servers that is what is assumed."""
    if gang.traffic is not None:
        return gang.traffic.pattern is Pattern.RING
    return not gang.server_roles or not any(role in gang.server_roles for role in gang.roles)


def deal(
    kinds: Sequence[tuple[Sequence[int], Sequence[int]]], layout: ClusterLayout
) -> list[tuple[int, ...]]:
    """Of each kind, its positions in the gang in the order of its seats.

    A kind is (positions, nodes of its seats in the order in which they were chosen); there may be
    more positions than seats, and the last ones then stay without.
    """
    where: dict[int, int] = {}
    for positions, nodes in kinds:
        where.update(zip(positions, nodes, strict=False))
    found: dict[int, tuple[int, ...]] = {}
    for number in sorted(range(len(kinds)), key=lambda number: min(kinds[number][0])):
        positions, nodes = kinds[number]
        seated = sorted(positions[: len(nodes)])
        if not seated:
            found[number] = tuple(positions)
            continue
        order = _order(nodes, layout, where.get(seated[0] - 1), where.get(seated[-1] + 1))
        ranks = {node: rank for rank, node in enumerate(order)}
        turns = sorted(range(len(nodes)), key=lambda turn: ranks[nodes[turn]])
        given = dict(zip(turns, seated, strict=True))
        found[number] = (*(given[turn] for turn in range(len(nodes))), *positions[len(nodes) :])
        where.update((position, nodes[turn]) for turn, position in given.items())
    return [found[number] for number in range(len(kinds))]


def _order(
    nodes: Sequence[int], layout: ClusterLayout, before: int | None, after: int | None
) -> list[int]:
    """The nodes once each, by site: from that of the rank before to that of the rank after."""
    distinct = list(dict.fromkeys(nodes))
    if len(distinct) == 1:
        return distinct
    sites = _sites([*distinct, *(node for node in (before, after) if node is not None)], layout)
    firsts: dict[tuple[str, ...], int] = {}
    for node in distinct:
        for depth in range(len(SITE_LABELS) + 1):
            firsts.setdefault(sites[node][:depth], len(firsts))

    def turn(node: int) -> tuple[tuple[bool, bool, int], ...]:
        def close(other: int | None, depth: int) -> bool:
            return other is not None and sites.get(other, ())[:depth] == sites[node][:depth]

        wide = tuple(
            (not close(before, depth), close(after, depth), firsts[sites[node][:depth]])
            for depth in range(1, len(SITE_LABELS) + 1)
        )
        return (*wide, (node != before, node == after, 0))

    return sorted(distinct, key=turn)


def _sites(nodes: Sequence[int], layout: ClusterLayout) -> Mapping[int, tuple[str, ...]]:
    known = [tuple(labels.get(key, "") for key in SITE_LABELS) for labels in layout.labels]
    return {node: known[layout.label_class.item(node)] for node in nodes}
