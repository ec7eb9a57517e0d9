"""The cluster while one plan is being made: what is left, and what this gang has taken so far.

One board serves one pass over a gang. It is a copy: what it takes, nobody else misses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from mooring.brain.attachments import Attachments
from mooring.brain.layout import ALL, Amounts, ClusterLayout, Free, Mask, Rows, Values
from mooring.brain.pool import Numbers
from mooring.brain.presets import Recipe
from mooring.brain.registry import SCORES, Objections, Scope
from mooring.brain.residents import with_labels
from mooring.brain.shares import WHOLE
from mooring.brain.want import Want
from mooring.model.labels import Labels
from mooring.model.member import Gang

_ENDLESS = 1_000_000
#: Kinds of members whose fixed answers are remembered; each costs some bytes a node.
_MOST_KEPT = 64

Key = TypeVar("Key")
Kept = TypeVar("Kept")


class Board:
    def __init__(
        self,
        gang: Gang,
        recipe: Recipe,
        layout: ClusterLayout,
        free: Free,
        sizes: Counter[str] | None = None,
        *,
        own: bool = True,
    ) -> None:
        """`sizes`: how many members each role has, if that is known already. Without `own` it is
        no copy: whoever takes from it must put all of it back."""
        self.gang = gang
        self.recipe = recipe
        self.required = recipe.required
        self.preferred = recipe.preferred
        self.layout = layout
        self.free = free.over(free.ports) if own else free
        self.members: Numbers = np.zeros(len(layout), dtype=np.int32)
        self.sizes = sizes or Counter(member.id.role for member in gang.members)
        rules = recipe.rules
        self.node_filters = rules.node_filters
        self.gang_filters = rules.gang_filters
        #: Those that look at other nodes as well; `totals` leaves them to whoever can follow them.
        self.gang_scores = rules.gang_scores
        self._rules = rules
        self._roles: dict[str, Numbers] = {}
        self._ports: dict[int, Mask] = {}
        self._residents: dict[Labels, Numbers | None] = {}
        self._attachments: Attachments | None = None
        self._extended: dict[str, Amounts] = {}
        self._once: dict[str, Values] | None = None

    # -- what rules ask

    @cached_property
    def untried(self) -> Counter[str]:
        """Members of each role that no node has been sought for yet."""
        return Counter(self.sizes)

    def role(self, role: str) -> Numbers:
        """How many of this role each node has."""
        found = self._roles.get(role)
        if found is None:
            found = self._roles[role] = np.zeros(len(self.layout), dtype=np.int32)
        return found

    def present(self, roles: Sequence[str], rows: Rows) -> Mask | None:
        """Where any of these roles is; None if nowhere."""
        found: Mask | None = None
        for role in roles:
            if role in self._roles:
                here = self._roles[role][rows] > 0
                found = here if found is None else found | here
        return found

    def port(self, port: int) -> Mask:
        """Where this port is in use."""
        found = self._ports.get(port)
        if found is None:
            found = np.zeros(len(self.layout), dtype=bool)
            found[list(self.free.ports.get(port, ()))] = True
            self._ports[port] = found
        return found

    def ports_in_use(self, index: int) -> frozenset[int]:
        return frozenset(port for port, used in self._ports.items() if used[index])

    def extended(self, name: str) -> Amounts:
        """What is left of an extended resource."""
        found = self._extended.get(name)
        if found is None:
            known = self.free.extended.get(name)
            found = np.zeros(len(self.layout), np.int64) if known is None else known.copy()
            self._extended[name] = found
        return found

    def residents(self, sought: Labels) -> Numbers | None:
        """How many members of other jobs have these labels, by node; None if nobody has."""
        if sought not in self._residents:
            self._residents[sought] = with_labels(self.free.residents, sought, len(self.layout))
        return self._residents[sought]

    @property
    def attachments(self) -> Attachments | None:
        """Who mounts what; None if nothing is known of volumes."""
        if self._attachments is None and self.free.attachments is not None:
            self._attachments = self.free.attachments.copy()
        return self._attachments

    def free_cpus(self, rows: Rows) -> Numbers:
        """CPUs that nobody holds exclusively."""
        found: Numbers = self.layout.pool.free_cpus[self.free.state[rows]]
        return found

    def spare_cpus(self, rows: Rows) -> Amounts:
        """CPUs that can be given away whole, with enough left for those who share the rest."""
        kept = np.maximum(-(-self.free.shared_millis[rows] // 1000), self.free.sharers[rows] > 0)
        spare: Amounts = np.subtract(self.free_cpus(rows), kept, dtype=np.int64)
        return spare

    def shareable_millis(self, rows: Rows) -> Amounts:
        """What one more shared member may ask for."""
        in_cpus = self.free_cpus(rows) * np.int64(1000) - self.free.shared_millis[rows]
        least: Amounts = np.minimum(self.free.cpu_millis[rows], in_cpus)
        return least

    def room_for_shares(self, want: Want, rows: Rows) -> Amounts:
        """How many shares as large as this member's the devices have room for."""
        fresh: Amounts = np.maximum(self.free.gpus[rows], 0) * (WHOLE // want.gpu_share)
        if self.layout.pool.shares:
            fresh += self.layout.pool.room_for_shares(self.free.state[rows], want.gpu_share)
        return fresh

    def gpu_millis(self, rows: Rows) -> Amounts:
        """What is free of the devices, whole ones and what is left of shared ones."""
        free: Amounts = 1000 * self.free.gpus[rows]
        if self.layout.pool.shares:
            free += self.layout.pool.left_millis[self.free.state[rows]]
        return free

    def fits(self, want: Want, rows: Rows) -> Amounts:
        """How many members of this kind the free amounts allow for."""
        free = self.free
        counts: list[Amounts] = []
        if want.exclusive:
            counts.append(self.spare_cpus(rows) // want.whole_cpus)
            counts.append(free.cpu_millis[rows] // want.cpu_millis)
        elif want.cpu_millis:
            counts.append(self.shareable_millis(rows) // want.cpu_millis)
        if want.memory_bytes:
            counts.append(free.memory_bytes[rows] // want.memory_bytes)
        if want.gpus:
            counts.append(free.gpus[rows] // want.gpus)
        for name, asked in want.asked.extended:
            counts.append(self.extended(name)[rows] // asked)
        if want.gpu_share:
            counts.append(self.room_for_shares(want, rows))
        for port in want.ports:
            counts.append((~self.port(port)[rows]).astype(np.int64))
        if not counts:
            return np.full(len(self.members[rows]), _ENDLESS, dtype=np.int64)
        least = counts[0]
        for count in counts[1:]:
            least = np.minimum(least, count)
        return np.minimum(np.maximum(least, 0), _ENDLESS)

    # -- what nodes answer

    def objections(self, want: Want, rows: Rows = ALL) -> Objections:
        """What the nodes object to by themselves, by class of reason."""
        found: Objections = {}
        for rule in self.node_filters:
            for reason, refused in rule.rule(want, self, rows).items():
                found[reason] = found[reason] | refused if reason in found else refused
        return found

    def gang_objections(self, want: Want, rows: Rows = ALL) -> Objections:
        found: Objections = {}
        for rule in self.gang_filters:
            for reason, refused in rule.rule(want, self, rows).items():
                found[reason] = found[reason] | refused if reason in found else refused
        return found

    def can_take(self, want: Want, *, for_good: bool = False) -> Mask:
        """Which nodes can take such a member now; with `for_good`, also those that may be able to
        once others of the gang are placed."""
        refused = self._refused_for_good(want)
        for rule in (*self._rules.moving_filters, *self.gang_filters):
            if for_good and rule.passing:
                continue
            for mask in rule.rule(want, self, ALL).values():
                refused = refused | mask
        return ~refused

    def room(self, want: Want, rows: Rows) -> Amounts:
        """How many such members each of these nodes could take, as far as that is up to it."""
        room = self.fits(want, rows) * ~self._refused_for_good(want)[rows]
        for rule in self._rules.uncounted_filters:
            for refused in rule.rule(want, self, rows).values():
                room *= ~refused
        return room

    def counted(self, want: Want) -> bool:
        """Is `fits` all that there is to say about such members, besides what nodes are?"""
        layout = self.layout
        return not (
            want.volumes
            or want.ports
            or want.gpu_share
            or want.asked.extended
            or self.required
            or (want.cuts and (layout.kubelets is not None or layout.overlaps))
            or not (want.cpu_millis or want.exclusive)
        )

    def room_on(self, want: Want, index: int) -> int:
        """The same as `room` for one node, of members for whom `counted` holds. Arrays of one are
        slow, and most of what changes changes on few nodes."""
        free = self.free
        if self._refused_for_good(want)[index]:
            return 0
        cpus = self.layout.pool.free_cpus.item(free.state.item(index))
        shared = free.shared_millis.item(index)
        millis = free.cpu_millis.item(index)
        if want.exclusive:
            kept = max(-(-shared // 1000), int(free.sharers.item(index) > 0))
            room = min((cpus - kept) // want.whole_cpus, millis // want.cpu_millis)
        else:
            room = min(millis, 1000 * cpus - shared) // want.cpu_millis
        if want.memory_bytes:
            room = min(room, free.memory_bytes.item(index) // want.memory_bytes)
        if want.gpus:
            room = min(room, free.gpus.item(index) // want.gpus)
        return min(max(room, 0), _ENDLESS)

    def could_take(self, want: Want, rows: Rows) -> Mask:
        """Which of these nodes can take such a member, as far as that is up to them alone."""
        return self.can_take_another(want, rows) & ~self._refused_for_good(want)[rows]

    def can_take_another(self, want: Want, rows: Rows) -> Mask:
        """Of nodes that could take such a member before, which still can."""
        refused = np.zeros(len(self.members[rows]), dtype=bool)
        for rule in self._rules.moving_filters:
            for mask in rule.rule(want, self, rows).values():
                refused |= mask
        return ~refused

    def totals(self, want: Want, rows: Rows) -> Values:
        """The weighed sum of the nodes' own scores, of nodes that can take the member."""
        total = np.zeros(len(self.members[rows]))
        self._once = {}
        for name, weight in self._rules.own_scores:
            value = self.score(name, want, rows)
            if not isinstance(value, float) or value:
                total += weight * value
        self._once = None
        return total

    def once(self, key: str, compute: Callable[[], Values]) -> Values:
        """What several scores of one member on the same nodes need is computed once."""
        if self._once is None:
            return compute()
        if key not in self._once:
            self._once[key] = compute()
        return self._once[key]

    def score(self, name: str, want: Want, rows: Rows) -> Values | float:
        score = SCORES[name]
        if score.scope is not Scope.FIXED:
            return score.rule(want, self, rows)
        kept = self.layout.fixed_scores
        known = kept.get((name, want))
        if known is None:
            known = score.rule(want, self, ALL)
            _keep(kept, (name, want), known)
        return known if isinstance(known, float) else known[rows]

    def _refused_for_good(self, want: Want) -> Mask:
        kept = self.layout.fixed_refusals
        known = kept.get((self._rules.fixed_key, want))
        if known is None:
            known = np.zeros(len(self.layout), dtype=bool)
            for rule in self._rules.fixed_filters:
                for mask in rule.rule(want, self, ALL).values():
                    known |= mask
            _keep(kept, (self._rules.fixed_key, want), known)
        return known

    # -- taking in and putting out

    def take(self, want: Want, rows: Rows) -> None:
        """One such member more on each of these nodes."""
        if want.cuts:
            state = self.free.state
            before = state[rows]
            state[rows] = self.layout.pool.after(before, want)
            if want.gpu_share:
                self._open_cards(rows, before)
        self._count(want, rows, 1)

    def put_out(self, want: Want, rows: Rows, before: Numbers, count: Numbers | int = 1) -> None:
        """The last `count` such members off each of these nodes, back to the state before them."""
        now = self.free.state[rows]
        self.free.state[rows] = before
        if want.gpu_share:
            self._open_cards(rows, now)
        self._count(want, rows, -count)

    def _open_cards(self, rows: Rows, before: Numbers) -> None:
        """Devices that were free are shared now, or the other way round."""
        whole = self.layout.pool.whole_gpus
        self.free.gpus[rows] += whole[self.free.state[rows]] - whole[before]

    def _count(self, want: Want, rows: Rows, count: Numbers | int) -> None:
        free = self.free
        self.members[rows] += count
        self.role(want.role)[rows] += count
        free.cpu_millis[rows] -= count * np.int64(want.cpu_millis)
        if want.memory_bytes:
            free.memory_bytes[rows] -= count * np.int64(want.memory_bytes)
        if want.gpus:
            free.gpus[rows] -= count * np.int64(want.gpus)
        if not want.exclusive:
            free.shared_millis[rows] += count * np.int64(want.cpu_millis)
            free.sharers[rows] += count
        for name, asked in want.asked.extended:
            self.extended(name)[rows] -= count * np.int64(asked)
        if want.volumes and self.attachments is not None:
            self._mount(want, self.attachments, rows, count)
        for port in want.ports:
            self.port(port)[rows] = np.asarray(count) > 0

    def _mount(self, want: Want, there: Attachments, rows: Rows, count: Numbers | int) -> None:
        nodes = np.arange(len(self.layout))[rows].tolist()
        for node, each in zip(nodes, np.broadcast_to(count, len(nodes)).tolist(), strict=True):
            for _ in range(abs(each)):
                if each > 0:
                    there.take(want.volumes, node)
                else:
                    there.give_back(want.volumes, node)


def _keep(kept: dict[Key, Kept], key: Key, value: Kept) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = value
