"""A cluster that is kept warm: plans are made on it, taken, given back, at the cost of the gang.

It is the only mutable thing here besides what one decision needs. It does no I/O: whoever owns it
applies what really happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from mooring.brain import packing
from mooring.brain.answer_cache import AnswerCache
from mooring.brain.board import Board
from mooring.brain.filters.disks import conflicts
from mooring.brain.filters.volume_binding import unbindable
from mooring.brain.filters.volume_count import exceeded
from mooring.brain.fragments import Fragments, fragments_of
from mooring.brain.layout import Amounts, ClusterLayout, Free, free_of, use_of
from mooring.brain.planner import decide, seated
from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.residents import settle
from mooring.brain.shares import WHOLE, Left, Share
from mooring.brain.verdicts import replay
from mooring.brain.want import Want, kinds_of
from mooring.model.cluster import Node, NodeUse, Snapshot
from mooring.model.member import Gang, MemberId
from mooring.model.plan import NodeVerdict, Plan, Refusal, Slot
from mooring.model.resources import Resources
from mooring.model.volumes import Volume


@dataclass(frozen=True, eq=False)
class Utilisation:
    """Amounts by node, in the order of the nodes."""

    cpu_millis_used: Amounts
    cpu_millis: Amounts
    memory_bytes_used: Amounts
    memory_bytes: Amounts
    gpus_used: Amounts
    gpus: Amounts


class ClusterState:
    """`held`: what each job holds, by name. What was worked out of the nodes for an earlier state,
    `like`, is used again if they are the very same."""

    def __init__(
        self, snapshot: Snapshot, profile: Profile = DEFAULT, like: ClusterState | None = None
    ) -> None:
        self.profile = profile
        known: ClusterLayout | None = like._layout if like is not None else None
        if known is None or not known.describes(snapshot.nodes, snapshot.storage):
            known = ClusterLayout(snapshot.nodes, snapshot.storage)
        self._layout: ClusterLayout = known
        self._free = free_of(self._layout, snapshot)
        self._answers = AnswerCache(self._layout, self._free, profile)
        self._held: dict[str, tuple[Gang, Plan]] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self._layout.nodes

    @property
    def capacity(self) -> Resources:
        """What all nodes together could give away."""
        layout = self._layout
        return Resources(
            int(layout.cpu_millis.sum()),
            int(layout.memory_bytes.sum()),
            int(layout.gpus.sum()),
            extended=tuple((name, int(has.sum())) for name, has in layout.extended.items()),
        )

    @property
    def held(self) -> Mapping[str, tuple[Gang, Plan]]:
        return MappingProxyType(self._held)

    def copy(self) -> ClusterState:
        """For trying something out: what happens to one does not happen to the other."""
        twin = ClusterState.__new__(ClusterState)
        twin.profile = self.profile
        twin._layout = self._layout
        twin._free = self._free.copy()
        twin._answers = self._answers.copy(twin._free)
        twin._held = dict(self._held)
        return twin

    def place(self, gang: Gang) -> Plan | Refusal:
        """A plan without verdicts. A gang that is held as it is keeps the plan it has."""
        known = self._held.get(gang.job)
        if known is not None and known[0] == gang:
            return known[1]
        plan = self._answers.plan(gang)
        if plan is not None:
            return plan
        return decide(gang, self._layout, self._free, self.profile).outcome

    def packable(self, gangs: Sequence[Gang]) -> bool:
        return packing.packable(gangs, self._layout, self.profile)

    def pack(self, gangs: Sequence[Gang], budget: packing.SearchBudget) -> tuple[Plan, ...] | None:
        """Plans for all of these at once, to be taken in this order; None if none was found."""
        found = packing.pack(gangs, self._layout, self._free, self.profile, budget)
        if found is None:
            return None
        twin = self.copy()
        plans = []
        for gang, (kinds, seats) in zip(gangs, found, strict=True):
            plan = seated(gang, kinds, seats, twin._layout, twin._free, twin.profile)
            if plan is None:
                return None
            twin.assume(gang, plan)
            plans.append(plan)
        return tuple(plans)

    def may_fit(self, *gangs: Gang) -> bool:
        """False: there is no place for all of these, each of which must start whole, whatever the
        order. Costs next to nothing, and True says little."""
        return self._answers.may_fit([gang for gang in gangs if gang.job not in self._held])

    def has_room(self, gang: Gang) -> bool | None:
        """Would `place` give a plan for this gang, whole? None if that takes a plan to tell."""
        return None if gang.job in self._held else self._answers.has_room(gang)

    def crowded_out(self, gang: Gang, other: Gang, now: ClusterState) -> bool:
        """True: surely this gang has no place here beside the other one, wherever that is placed
        on `now`, which is the same cluster with more people on it. False says nothing."""
        return self._answers.crowded_out(gang, other, now._answers)

    def nameless(self, gang: Gang) -> bool:
        """Would any other gang of its shape get the very same slots in its place, and leave the
        same behind for those who come after?"""
        return (
            gang.job not in self._layout.avoids
            and not gang.spreads
            and not any(member.labels for member in gang.members)
        )

    def explain(self, gang: Gang, member: MemberId | None = None) -> tuple[NodeVerdict, ...]:
        """Each node's verdict on this member when its turn comes; without one, on the member
        that a refusal would name, or the first. What the job itself holds counts as free."""
        if gang.job in self._held:
            without = self.copy()
            without.release(gang.job)
            return without.explain(gang, member)
        decision = decide(gang, self._layout, self._free, self.profile)
        asked = decision.named or 0
        if member is not None:
            asked = next(i for i, candidate in enumerate(gang.members) if candidate.id == member)
        board = Board(gang, decision.recipe, self._layout, self._free)
        found: tuple[NodeVerdict, ...] = ()
        for position, verdicts in replay(board, decision.kinds, decision.best):
            if position == asked:
                found = verdicts
                if position not in decision.best.lonely:
                    break
        return found

    def assume(self, gang: Gang, plan: Plan) -> None:
        """Take what the plan gives, all of it or, if it no longer fits, nothing (ValueError)."""
        if gang.job in self._held:
            raise ValueError(f"{gang.job} already holds its places")
        taken: list[tuple[Want, Slot]] = []
        for want, slot in _places(gang, plan):
            if not self._fits(want, slot):
                for done in reversed(taken):
                    self._give(*done)
                raise ValueError(f"the plan of {gang.job} no longer fits on {slot.node}")
            self._take(want, slot)
            taken.append((want, slot))
        self._held[gang.job] = (gang, plan)
        self._settle(gang, plan, 1)

    def release(self, job: str) -> None:
        """Give back exactly what was taken."""
        gang, plan = self._held.pop(job)
        for want, slot in _places(gang, plan):
            self._give(want, slot)
        self._settle(gang, plan, -1)
        self._forget_states()

    def _settle(self, gang: Gang, plan: Plan, sign: int) -> None:
        # Who has no labels and spreads by none is nobody's neighbour.
        labels = {
            member.id: member.all_labels for member in gang.members if member.labels or gang.spreads
        }
        if labels:
            index = self._layout.index
            who = [
                (labels.get(placement.member, ()), index[placement.slot.node])
                for placement in plan.placements
            ]
            settle(self._free.residents, who, sign)

    def _forget_states(self) -> None:
        """Long lives see millions of states of CPUs and devices; few are in use at a time."""
        pool = self._layout.pool
        if len(pool) <= max(_MOST_STATES, _MOST_STATES_A_NODE * len(self._layout)):
            return
        fresh, self._free.state[:] = pool.renewed(self._free.state)
        self._layout = self._layout.over(fresh)
        self._answers.moved(self._layout)

    def free(self, node: str) -> Resources:
        index = self._layout.index[node]
        free = self._free
        return Resources(
            max(0, int(free.cpu_millis[index])),
            max(0, int(free.memory_bytes[index])),
            max(0, int(free.gpus[index])),
            extended=tuple((name, max(0, int(has[index]))) for name, has in free.extended.items()),
            gpu_share_millis=self._layout.pool.left_millis.item(free.state.item(index)),
        )

    def use(self, node: str) -> NodeUse:
        return use_of(self._layout, self._free, self._layout.index[node])

    def snapshot(self) -> Snapshot:
        """The same cluster with the same use, to ask once or to keep."""
        layout = self._layout
        use = {
            node.name: use_of(layout, self._free, index)
            for index, node in enumerate(layout.nodes)
            if self._in_use(index)
        }
        storage = layout.catalogue.storage if layout.catalogue is not None else None
        return Snapshot(layout.nodes, use, storage)

    def utilisation(self) -> Utilisation:
        layout, free = self._layout, self._free
        return Utilisation(
            layout.cpu_millis - free.cpu_millis,
            layout.cpu_millis,
            layout.memory_bytes - free.memory_bytes,
            layout.memory_bytes,
            layout.gpus - free.gpus,
            layout.gpus,
        )

    def fragments(self) -> Fragments:
        """How much of what is free is stranded."""
        layout, free = self._layout, self._free
        found = fragments_of(layout.nodes)
        cards = bool(layout.gpus.any())
        for index in range(len(layout)):
            if cards:
                left = layout.pool.left_millis.item(free.state.item(index))
                whole = WHOLE * max(0, free.gpus.item(index))
                found.change(index, whole, whole + left)
            else:
                millis = max(0, free.cpu_millis.item(index))
                found.change(index, millis, millis)
        return found

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        return self._layout.nbytes + self._free.nbytes

    def same_as(self, other: ClusterState) -> bool:
        """Is the same free, down to each CPU and device?"""
        mine, theirs = self._free, other._free
        return all(
            np.array_equal(one, two)
            for one, two in (
                (mine.cpu_millis, theirs.cpu_millis),
                (mine.memory_bytes, theirs.memory_bytes),
                (mine.gpus, theirs.gpus),
                (mine.shared_millis, theirs.shared_millis),
                (mine.sharers, theirs.sharers),
                (mine.state, theirs.state),
            )
        ) and (
            _used(mine) == _used(theirs)
            and mine.residents == theirs.residents
            and _mounted(mine) == _mounted(theirs)
            and all(np.array_equal(mine.extended[n], theirs.extended[n]) for n in mine.extended)
        )

    def _masks(self) -> list[tuple[tuple[int, int], Left]]:
        pool = self._layout.pool
        return [(pool.masks(state), pool.left(state)) for state in self._free.state.tolist()]

    def _in_use(self, index: int) -> bool:
        return use_of(self._layout, self._free, index) != _UNUSED

    def _fits(self, want: Want, slot: Slot) -> bool:
        index = self._layout.index.get(slot.node)
        if index is None:
            return False
        free, pool = self._free, self._layout.pool
        state = int(free.state[index])
        cpus, gpus = pool.masks(state)
        own_cpus, own_gpus, share = self._own(slot, state)
        held = own_cpus.bit_count()
        left = cpus.bit_count() - held
        shared = int(free.shared_millis[index]) + (0 if want.exclusive else want.cpu_millis)
        sharers = int(free.sharers[index]) + (not want.exclusive)
        return (
            own_cpus & cpus == own_cpus
            and own_gpus & gpus == own_gpus
            and held == want.whole_cpus
            and want.gpus == own_gpus.bit_count()
            and (not want.cpu_millis or want.cpu_millis <= free.cpu_millis[index])
            and (not want.memory_bytes or want.memory_bytes <= free.memory_bytes[index])
            and (not want.gpus or want.gpus <= free.gpus[index])
            and want.gpu_share == (share.millis if share is not None else 0)
            and (share is None or self._has_share(index, share))
            and left >= max(-(-shared // 1000), 1 if sharers else 0)
            and not any(index in free.ports.get(port, ()) for port in want.ports)
            and all(
                name in free.extended and asked <= free.extended[name][index]
                for name, asked in want.asked.extended
            )
            and self._mountable(want, index)
        )

    def _mountable(self, want: Want, index: int) -> bool:
        there = self._free.attachments
        if not want.volumes or there is None:
            return True
        refused = (*conflicts(want, there).values(), *unbindable(want, there).values())
        return not any(mask[index] for mask in refused) and not exceeded(
            want, self._layout, there, index
        )

    def _has_share(self, index: int, share: Share) -> bool:
        state = self._free.state.item(index)
        left = dict(self._layout.pool.left(state))
        if share.card in left:
            return left[share.card] >= share.millis
        whole = self._layout.pool.masks(state)[1]
        return bool(whole >> share.card & 1) and self._free.gpus.item(index) > 0

    def _own(self, slot: Slot, state: int) -> tuple[int, int, Share | None]:
        hardware = self._layout.pool.topology(state)
        cpus = hardware.cpu_mask(slot.cpus) if slot.exclusive else 0
        gpus = hardware.gpu_mask(slot.gpus)
        if not slot.gpu_share_millis:
            return cpus, gpus, None
        return cpus, 0, Share(gpus.bit_length() - 1, slot.gpu_share_millis)

    def _take(self, want: Want, slot: Slot) -> None:
        index = self._layout.index[slot.node]
        state = int(self._free.state[index])
        if want.cuts:
            self._changed(index, self._layout.pool.taken(state, *self._own(slot, state)), want)
        self._count(want, index, 1)
        if want.volumes and self._free.attachments is not None:
            self._free.attachments.take(want.volumes, index)
        for port in want.ports:
            self._free.ports.setdefault(port, set()).add(index)

    def _give(self, want: Want, slot: Slot) -> None:
        index = self._layout.index[slot.node]
        state = int(self._free.state[index])
        if want.cuts:
            own = self._own(slot, state)
            self._changed(index, self._layout.pool.given_back(state, *own), want)
        self._count(want, index, -1)
        if want.volumes and self._free.attachments is not None:
            self._free.attachments.give_back(want.volumes, index)
        for port in want.ports:
            self._free.ports[port].discard(index)

    def _changed(self, index: int, state: int, want: Want) -> None:
        free, whole = self._free, self._layout.pool.whole_gpus
        if want.gpu_share:
            free.gpus[index] += whole[state] - whole[free.state[index]]
        free.state[index] = state

    def _count(self, want: Want, index: int, sign: int) -> None:
        free = self._free
        self._answers.changed(index)
        free.cpu_millis[index] -= sign * want.cpu_millis
        free.memory_bytes[index] -= sign * want.memory_bytes
        free.gpus[index] -= sign * want.gpus
        for name, asked in want.asked.extended:
            free.extended[name][index] -= sign * asked
        if not want.exclusive:
            free.shared_millis[index] += sign * want.cpu_millis
            free.sharers[index] += sign


_UNUSED = NodeUse()
#: States that are known at most, before those that nobody is in are forgotten.
_MOST_STATES = 32_768
_MOST_STATES_A_NODE = 8


def _used(free: Free) -> dict[int, set[int]]:
    return {port: nodes for port, nodes in free.ports.items() if nodes}


def _mounted(free: Free) -> dict[int, Counter[Volume]]:
    return free.attachments.here if free.attachments is not None else {}


def _places(gang: Gang, plan: Plan) -> Iterator[tuple[Want, Slot]]:
    kinds = kinds_of(gang)
    if len(plan.placements) == len(gang.members) and all(
        held.member is member.id or held.member == member.id
        for held, member in zip(plan.placements, gang.members, strict=True)
    ):
        for number, placement in zip(kinds.of, plan.placements, strict=True):
            yield kinds.wants[number], placement.slot
        return
    numbers = {member.id: number for member, number in zip(gang.members, kinds.of, strict=True)}
    for placement in plan.placements:
        yield kinds.wants[numbers[placement.member]], placement.slot
