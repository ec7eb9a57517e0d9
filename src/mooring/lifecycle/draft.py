"""A job state while one event is being worked in: the moves that all transitions are made of.

Conditions are looked at afresh in `settle`, never only on the edge of an event, so that nothing
is lost for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mooring.lifecycle import wording
from mooring.lifecycle.events import Finish, Instruction, OpenGate, StartMembers, StopMembers
from mooring.lifecycle.state import JobOutcome, JobState, MemberStatus, Policy
from mooring.model.member import MemberId, Restart
from mooring.model.status import MemberState, Phase


class StateDraft:
    """A state being changed. Lives for one call of `handle`."""

    def __init__(self, state: JobState, policy: Policy, now_s: float) -> None:
        self.members = dict(state.members)
        self.policy = policy
        self.now_s = now_s
        self.phase = state.phase
        self.epoch = state.epoch
        self.restarts = state.restarts
        self.batches = state.batches
        self.started_at_s = state.started_at_s
        self.restart_at_s = state.restart_at_s
        self.outcome = state.outcome
        self.reason = state.reason
        self.next_members = state.next_members
        self.instructions: list[Instruction] = []

    def freeze(self) -> JobState:
        return JobState(
            phase=self.phase,
            members=MappingProxyType(self.members),
            epoch=self.epoch,
            restarts=self.restarts,
            batches=self.batches,
            started_at_s=self.started_at_s,
            restart_at_s=self.restart_at_s,
            outcome=self.outcome,
            reason=self.reason,
            next_members=self.next_members,
        )

    # -- consequences

    def settle(self) -> None:
        """Do what has become possible, whichever event made it so."""
        if self.outcome is not None:
            if not self.where(lambda s: s.state.alive):
                self.phase = self.outcome.phase
                self.instructions.append(Finish(self.outcome.phase, self.outcome.reason))
            return
        if self.phase is Phase.RESTARTING:
            self._start_again_if_due()
            return
        self._start_due_members()
        self._open_gates()
        if self.phase is Phase.STARTING and not self.where(
            lambda s: s.state is MemberState.STARTING or s.restart_at_s is not None
        ):
            self.phase = Phase.RUNNING

    def check_success(self, latest: MemberId) -> None:
        wanted = [m for m in self.members if m.role in self.policy.success_roles]
        wanted = wanted or list(self.members)
        if self.policy.success_mode == "any":
            if latest in wanted:
                self.conclude(Phase.SUCCEEDED, f"{latest} exited with code 0")
        elif all(self.members[member].state is MemberState.SUCCEEDED for member in wanted):
            self.conclude(Phase.SUCCEEDED, f"{wording.names(wanted)} exited with code 0")

    def failed(self, member: MemberId, sentence: str) -> None:
        status = self.members[member]
        self.update(member, state=MemberState.FAILED)
        self.reason = sentence
        match self.policy.restart_of(member):
            case Restart.GANG:
                self.restart_gang(sentence)
            case Restart.MEMBER if status.restarts < self.policy.max_restarts:
                self.update(
                    member,
                    state=MemberState.WAITING,
                    restarts=status.restarts + 1,
                    restart_at_s=self.now_s + self.policy.backoff.delay_s(status.restarts),
                )
            case Restart.MEMBER:
                self.conclude(Phase.FAILED, wording.after_restarts(sentence, status.restarts))
            case Restart.NEVER:
                self.conclude(Phase.FAILED, sentence)

    def restart_gang(self, sentence: str) -> None:
        if self.restarts >= self.policy.max_restarts:
            self.conclude(Phase.FAILED, wording.after_restarts(sentence, self.restarts))
            return
        self.restarts += 1
        self.reason = sentence
        self.phase = Phase.RESTARTING
        self._cancel_member_restarts()
        self._stop_all()

    def resize(self, members: Sequence[MemberId], reason: str) -> None:
        """End all members; then these start together."""
        self.next_members = tuple(members)
        self.reason = reason
        self.phase = Phase.RESTARTING
        self.restart_at_s = None
        self._cancel_member_restarts()
        self._stop_all()

    def conclude(self, phase: Phase, reason: str) -> None:
        self.outcome = JobOutcome(phase, reason)
        self.reason = reason
        self.phase = Phase.STOPPING
        self.restart_at_s = None
        self._cancel_member_restarts()
        self._stop_all()

    def _cancel_member_restarts(self) -> None:
        for member in self.where(lambda s: s.restart_at_s is not None):
            self.update(member, state=MemberState.FAILED, restart_at_s=None)

    def _stop_all(self) -> None:
        told = self.where(lambda s: s.state in (MemberState.STARTING, MemberState.RUNNING))
        for member in told:
            self.update(member, state=MemberState.STOPPING)
        if told:
            self.instructions.append(StopMembers(tuple(told), self.epoch, self.policy.grace_s))

    # -- starting

    def _start_again_if_due(self) -> None:
        if self.where(lambda s: s.state.alive):
            return
        if self.next_members:
            before, self.next_members = self.next_members, ()
            known = self.members
            self.members = {
                member: MemberStatus(
                    placed=True, restarts=known[member].restarts if member in known else 0
                )
                for member in before
            }
            self.restart_at_s = self.now_s
        if self.restart_at_s is None:
            wait_s = self.policy.backoff.delay_s(self.restarts - 1)
            self.restart_at_s = self.now_s + wait_s
        if self.now_s < self.restart_at_s:
            return
        self.restart_at_s = None
        self.epoch += 1
        self.start_batch(self.where(lambda s: s.placed))

    def start_batch(self, members: Sequence[MemberId]) -> None:
        """Start these for the first time in this epoch; their gate opens when all are ready."""
        if not members:
            return
        if self.started_at_s is None:
            self.started_at_s = self.now_s
        if self.phase in (Phase.PENDING, Phase.RESTARTING):
            self.phase = Phase.STARTING
        self.batches += 1
        for member in members:
            self._start(member, attempt=0, batch=self.batches)
        self.instructions.append(
            StartMembers(tuple(members), self.epoch, tuple(0 for _ in members))
        )

    def _start_due_members(self) -> None:
        due = self.where(lambda s: s.restart_at_s is not None and s.restart_at_s <= self.now_s)
        for member in due:
            status = self.members[member]
            batch = status.batch
            if not self._closed(batch, besides=member):
                self.batches += 1
                batch = self.batches
            self._start(member, attempt=status.attempt + 1, batch=batch)
        if due:
            attempts = tuple(self.members[member].attempt for member in due)
            self.instructions.append(StartMembers(tuple(due), self.epoch, attempts))

    def _start(self, member: MemberId, attempt: int, batch: int) -> None:
        self.update(
            member,
            state=MemberState.STARTING,
            attempt=attempt,
            batch=batch,
            ready=False,
            gate_open=False,
            exit_code=None,
            reason="",
            started_at_s=self.now_s,
            ended_at_s=None,
            restart_at_s=None,
        )

    def _closed(self, batch: int, besides: MemberId) -> bool:
        """Is somebody else of this batch still held at the gate?"""
        return any(
            status.batch == batch
            and member != besides
            and not status.gate_open
            and (status.state is MemberState.STARTING or status.restart_at_s is not None)
            for member, status in self.members.items()
        )

    def _open_gates(self) -> None:
        held: dict[int, list[MemberId]] = {}
        incomplete: set[int] = set()
        for member, status in self.members.items():
            if status.restart_at_s is not None:
                incomplete.add(status.batch)
            elif status.state is MemberState.STARTING and not status.gate_open:
                held.setdefault(status.batch, []).append(member)
                if not status.ready:
                    incomplete.add(status.batch)
        for batch, members in held.items():
            if batch not in incomplete:
                for member in members:
                    self.update(member, gate_open=True)
                self.instructions.append(OpenGate(tuple(members), self.epoch))

    # -- access

    def where(self, holds: Callable[[MemberStatus], bool]) -> list[MemberId]:
        return [member for member, status in self.members.items() if holds(status)]

    def update(self, member: MemberId, **changes: Any) -> None:
        self.members[member] = replace(self.members[member], **changes)
