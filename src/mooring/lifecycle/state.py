"""What the lifecycle remembers of a job, and the policy that it acts on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from mooring.model.member import MemberId, Restart
from mooring.model.status import MemberState, Phase


@dataclass(frozen=True)
class Backoff:
    """The wait before the n-th restart: `initial_s` x `factor`^(n-1), at most `max_s`."""

    initial_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0

    def delay_s(self, restarts_before: int) -> float:
        try:
            wait_s = self.initial_s * self.factor**restarts_before
        except OverflowError:
            wait_s = self.max_s
        return min(wait_s, self.max_s)


@dataclass(frozen=True)
class Policy:
    """When a job has succeeded, what a failure leads to, and how long anything may take.

    An empty `success_roles` means all roles. A member missing from `restart` is never restarted.
    `max_restarts` bounds the restarts of each member, and those of the gang, on their own.
    """

    success_roles: tuple[str, ...] = ()
    success_mode: Literal["all", "any"] = "all"
    restart: Mapping[MemberId, Restart] = field(default_factory=lambda: MappingProxyType({}))
    max_restarts: int = 3
    backoff: Backoff = Backoff()
    grace_s: float = 10.0
    time_limit_s: float | None = None
    start_timeout_s: float = 300.0
    all_or_nothing: bool = True
    on_stall: Literal["warn", "fail", "restart"] = "warn"

    def restart_of(self, member: MemberId) -> Restart:
        return self.restart.get(member, Restart.NEVER)


@dataclass(frozen=True)
class MemberStatus:
    """One member: its current or last attempt.

    `batch` numbers the members whose gate opens together. `restart_at_s` is set while the member
    waits for its back-off. `restarts` counts over all epochs, `attempt` within one.
    """

    state: MemberState = MemberState.WAITING
    placed: bool = False
    attempt: int = 0
    batch: int = 0
    ready: bool = False
    gate_open: bool = False
    exit_code: int | None = None
    reason: str = ""
    started_at_s: float | None = None
    ended_at_s: float | None = None
    restart_at_s: float | None = None
    restarts: int = 0


@dataclass(frozen=True)
class JobOutcome:
    """How the job will end once everything of it is gone."""

    phase: Phase
    reason: str


@dataclass(frozen=True)
class JobState:
    """A job at one moment.

    `reason` is the last failure or the outcome, in one sentence. `outcome` is set as soon as it
    is known; the phase becomes that outcome only when no member is alive. `restart_at_s` is when
    the whole gang starts again; `next_members`, if any, are those that it then consists of.
    """

    phase: Phase
    members: Mapping[MemberId, MemberStatus]
    epoch: int = 0
    restarts: int = 0
    batches: int = 0
    started_at_s: float | None = None
    restart_at_s: float | None = None
    outcome: JobOutcome | None = None
    reason: str = ""
    next_members: tuple[MemberId, ...] = ()

    @property
    def alive(self) -> tuple[MemberId, ...]:
        return tuple(member for member, status in self.members.items() if status.state.alive)
