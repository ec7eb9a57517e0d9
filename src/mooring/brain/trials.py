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

from mooring.brain.board import Board
from mooring.brain.want import Want
from mooring.model.member import Relation, Rule

#: How many sizes of a node set are tried at most; more hardly ever help and each costs a pass.
_MOST_SIZES = 8


@dataclass(frozen=True)
class Zone:
    """Roles confined to nodes (by index), and the reason that the other nodes give."""

    nodes: Mapping[str, frozenset[int]] = field(default_factory=lambda: MappingProxyType({}))
    reason: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def refuses(self, role: str, index: int) -> str:
        allowed = self.nodes.get(role)
        return "" if allowed is None or index in allowed else self.reason[role]


@dataclass(frozen=True)
class Trial:
    order: tuple[int, ...]
    zone: Zone


def trials(board: Board, wants: Sequence[Want]) -> Iterator[Trial]:
    """`wants[i]` belongs to the i-th member of the gang; orders are of these positions."""
    ways = _orders(board, wants)
    for zone in _zones(board, wants):
        for order in ways:
            yield Trial(order, zone)


def hardest_first(board: Board, wants: Sequence[Want]) -> tuple[int, ...]:
    return _Orders(board, wants).hardest_first()


def _orders(board: Board, wants: Sequence[Want]) -> list[tuple[int, ...]]:
    orders = _Orders(board, wants)
    found = (orders.servers_first(), orders.hardest_first(), orders.big_first(), orders.as_given())
    return list(dict.fromkeys(found))


class _Orders:
    """Ways to line the members up; all begin with those that others must be together with."""

    def __init__(self, board: Board, wants: Sequence[Want]) -> None:
        self._wants = wants
        self._depth = _depths(board.required + board.preferred)
        self._servers = frozenset(board.gang.server_roles)
        self._bulk = {want: -_size(board, want) for want in set(wants)}
        self._homes = {
            want: sum(not answer.verdict.refused for answer in board.ask(want))
            for want in set(wants)
        }

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
        def rank(position: int) -> tuple[float, ...]:
            want = self._wants[position]
            return (self._depth.get(want.role, 0), *key(want), position)

        return tuple(sorted(range(len(self._wants)), key=rank))


def _depths(rules: Sequence[Rule]) -> dict[str, int]:
    """What a `together` rule looks for is placed before what looks for it."""
    depth: dict[str, int] = {}
    together = [rule for rule in rules if rule.relation is Relation.TOGETHER]
    for _ in range(len(together)):  # a circle of rules stops here; the plan is checked anyway
        for rule in together:
            others = [role for role in rule.others if role not in rule.roles]
            floor = max((depth.get(role, 0) for role in others), default=-1) + 1
            for role in rule.roles:
                depth[role] = max(depth.get(role, 0), floor)
    return depth


def _size(board: Board, want: Want) -> float:
    """The largest part of the largest node that it takes."""
    nodes = [room.node for room in board.rooms]
    amounts = (
        (want.cpu_millis, max((node.cpu_millis for node in nodes), default=0)),
        (want.memory_bytes, max((node.memory_bytes for node in nodes), default=0)),
        (want.gpus, max((len(node.gpus) for node in nodes), default=0)),
    )
    return max(asked / most if most else float(asked) for asked, most in amounts)


def _zones(board: Board, wants: Sequence[Want]) -> list[Zone]:
    zones: list[Zone] = []
    for rule in board.required:
        if rule.relation is Relation.APART:
            zones += _splits(board, wants, rule)
        elif any(role in rule.others for role in rule.roles):
            zones += _single_nodes(board, wants, rule)
        else:
            zones += _sites(board, wants, rule)
    return [*zones, Zone()]


