"""Several gangs on one small cluster at once: which node takes how many of each kind.

Gangs that are placed one after the other each look good and leave gaps that nobody fits into. Here
the members of all of them are put in by size, each where it leaves least; who finds no place
pushes out others that find another one, over a few steps; who still finds none goes first next
time. That finds nearly all packings there are on clusters of some tens of nodes, and proves
nothing where it finds none. Work is bounded by counted steps: the same input gives the same answer.

Preferences do not count here, and members whose places depend on each other are not packed at all.
What a kubelet would do is followed: on each node the gangs come in the order in which they are
given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import ClusterLayout, Free
from mooring.brain.pool import REJECTED
from mooring.brain.presets import recipe_for
from mooring.brain.profile import Profile
from mooring.brain.want import Kinds, Want, kinds_of
from mooring.model.member import Gang

MOST_NODES = 64
MOST_MEMBERS = 1_000
#: Who is pushed out may push out others, so often.
_LONGEST_CHAIN = 3
#: Of one kind, from one node, for one other member.
_MOST_PUSHED = 2

#: By position in a gang, the node.
Seats = Mapping[int, int]


@dataclass
class SearchBudget:
    """Steps that a search may still make. One asks one node whether it could take one member: a
    few microseconds, or some tens where a kubelet has to be followed."""

    left: int


@dataclass(frozen=True)
class _Kind:
    """Members of one gang that are alike. `homes` are the nodes that could take one now."""

    number: int
    want: Want
    count: int
    homes: tuple[int, ...]
    size: float


def packable(gangs: Sequence[Gang], layout: ClusterLayout, profile: Profile) -> bool:
    """Is this few enough, and are the places of the members independent of each other?"""
    if not 0 < len(layout) <= MOST_NODES or sum(len(g.members) for g in gangs) > MOST_MEMBERS:
        return False
    return not any(
        recipe_for(gang, profile).required
        # Which card has what left is not followed here.
        or any(member.resources.gpu_share_millis for member in gang.members)
        or gang.spreads
        or any(port for member in gang.members for port in member.ports.values())
        or any(member.volumes or member.resources.extended for member in gang.members)
        for gang in gangs
    )


def pack(
    gangs: Sequence[Gang], layout: ClusterLayout, free: Free, profile: Profile, budget: SearchBudget
) -> list[tuple[Kinds, Seats]] | None:
    """For each gang its kinds and the node of each position; None if none was found."""
    kinds: list[_Kind] = []
    all_kinds: list[Kinds] = []
    for gang in gangs:
        mine = kinds_of(gang)
        board = Board(gang, recipe_for(gang, profile), layout, free, mine.roles)
        all_kinds.append(mine)
        for want, count in zip(mine.wants, mine.sizes, strict=True):
            homes = tuple(np.flatnonzero(board.can_take(want)).tolist())
            if not homes:
                return None
            kinds.append(_Kind(len(kinds), want, count, homes, _size(want, free)))
    if budget.left <= 0 or _too_many(kinds, free):
        return None
    found = _Search(layout, free, kinds, budget).run()
    return None if found is None else _seats(all_kinds, found)


def _size(want: Want, free: Free) -> float:
    """The largest part of the fullest free node that it takes of anything."""
    pairs = (
        (want.gpus, free.gpus),
        (want.cpu_millis, free.cpu_millis),
        (want.memory_bytes, free.memory_bytes),
    )
    return max(asked / max(1, int(has.max())) for asked, has in pairs)


def _too_many(kinds: Sequence[_Kind], free: Free) -> bool:
    """Do the amounts alone show that there is no packing?

    Members that take at least so much of one thing: no node holds more of them than would fit if
    each took exactly that, and all nodes together no more than there is.
    """
    wants = [(kind.want, kind.count) for kind in kinds]
    for has, asked in (
        (free.cpu_millis, [(want.cpu_millis, count) for want, count in wants]),
        (free.memory_bytes, [(want.memory_bytes, count) for want, count in wants]),
        (free.gpus, [(want.gpus, count) for want, count in wants]),
    ):
        amounts = [max(0, amount) for amount in has.tolist()]
        if sum(amount * count for amount, count in asked) > sum(amounts):
            return True
        for least in {amount for amount, _ in asked if amount}:
            members = sum(count for amount, count in asked if amount >= least)
            if members > sum(amount // least for amount in amounts):
                return True
    return False


def _seats(all_kinds: Sequence[Kinds], found: list[Counter[int]]) -> list[tuple[Kinds, Seats]]:
    answers: list[tuple[Kinds, Seats]] = []
    first = 0
    for kinds in all_kinds:
        nodes = [iter(sorted(found[first + k].elements())) for k in range(len(kinds.wants))]
        answers.append((kinds, {at: next(nodes[kind]) for at, kind in enumerate(kinds.of)}))
        first += len(kinds.wants)
    return answers


class _Search:
    def __init__(
        self, layout: ClusterLayout, free: Free, kinds: Sequence[_Kind], budget: SearchBudget
    ) -> None:
        self.pool = layout.pool
        self.kinds = kinds
        self.budget = budget
        self.nodes = range(len(layout))
        self.cpu = free.cpu_millis.tolist()
        self.memory = free.memory_bytes.tolist()
        self.gpus = free.gpus.tolist()
        self.shared = free.shared_millis.tolist()
        self.sharers = free.sharers.tolist()
        self.state = free.state.tolist()
        self.free_cpus = layout.pool.free_cpus[free.state].tolist()
        self.strict = [node.kubelet is not None for node in layout.nodes]
        self.most = tuple(
            max(1, int(has.max())) for has in (free.cpu_millis, free.memory_bytes, free.gpus)
        )
        #: By kind, how many on which node; by node the same.
        self.where: list[Counter[int]] = [Counter() for _ in kinds]
        self.there: list[Counter[int]] = [Counter() for _ in self.nodes]
        self.admitted: dict[tuple[int, tuple[tuple[int, int], ...]], bool] = {}
        self.journal: list[tuple[int, int, int]] = []

    def run(self) -> list[Counter[int]] | None:
        for chain in range(1, _LONGEST_CHAIN + 1):
            order = sorted(self.kinds, key=lambda kind: (-kind.size, kind.number))
            seen: set[tuple[int, ...]] = set()
            while (now := tuple(kind.number for kind in order)) not in seen:
                seen.add(now)
                stuck = self._fill(order, chain)
                if stuck is None:
                    return self.where
                if self.budget.left <= 0:
                    return None
                self._undo(0)
                order = [stuck, *(kind for kind in order if kind is not stuck)]
        return None

    def _fill(self, order: Sequence[_Kind], chain: int) -> _Kind | None:
        """The first kind that has no place for all."""
        for kind in order:
            left = kind.count
            rest = {node: self._rest(node, kind) for node in kind.homes if self._fits(node, kind)}
            while left and rest:
                node = min(rest, key=lambda node: (rest[node], node))
                self._put(node, kind, 1)
                left -= 1
                if self._fits(node, kind):
                    rest[node] = self._rest(node, kind)
                else:
                    del rest[node]
            for _ in range(left):
                if not self._push_in(kind, chain, -1):
                    return kind
        return None

    def _settle(self, kind: _Kind, chain: int, but: int) -> bool:
        """One such member somewhere else than on the node `but`."""
        able = [node for node in kind.homes if node != but and self._fits(node, kind)]
        if able:
            self._put(min(able, key=lambda node: (self._rest(node, kind), node)), kind, 1)
            return True
        return chain > 0 and self._push_in(kind, chain, but)

    def _push_in(self, kind: _Kind, chain: int, but: int) -> bool:
        for node in sorted(kind.homes, key=lambda node: (self._rest(node, kind), node)):
            if node == but:
                continue
            others = sorted(self.there[node], key=lambda k: (self.kinds[k].size, k))
            for number in others:
                if self.budget.left <= 0:
                    return False
                other = self.kinds[number]
                if number != kind.number and self._push_out(node, other, kind, chain):
                    return True
        return False

    def _push_out(self, node: int, other: _Kind, kind: _Kind, chain: int) -> bool:
        """Members of `other` leave the node for one of `kind` and settle elsewhere."""
        mark = len(self.journal)
        for pushed in range(1, min(_MOST_PUSHED, self.there[node][other.number]) + 1):
            self._put(node, other, -1)
            if self._fits(node, kind):
                self._put(node, kind, 1)
                if all(self._settle(other, chain - 1, node) for _ in range(pushed)):
                    return True
                break
        self._undo(mark)
        return False

    def _put(self, node: int, kind: _Kind, count: int) -> None:
        self.journal.append((node, kind.number, count))
        self._count(node, kind, count)

    def _undo(self, mark: int) -> None:
        while len(self.journal) > mark:
            node, number, count = self.journal.pop()
            self._count(node, self.kinds[number], -count)

    def _count(self, node: int, kind: _Kind, count: int) -> None:
        want = kind.want
        self.cpu[node] -= count * want.cpu_millis
        self.memory[node] -= count * want.memory_bytes
        self.gpus[node] -= count * want.gpus
        if want.exclusive:
            self.free_cpus[node] -= count * want.whole_cpus
        else:
            self.shared[node] += count * want.cpu_millis
            self.sharers[node] += count
        for counter, key in ((self.where[kind.number], node), (self.there[node], kind.number)):
            counter[key] += count
            if not counter[key]:
                del counter[key]

    def _rest(self, node: int, kind: _Kind) -> float:
        """What would be left, squared and summed over what nodes have."""
        want, most = kind.want, self.most
        rest: float = (
            ((self.cpu[node] - want.cpu_millis) / most[0]) ** 2
            + ((self.memory[node] - want.memory_bytes) / most[1]) ** 2
            + ((self.gpus[node] - want.gpus) / most[2]) ** 2
        )
        return rest

    def _fits(self, node: int, kind: _Kind) -> bool:
        """As the filters `resources`, `numa` and `kubelet` see it."""
        self.budget.left -= 1
        want = kind.want
        if (
            want.cpu_millis > self.cpu[node]
            or want.memory_bytes > self.memory[node]
            or want.gpus > self.gpus[node]
        ):
            return False
        shared = self.shared[node] + (0 if want.exclusive else want.cpu_millis)
        sharers = self.sharers[node] + (not want.exclusive)
        left = self.free_cpus[node] - want.whole_cpus
        if left < max(-(-shared // 1000), 1 if sharers else 0):
            return False
        return not self.strict[node] or not want.cuts or self._admits(node, kind)

    def _admits(self, node: int, kind: _Kind) -> bool:
        """Would the kubelet take in all of these, one after the other?"""
        here = self.there[node].copy()
        here[kind.number] += 1
        cutting = tuple(sorted((k, n) for k, n in here.items() if self.kinds[k].want.cuts))
        key = (self.state[node], cutting)
        known = self.admitted.get(key)
        if known is None:
            known = self.admitted[key] = self._follow(*key)
        return known

    def _follow(self, state: int, cutting: tuple[tuple[int, int], ...]) -> bool:
        for number, count in cutting:
            want = self.kinds[number].want
            for _ in range(count):
                if int(self.pool.cells(np.array([state]), want)[0]) == REJECTED:
                    return False
                state = self.pool.successors(want)(state)
        return True
