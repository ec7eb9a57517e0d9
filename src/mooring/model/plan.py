"""A plan: member -> slot, with the reason why each losing node lost."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.member import MemberId


@dataclass(frozen=True)
class Slot:
    """The CPUs, cells and devices on one node that one member holds.

    `cpus` are the CPUs it may run on (all of them its own if `exclusive`).
    """

    node: str
    cpus: tuple[int, ...]
    cells: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    exclusive: bool = False


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