def _splits(board: Board, wants: Sequence[Want], rule: Rule) -> list[Zone]:
    """Nodes for `roles` and nodes for `others`: the split with the least busy node first."""
    ones = [want for want in wants if want.role in rule.roles]
    others = [want for want in wants if want.role in rule.others]
    total = len(board.rooms)
    if not ones or not others or total < 2 or set(rule.roles) & set(rule.others):
        return []
    serving = set(rule.roles) <= set(board.gang.server_roles)
    room_for_ones = _holds(board, ones)
    room_for_others = _holds(board, others)
    usable = [index for index in range(total) if room_for_ones[index]]
    sizes = sorted(
        range(1, min(len(ones), len(usable), total - 1) + 1),
        key=lambda k: (_busiest(len(ones), k, len(others), total - k, serving), -k),
    )
    # Give `roles` the nodes that `others` could use least; failing that, those it fits best.
    rankings = dict.fromkeys(
        (
            tuple(sorted(usable, key=lambda i: (room_for_others[i], -room_for_ones[i], i))),
            tuple(sorted(usable, key=lambda i: (-room_for_ones[i], room_for_others[i], i))),
        )
    )
    zones = []
    for k in sizes[:_MOST_SIZES]:
        for ranking in rankings:
            mine = frozenset(ranking[:k])
            theirs = frozenset(range(total)) - mine
            zones.append(
                Zone(
                    dict.fromkeys(rule.roles, mine) | dict.fromkeys(rule.others, theirs),
                    {role: f"kept for {'/'.join(rule.others)}" for role in rule.roles}
                    | {role: f"kept for {'/'.join(rule.roles)}" for role in rule.others},
                )
            )
    return zones


def _busiest(ones: int, nodes: int, others: int, other_nodes: int, serving: bool) -> float:
    """The load of the busiest node, in members.

    A server's load is its part of what all others exchange with the servers together: two
    servers on one node, of four for eight workers, carry as much as four workers do.
    """
    crowd = -(-ones // nodes)
    load = crowd * others / ones if serving else crowd
    return max(load, -(-others // other_nodes))


def _sites(board: Board, wants: Sequence[Want], rule: Rule) -> list[Zone]:
    """Nodes for `others`, chosen where `roles` have most room beside them: the most first."""
    seekers = [want for want in wants if want.role in rule.roles]
    sought = [want for want in wants if want.role in rule.others]
    if not seekers or not sought:
        return []
    room_for_sought = _holds(board, sought)
    room_for_seekers = _holds(board, seekers)
    usable = [index for index in range(len(board.rooms)) if room_for_sought[index]]
    ranking = sorted(usable, key=lambda i: (-room_for_seekers[i], i))
    most = min(len(sought), len(usable))
    step = max(1, most // _MOST_SIZES)
    reason = f"left out to keep {'/'.join(rule.roles)} beside {'/'.join(rule.others)}"
    return [
        Zone(
            {role: frozenset(ranking[:k]) for role in rule.others},
            dict.fromkeys(rule.others, reason),
        )
        for k in range(most, 0, -step)
    ]


def _single_nodes(board: Board, wants: Sequence[Want], rule: Rule) -> list[Zone]:
    """One node for all of the roles that must be together with themselves: the roomiest first."""
    both = [role for role in rule.roles if role in rule.others]
    held = _holds(board, [want for want in wants if want.role in both])
    ranking = sorted((i for i in range(len(board.rooms)) if held[i]), key=lambda i: (-held[i], i))
    reason = f"must be together with {'/'.join(both)}"
    return [
        Zone({role: frozenset({index}) for role in both}, dict.fromkeys(both, reason))
        for index in ranking[:_MOST_SIZES]
    ]


def cannot_fit(board: Board, wants: Sequence[Want]) -> bool:
    """Do sums alone show that not all of these fit, whatever the order?"""
    kinds = dict.fromkeys(wants)
    if any(
        sum(_holds(board, [w for w in wants if w == kind])) < wants.count(kind) for kind in kinds
    ):
        return True
    rooms = board.rooms
    return (
        sum(want.cpu_millis for want in wants) > sum(max(0, room.cpu_millis) for room in rooms)
        or sum(want.memory_bytes for want in wants)
        > sum(max(0, room.memory_bytes) for room in rooms)
        or sum(want.gpus for want in wants) > sum(max(0, room.gpu_count) for room in rooms)
    )


def _holds(board: Board, wants: Sequence[Want]) -> list[int]:
    """How many of these each node could take, were each kind there on its own."""
    counts: dict[Want, int] = {}
    for want in wants:
        counts[want] = counts.get(want, 0) + 1
    held = [0] * len(board.rooms)
    for want, count in counts.items():
        for room, answer in zip(board.rooms, board.ask(want), strict=True):
            if not answer.verdict.refused:
                held[room.index] += min(count, room.fits(want))
    return held
