"""What a warm cluster remembers between plans: which nodes can take a member, how many, how well.

A node's answer about the first member of a gang depends on what the node is, on what is free
there and on the gang's shape. So an answer once given stays true until something is taken from or
given back to that very node: only such nodes are asked again. Jobs come in a few shapes, and the
most frequent plan, a gang of one kind of member without rules between members, then costs a look
at one array and the gang itself, not a question to every node.

The plans are those of `planner.decide`: the same rules, asked about the same nodes, and the same
walk. Copies of a cluster share what they know and copy it at the first change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from mooring.brain.attempt import attempt
from mooring.brain.board import Board
from mooring.brain.fill import Indexes, best_by
from mooring.brain.layout import ALL, Amounts, ClusterLayout, Free, Rows, Values
from mooring.brain.more_scores import more_scores
from mooring.brain.planner import plan_of
from mooring.brain.presets import Recipe, recipe_for
from mooring.brain.profile import ALWAYS, Profile
from mooring.brain.registry import FILTERS, Scope
from mooring.brain.trials import RoleZone, Trial
from mooring.brain.want import Kinds, Want, kinds_of
from mooring.model.member import Gang, Relation
from mooring.model.plan import Plan

#: For all that is remembered of one cluster.
_MOST_BYTES = 64 << 20
#: Of the nodes: with more that changed all are asked again.
_MOST_CHANGED = 0.5
#: Nodes that are sooner asked one by one than at once.
_FEW = 8

#: Scores of a gang's first member that rest on the member, the gang's shape, and the node itself.
_PLAIN_SCORES = frozenset(
    {
        "affinity",
        "apart",
        "balanced",
        "equal",
        "holds-more",
        "least-requested",
        "links",
        "most-requested",
        "numa",
        "pack",
        "ratio",
        "room",
        "servers",
        "spare-gpus",
        "spread",
        "spread-role",
        "taints",
        "tight",
        "together",
    }
)
#: Rules between members say nothing about a gang that has none.
_BETWEEN_MEMBERS = frozenset(relation.value for relation in Relation)
_SHAPED_BY = tuple(each.name for each in fields(Gang) if each.name not in ("job", "members"))


@dataclass
class _Room:
    """How many members of one kind each node could take, and all together."""

    known_at: int
    owner: object
    counts: Amounts
    total: int


@dataclass
class _Liking:
    """The total of the scores for the first member, by node; -inf where it cannot go."""

    known_at: int
    owner: object
    totals: Values


@dataclass(frozen=True)
class _Plainly:
    """A gang of one kind without rules between its members, as far as rules ask."""

    key: Hashable
    recipe: Recipe
    want: Want


Kept = TypeVar("Kept")


class AnswerCache:
    def __init__(self, layout: ClusterLayout, free: Free, profile: Profile) -> None:
        self._layout = layout
        self._free = free
        self._profile = profile
        self._owner = object()
        #: Nodes in the order of their changes; answers say how far they have followed it.
        self._changed: list[int] = []
        self._forgotten = 0
        self._rooms: dict[Hashable, _Room] = {}
        self._likings: dict[Hashable, _Liking] = {}
        self._recipes: dict[Hashable, Recipe | None] = {}
        filters = tuple(dict.fromkeys((*ALWAYS, *profile.filters)))
        self._unruled = Recipe(filters, (), (), (), profile=profile)
        self._most = max(8, _MOST_BYTES // (16 * max(1, len(layout))))

    def copy(self, free: Free) -> AnswerCache:
        twin = AnswerCache.__new__(AnswerCache)
        twin.__dict__.update(self.__dict__)
        twin._free = free
        # Neither may write into what both know.
        twin._owner, self._owner = object(), object()
        twin._changed = self._changed.copy()
        twin._rooms = self._rooms.copy()
        twin._likings = self._likings.copy()
        return twin

    def moved(self, layout: ClusterLayout) -> None:
        """The same nodes with other numbers for their states, which no answer mentions."""
        self._layout = layout

    def changed(self, index: int) -> None:
        self._changed.append(index)
        if len(self._changed) > 4 * len(self._layout) + 256:
            cut = len(self._changed) // 2
            del self._changed[:cut]
            self._forgotten += cut

    def may_fit(self, gangs: Sequence[Gang]) -> bool:
        """False: surely there is no place for all of them now, whoever goes first."""
        asked: Counter[Want] = Counter()
        for gang in gangs:
            kinds = kinds_of(gang)
            for want, size in zip(kinds.wants, kinds.sizes, strict=True):
                if want.volumes:
                    continue  # a node's answer may change with what is mounted on another one
                asked[want] += size
                if self._room(gang, kinds, want).total < asked[want]:
                    return False
        return True

    def has_room(self, gang: Gang) -> bool | None:
        """Is there a place for it now? None if that takes a plan to tell.

        Members of one kind without rules between them take what each node has room for, and where
        no kubelet has a say that is as many as the amounts allow for.
        """
        kinds = kinds_of(gang)
        want = kinds.wants[0]
        if (self._layout.kubelets is not None and want.cuts) or self._plainly(gang, kinds) is None:
            return None
        return self._room(gang, kinds, want).total >= len(kinds)

    def crowded_out(self, gang: Gang, other: Gang, now: AnswerCache) -> bool:
        """True: surely there is no place for `gang` here once `other` has taken one, whichever it
        takes of those that it has on `now`.

        There is room for some members more than `gang` has. No node may lose more than these, so
        none may take more of `other` than leaves it the rest; if that is too few of them in all,
        `gang` has lost too much.
        """
        kinds, others = kinds_of(gang), kinds_of(other)
        for want, size in zip(kinds.wants, kinds.sizes, strict=True):
            if want.volumes:
                continue
            room = self._room(gang, kinds, want)
            kept = np.maximum(room.counts - (room.total - size), 0)
            for comer, count in zip(others.wants, others.sizes, strict=True):
                if not comer.volumes and count > int(
                    np.minimum(
                        now._room(other, others, comer).counts,
                        self._beside(kept, want, comer, count),
                    ).sum()
                ):
                    return True
        return False

    def _beside(self, kept: Amounts, want: Want, comer: Want, most: int) -> Amounts:
        """How many of `comer` leave each node the amounts for `kept` of `want`, up to `most`."""
        free = self._free
        found: Amounts = np.full(len(kept), most)
        for has, asked, taken in (
            (free.cpu_millis, want.cpu_millis, comer.cpu_millis),
            (free.memory_bytes, want.memory_bytes, comer.memory_bytes),
            (free.gpus, want.gpus, comer.gpus),
        ):
            if asked and taken:
                left = np.where(kept > 0, (has - kept * asked) // taken, most)
                found = np.minimum(found, left)
        return found

    def plan(self, gang: Gang) -> Plan | None:
        """The plan of the planner; None if there is none, or if it has to be asked."""
        kinds = kinds_of(gang)
        plainly = self._plainly(gang, kinds)
        if plainly is None:
            return None
        totals = self._liking(gang, kinds, plainly).totals
        able = np.flatnonzero(totals > -np.inf)
        if not len(able):
            return None
        best = best_by(able, totals[able], len(kinds))
        board = Board(gang, plainly.recipe, self._layout, self._free, kinds.roles, own=False)
        with self._free.untouched(best[0]):
            found = attempt(board, kinds, Trial(tuple(range(len(kinds))), RoleZone()), best=best)
            return None if found.failed else plan_of(gang, found)

    def _plainly(self, gang: Gang, kinds: Kinds) -> _Plainly | None:
        if len(kinds.wants) != 1 or not gang.all_or_nothing or not len(self._layout):
            return None
        if kinds.wants[0].volumes or gang.traffic is not None:
            return None  # what is mounted on other nodes matters, or what passes between them
        if any(name not in _PLAIN_SCORES for name, _ in more_scores(gang, self._layout)):
            return None
        key = (kinds.wants[0], len(kinds), _shape(gang))
        if key in self._recipes:
            recipe = self._recipes[key]
        else:
            recipe = recipe_for(gang, self._profile, self._layout)
            if recipe.required or recipe.preferred or gang.spreads or not _plain(recipe):
                recipe = None
            _keep(self._recipes, key, recipe, self._most)
        return None if recipe is None else _Plainly(key, recipe, kinds.wants[0])

    def _room(self, gang: Gang, kinds: Kinds, want: Want) -> _Room:
        key = (want, _shape(gang))
        known = self._rooms.get(key)
        rows = self._to_ask(known)
        if known is None or rows is None:
            counts = self._counts(gang, kinds, want, ALL)
            known = _Room(self._now, self._owner, counts, int(counts.sum()))
            _keep(self._rooms, key, known, self._most)
        elif len(rows):
            if known.owner is not self._owner:
                known = _Room(known.known_at, self._owner, known.counts.copy(), known.total)
                self._rooms[key] = known
            self._recount(known, gang, kinds, want, rows)
            known.known_at = self._now
        return known

    def _recount(self, known: _Room, gang: Gang, kinds: Kinds, want: Want, rows: Indexes) -> None:
        board = Board(gang, self._unruled, self._layout, self._free, kinds.roles, own=False)
        if len(rows) <= _FEW and board.counted(want):
            for index in rows.tolist():
                count = board.room_on(want, index)
                known.total += count - known.counts.item(index)
                known.counts[index] = count
            return
        counts = board.room(want, rows)
        known.total += int(counts.sum()) - int(known.counts[rows].sum())
        known.counts[rows] = counts

    def _counts(self, gang: Gang, kinds: Kinds, want: Want, rows: Rows) -> Amounts:
        board = Board(gang, self._unruled, self._layout, self._free, kinds.roles, own=False)
        return board.room(want, rows)

    def _liking(self, gang: Gang, kinds: Kinds, plainly: _Plainly) -> _Liking:
        known = self._likings.get(plainly.key)
        rows = self._to_ask(known)
        if known is None or rows is None:
            every = np.arange(len(self._layout))
            known = _Liking(self._now, self._owner, self._totals(gang, kinds, plainly, every))
            _keep(self._likings, plainly.key, known, self._most)
        elif len(rows):
            if known.owner is not self._owner:
                known = _Liking(known.known_at, self._owner, known.totals.copy())
                self._likings[plainly.key] = known
            known.totals[rows] = self._totals(gang, kinds, plainly, rows)
            known.known_at = self._now
        return known

    def _totals(self, gang: Gang, kinds: Kinds, plainly: _Plainly, rows: Indexes) -> Values:
        board = Board(gang, plainly.recipe, self._layout, self._free, kinds.roles, own=False)
        found = np.full(len(rows), -np.inf)
        able = np.flatnonzero(board.could_take(plainly.want, rows))
        if len(able):
            found[able] = board.totals(plainly.want, rows[able])
        return found

    @property
    def _now(self) -> int:
        return self._forgotten + len(self._changed)

    def _to_ask(self, known: _Room | _Liking | None) -> Indexes | None:
        """The nodes that have changed since; None for all."""
        if known is None or known.known_at < self._forgotten:
            return None
        changed = set(self._changed[known.known_at - self._forgotten :])
        if len(changed) > _MOST_CHANGED * len(self._layout):
            return None
        return np.array(list(changed), dtype=np.intp)


def _shape(gang: Gang) -> Hashable:
    """All of it but its members: rules may ask for it."""
    return tuple([getattr(gang, name) for name in _SHAPED_BY])


def _plain(recipe: Recipe) -> bool:
    """Does no rule ask about other nodes or other jobs?"""
    return all(name in _PLAIN_SCORES for name, _ in recipe.scores) and not any(
        FILTERS[name].scope is Scope.GANG and name not in _BETWEEN_MEMBERS
        for name in recipe.filters
    )


def _keep(kept: dict[Hashable, Kept], key: Hashable, value: Kept, most: int) -> None:
    """The first that came goes first."""
    kept.pop(key, None)
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value
