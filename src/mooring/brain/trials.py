"""The orders and confinements under which the planner tries to place a gang.

Placing one member after the other can paint itself into a corner. So a few orders are tried
(what others depend on, then what has the fewest nodes to go to, then what is big), and for rules
about whole sets of nodes the sets are fixed beforehand: which nodes belong to the servers, which
may hold what must be together. All in a fixed sequence, so the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mooring.brain.board import Board
from mooring.brain.layout import ALL, Amounts, Mask
from mooring.brain.want import Kinds, Want
from mooring.model.member import Relation, Rule

#: How many sizes of a node set are tried at most; more hardly ever help and each costs a pass.
_MOST_SIZES = 8


@dataclass(frozen=True, eq=False)
class RoleZone:
    """Roles confined to some of the nodes, and the reason that the other nodes give."""

    nodes: Mapping[str, Mask] = field(default_factory=lambda: MappingProxyType({}))
    reason: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, eq=False)
class Trial:
    order: tuple[int, ...]
    zone: RoleZone


def trials(board: Board, kinds: Kinds) -> Iterator[Trial]:
    """Orders are of positions in the gang."""
    ways = _orders(board, kinds)
    for zone in _zones(board, kinds):
        for order in ways:
            yield Trial(order, zone)


def hardest_first(board: Board, kinds: Kinds) -> tuple[int, ...]:
    return _Orders(board, kinds).hardest_first()


def _orders(board: Board, kinds: Kinds) -> list[tuple[int, ...]]:
    if len(kinds.wants) == 1:
        return [tuple(range(len(kinds)))]
    orders = _Orders(board, kinds)
    found = (orders.servers_first(), orders.hardest_first(), orders.big_first(), orders.as_given())
    return list(dict.fromkeys(found))


class _Orders:
    """Ways to line the members up; all begin with those that others must be together with."""

    def __init__(self, board: Board, kinds: Kinds) -> None:
        self._kinds = kinds
        self._of = np.array(kinds.of, dtype=np.intp)
        self._depth = _depths(board.required + board.preferred)
        self._servers = frozenset(board.gang.server_roles)
        self._bulk = {want: -_size(board, want) for want in kinds.wants}
        self._homes = {want: int(np.count_nonzero(board.can_take(want))) for want in kinds.wants}

    def servers_first(self) -> tuple[int, ...]:
        return self._by(lambda want: (want.role not in self._servers, self._bulk[want]))

    def hardest_first(self) -> tuple[int, ...]:
        """Those with the fewest nodes to go to, then the big ones."""
        return self._by(lambda want: (self._homes[want], self._bulk[want]))

    def big_first(self) -> tuple[int, ...]:
        return self._by(lambda want: (self._bulk[want],))

    def as_given(self) -> tuple[int, ...]:
        return self._by(lambda want: ())

    def _by(self, key: Callable[[Want], tuple[float, ...]]) -> tuple[int, ...]:
        keys = [(self._depth.get(want.role, 0), *key(want)) for want in self._kinds.wants]
        places = {known: place for place, known in enumerate(sorted(set(keys)))}
        ranks = np.array([places[known] for known in keys], dtype=np.intp)[self._of]
        return tuple(np.argsort(ranks, kind="stable").tolist())


def _depths(rules: Sequence[Rule]) -> dict[str, int]:
    """What a `together` rule looks for is placed before what looks for it."""
    depth: dict[str, int] = {}
    together = [rule for rule in rules if rule.relation is Relation.TOGETHER]
    roles = {role for rule in together for role in (*rule.roles, *rule.others)}
    for _ in roles:  # a circle of rules stops here; the plan is checked anyway
        for rule in together:
            outside = [role for role in rule.others if role not in rule.roles]
            for role in rule.roles:
                # Who is sought by its own rule waits for those outside of it only.
                sought = outside if role in rule.others else rule.others
                floor = max((depth.get(other, 0) for other in sought), default=-1) + 1
                depth[role] = max(depth.get(role, 0), floor)
    return depth


def _size(board: Board, want: Want) -> float:
    """The largest part of the largest node that it takes."""
    layout = board.layout
    amounts = (
        (want.cpu_millis, layout.cpu_millis),
        (want.memory_bytes, layout.memory_bytes),
        *(
            (asked, layout.extended[name])
            for name, asked in want.asked.extended
            if name in layout.extended
        ),
        (want.asked.gpu_millis, 1000 * layout.gpus),
    )
    return max(_part(asked, int(has.max(initial=0))) for asked, has in amounts)


def _part(asked: int, most: int) -> float:
    return asked / most if most else float(asked)


def _zones(board: Board, kinds: Kinds) -> Iterator[RoleZone]:
    for roles in _sharing_a_claim(board, kinds):
        rule = Rule(Relation.TOGETHER, roles, roles, required=True)
        yield from _single_nodes(board, kinds, rule)
    for rule in board.required:
        if rule.relation is Relation.APART:
            yield from _splits(board, kinds, rule)
        elif any(role in rule.others for role in rule.roles):
            yield from _single_nodes(board, kinds, rule)
        else:
            yield from _sites(board, kinds, rule)
    yield RoleZone()


def _sharing_a_claim(board: Board, kinds: Kinds) -> list[tuple[str, ...]]:
    """Roles that must be on one node, all of them, because of what they mount together."""
    catalogue = board.layout.catalogue
    claims: dict[str, list[Want]] = {}
    for want in kinds.wants if catalogue is not None else ():
        for volume in want.volumes:
            if catalogue is not None and catalogue.one_node(volume):
                claims.setdefault(volume.claim, []).append(want)
    groups: list[set[str]] = []
    for wants in claims.values():
        roles = {want.role for want in wants}
        if _sum(kinds.counts_in(tuple(roles))) < 2:
            continue
        for other in [group for group in groups if group & roles]:
            groups.remove(other)
            roles |= other
        groups.append(roles)
    return [tuple(sorted(group)) for group in groups]


def _splits(board: Board, kinds: Kinds, rule: Rule) -> Iterator[RoleZone]:
    """Nodes for `roles` and nodes for `others`: the split with the least busy node first."""
    ones, others = kinds.counts_in(rule.roles), kinds.counts_in(rule.others)
    count, other_count = _sum(ones), _sum(others)
    total = len(board.layout)
    if not ones or not others or total < 2 or set(rule.roles) & set(rule.others):
        return
    serving = set(rule.roles) <= set(board.gang.server_roles)
    room_for_ones = _holds(board, ones)
    room_for_others = _holds(board, others)
    usable = np.flatnonzero(room_for_ones)
    sizes = sorted(
        range(1, min(count, len(usable), total - 1) + 1),
        key=lambda k: (_busiest(count, k, other_count, total - k, serving), -k),
    )
    mine, theirs = room_for_ones[usable], room_for_others[usable]
    # Give `roles` the nodes that `others` could use least; failing that, those it fits best.
    rankings = (usable[np.lexsort((-mine, theirs))], usable[np.lexsort((theirs, -mine))])
    reasons = {role: f"kept for {'/'.join(rule.others)}" for role in rule.roles} | {
        role: f"kept for {'/'.join(rule.roles)}" for role in rule.others
    }
    alike = np.array_equal(*rankings)
    for k in sizes[:_MOST_SIZES]:
        for ranking in rankings[:1] if alike else rankings:
            kept = _mask(board, ranking[:k])
            yield RoleZone(
                dict.fromkeys(rule.roles, kept) | dict.fromkeys(rule.others, ~kept), reasons
            )


def _busiest(ones: int, nodes: int, others: int, other_nodes: int, serving: bool) -> float:
    """The load of the busiest node, in members.

    A server's load is its part of what all others exchange with the servers together: two
    servers on one node, of four for eight workers, carry as much as four workers do.
    """
    crowd = -(-ones // nodes)
    load = crowd * others / ones if serving else crowd
    return max(load, -(-others // other_nodes))


def _sites(board: Board, kinds: Kinds, rule: Rule) -> Iterator[RoleZone]:
    """Nodes for `others`, chosen where `roles` have most room beside them: the most first."""
    seekers, sought = kinds.counts_in(rule.roles), kinds.counts_in(rule.others)
    if not seekers or not sought:
        return
    usable = np.flatnonzero(_holds(board, sought))
    ranking = usable[np.argsort(-_holds(board, seekers)[usable], kind="stable")]
    most = min(_sum(sought), len(usable))
    step = max(1, most // _MOST_SIZES)
    reason = f"left out to keep {'/'.join(rule.roles)} beside {'/'.join(rule.others)}"
    for k in range(most, 0, -step):
        yield RoleZone(
            dict.fromkeys(rule.others, _mask(board, ranking[:k])),
            dict.fromkeys(rule.others, reason),
        )


def _single_nodes(board: Board, kinds: Kinds, rule: Rule) -> Iterator[RoleZone]:
    """One node for all of the roles that must be together with themselves: the roomiest first."""
    both = [role for role in rule.roles if role in rule.others]
    usable = np.flatnonzero(_holds(board, kinds.counts_in(both)))
    # Others may have to follow them there.
    held = _holds(board, kinds.counts_in(rule.roles))
    ranking = usable[np.argsort(-held[usable], kind="stable")]
    reason = f"must be together with {'/'.join(both)}"
    for index in ranking[:_MOST_SIZES]:
        yield RoleZone(dict.fromkeys(both, _mask(board, index)), dict.fromkeys(both, reason))


def cannot_fit(board: Board, kinds: Kinds) -> bool:
    """Do sums alone show that not all of these fit, whatever the order?"""
    groups = list(zip(kinds.wants, kinds.sizes, strict=True))
    if any(int(_holds(board, [group]).sum()) < group[1] for group in groups):
        return True
    free = board.free
    return (
        sum(want.cpu_millis * size for want, size in groups) > _total(free.cpu_millis)
        or sum(want.memory_bytes * size for want, size in groups) > _total(free.memory_bytes)
        or any(
            sum(want.asked.count(name) * size for want, size in groups)
            > _total(board.extended(name))
            for name in {name for want, _ in groups for name, _ in want.asked.extended}
        )
        or sum(want.asked.gpu_millis * size for want, size in groups)
        > _total(board.gpu_millis(ALL))
    )


def fewest_nodes(board: Board, kinds: Kinds) -> int:
    """No plan for the whole gang uses fewer nodes than this."""
    groups = list(zip(kinds.wants, kinds.sizes, strict=True))
    free = board.free
    needs = (
        (sum(want.cpu_millis * size for want, size in groups), free.cpu_millis),
        (sum(want.memory_bytes * size for want, size in groups), free.memory_bytes),
        (sum(want.asked.gpu_millis * size for want, size in groups), board.gpu_millis(ALL)),
        *((size, _holds(board, [(want, size)])) for want, size in groups),
    )
    return max(_largest_first(needed, has) for needed, has in needs)


def _largest_first(needed: int, has: Amounts) -> int:
    """How many of these, the largest first, make up what is needed."""
    if not needed:
        return 1
    # Sums of amounts near the largest that a quantity may have do not fit into 64 bits.
    sums = np.cumsum(-np.sort(-np.maximum(has, 0).astype(np.float64)))
    return int(np.searchsorted(sums * (1 + 1e-9), float(needed))) + 1


def _holds(board: Board, groups: Sequence[tuple[Want, int]]) -> Amounts:
    """How many of these each node could take, were each kind there on its own."""
    held = np.zeros(len(board.layout), dtype=np.int64)
    for want, count in groups:
        held += np.minimum(board.fits(want, ALL), count) * board.can_take(want, for_good=True)
    return held


def _sum(groups: Sequence[tuple[Want, int]]) -> int:
    return sum(count for _, count in groups)


def _mask(board: Board, indexes: NDArray[np.intp] | np.intp) -> Mask:
    mask = np.zeros(len(board.layout), dtype=bool)
    mask[indexes] = True
    return mask


def _total(amounts: Amounts) -> int:
    """An exact sum; amounts near the largest that a quantity may have would overflow."""
    positive = np.maximum(amounts, 0)
    return (int((positive >> 32).sum()) << 32) + int((positive & 0xFFFFFFFF).sum())
