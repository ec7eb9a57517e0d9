"""What a runtime reports to the lifecycle, and what the lifecycle tells it to do.

Every report about a member carries the epoch and the attempt that it is about, so that one that
arrives late cannot be taken for news of a later attempt.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.member import MemberId
from mooring.model.status import Phase


@dataclass(frozen=True)
class MemberReady:
    """Its launcher is up, pinned, its command exists and its peers resolve."""

    member: MemberId
    epoch: int
    attempt: int


@dataclass(frozen=True)
class MemberRunning:
    """Its user processes have started."""

    member: MemberId
    epoch: int
    attempt: int


@dataclass(frozen=True)
class MemberExited:
    """Nothing of this attempt is left. `exit_code` is as a shell sees it (128 + signal)."""

    member: MemberId
    epoch: int
    attempt: int
    exit_code: int
    reason: str = ""


@dataclass(frozen=True)
class StartFailed:
    """The runtime could not carry out a StartMembers; nothing that it started for it is left.

    `members` are those it was starting; empty means all whose gate is still closed.
    """

    epoch: int
    reason: str
    members: tuple[MemberId, ...] = ()


@dataclass(frozen=True)
class StopRequested:
    """Somebody wants the job to end. Asked again, it ends without grace."""

    reason: str


@dataclass(frozen=True)
class Placed:
    """These members, which were waiting, have slots now."""

    members: tuple[MemberId, ...]


@dataclass(frozen=True)
class Resized:
    """The gang consists of these members from now on, all of which have slots.

    Members are told of each other when they start: all of them end and start again together. That
    is nobody's failure and counts as no restart.
    """

    members: tuple[MemberId, ...]
    reason: str


@dataclass(frozen=True)
class Stalled:
    """Nobody has got on for as long as the job allows; `reason` says who is waited for."""

    epoch: int
    reason: str


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Event = (
    MemberReady
    | MemberRunning
    | MemberExited
    | StartFailed
    | StopRequested
    | Placed
    | Resized
    | Stalled
    | Tick
)


@dataclass(frozen=True)
class StartMembers:
    """Start these; `attempts[i]` belongs to `members[i]`. They wait at their gate when ready."""

    members: tuple[MemberId, ...]
    epoch: int
    attempts: tuple[int, ...]


@dataclass(frozen=True)
class OpenGate:
    """All of these are ready: let their user processes start."""

    members: tuple[MemberId, ...]
    epoch: int


@dataclass(frozen=True)
class StopMembers:
    """End these: ask, and after `grace_s` force. Repeated, the smaller grace holds."""

    members: tuple[MemberId, ...]
    epoch: int
    grace_s: float


@dataclass(frozen=True)
class Finish:
    """The job is over, nothing of it is left. No instruction follows."""

    phase: Phase
    reason: str


Instruction = StartMembers | OpenGate | StopMembers | Finish
