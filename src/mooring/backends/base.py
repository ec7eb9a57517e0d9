"""What every runtime must be able to do, and nothing about how.

A runtime owns the members' outside: addresses, processes or pods, their end. It decides nothing:
it answers `snapshot`, carries out instructions, and reports events. All calls come from the
one loop in `mooring.run_loop`, which passes the time in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mooring.lifecycle import Event
from mooring.model.cluster import Snapshot
from mooring.model.launch import Address, Launch
from mooring.model.member import Gang, Member, MemberId
from mooring.model.plan import Plan, Slot


@dataclass(frozen=True)
class Order:
    """Start this attempt of a member, in this slot."""

    member: Member
    slot: Slot
    launch: Launch
    epoch: int
    attempt: int


class Runtime(Protocol):
    @property
    def enforces(self) -> str:
        """How members are held to their slots, in one sentence for the report."""
        ...

    def snapshot(self) -> Snapshot:
        """The nodes and what others hold on them, now."""
        ...

    def prepare(self, gang: Gang, plan: Plan, epoch: int) -> Mapping[MemberId, Address]:
        """Make the plan's nodes and addresses ready for one epoch; all of them or none.

        Raises RunFailed if the machine refuses; nothing is left behind then.
        """
        ...

    def start(self, orders: Sequence[Order]) -> None:
        """Start launchers; each waits at its gate. All start or RunFailed is raised."""
        ...

    def open_gate(self, members: Sequence[MemberId]) -> None:
        """Let the launchers start their processes."""
        ...

    def stop(self, members: Sequence[MemberId], grace_s: float, now_s: float) -> None:
        """Ask members to end; after `grace_s` they are made to."""
        ...

    def poll(self, now_s: float, timeout_s: float) -> list[Event]:
        """What happened since the last call; waits up to `timeout_s` if nothing has."""
        ...

    def bytes_by_node(self) -> dict[str, tuple[int, int]]:
        """Node -> (received, sent) bytes on its NIC so far; empty where nobody counts them."""
        ...

    def close(self) -> None:
        """End whatever is left and give everything back. May be called at any moment, twice."""
        ...
