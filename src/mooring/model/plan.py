"""A plan: member -> slot, with the reason why each losing node lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from mooring.model.cluster import NodeUse, format_cpus
from mooring.model.member import Member, MemberId
from mooring.model.resources import Resources, format_gpus


@dataclass(frozen=True)
class Slot:
    """The CPUs, cells and devices on one node that one member holds.

    `cpus` are the CPUs it may run on (all of them its own if `exclusive`). With a share of a card,
    `gpus` is that card and `gpu_share_millis` how much of it; 0 means whole cards.
    """

    node: str
    cpus: tuple[int, ...]
    cells: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    exclusive: bool = False
    gpu_share_millis: int = 0

    @property
    def gpus_said(self) -> str:
        """`0-3`, or `2 (0.25)` for a quarter of card 2."""
        share = f" ({format_gpus(self.gpu_share_millis)})" if self.gpu_share_millis else ""
        return format_cpus(self.gpus) + share


def use_with(
    use: NodeUse, slot: Slot, resources: Resources, ports: frozenset[int] = frozenset()
) -> NodeUse:
    """The use of a node once a member with these resources holds this slot there, too."""
    shares = dict(use.gpu_shares)
    if slot.gpu_share_millis:
        for card in slot.gpus:
            shares[card] = shares.get(card, 0) + slot.gpu_share_millis
    return NodeUse(
        use.resources + resources,
        use.cpus | set(slot.cpus) if slot.exclusive else use.cpus,
        use.gpus if slot.gpu_share_millis else use.gpus | set(slot.gpus),
        use.ports | ports,
        use.sharers + (not slot.exclusive),
        use.residents,
        tuple(sorted(shares.items())),
        use.volumes,
    )


def with_member(use: NodeUse, member: Member, slot: Slot) -> NodeUse:
    """The use of the slot's node with this member on it."""
    ports = frozenset(port for port in member.ports.values() if port)
    residents = Counter(dict(use.residents))
    residents[member.all_labels] += 1
    volumes = Counter(dict(use.volumes))
    volumes.update(member.volumes)
    return replace(
        use_with(use, slot, member.resources, ports),
        residents=tuple(sorted(residents.items())),
        volumes=tuple(volumes.items()),
    )


@dataclass(frozen=True)
class NodeVerdict:
    """One node's answer for one member: refused for `reasons`, or scored by rule."""

    node: str
    reasons: tuple[str, ...] = ()
    scores: tuple[tuple[str, float], ...] = ()

    @property
    def refused(self) -> bool:
        return bool(self.reasons)

    @property
    def total(self) -> float:
        return sum(score for _, score in self.scores)


@dataclass(frozen=True)
class Placement:
    member: MemberId
    slot: Slot
    verdicts: tuple[NodeVerdict, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Where each member goes. `waiting` is empty unless the gang may start in part."""

    job: str
    placements: tuple[Placement, ...]
    waiting: tuple[MemberId, ...] = ()
    notes: tuple[str, ...] = ()

    def slot_of(self, member: MemberId) -> Slot:
        for placement in self.placements:
            if placement.member == member:
                return placement.slot
        raise KeyError(member)


@dataclass(frozen=True)
class Refusal:
    """Why a gang has no plan: one sentence, and each node's verdict on the first that failed."""

    job: str
    sentence: str
    member: MemberId
    verdicts: tuple[NodeVerdict, ...] = ()
