"""The transitions: what each event changes and which instructions follow.

Each call copies the state into a draft, applies the event, then the clock, then whatever has
become possible by both (a gate opens, a gang starts again, the job is over).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from mooring.lifecycle import wording
from mooring.lifecycle.draft import StateDraft
from mooring.lifecycle.events import (
    Event,
    Instruction,
    MemberExited,
    MemberReady,
    MemberRunning,
    Placed,
    Resized,
    Stalled,
    StartFailed,
    StopMembers,
    StopRequested,
)
from mooring.lifecycle.state import JobState, MemberStatus, Policy
from mooring.model.amounts import format_duration
from mooring.model.member import MemberId, Restart
from mooring.model.status import MemberState, Phase

Step = tuple[JobState, tuple[Instruction, ...]]


def begin(
    members: Iterable[MemberId],
    policy: Policy,
    placed: Iterable[MemberId],
    now_s: float,
    *,
    epoch: int = 0,
    restarts: int = 0,
) -> Step:
    """A new job. Members not in `placed` wait for a `Placed` event.

    A job that was taken off its nodes and begins again goes on counting `epoch` and `restarts`.
    """
    waiting = MappingProxyType({member: MemberStatus() for member in members})
    state = JobState(Phase.PENDING, waiting, epoch=epoch, restarts=restarts)
    return handle(state, policy, Placed(tuple(placed)), now_s)


def handle(state: JobState, policy: Policy, event: Event, now_s: float) -> Step:
    """The state after `event` at `now_s`, and what is to be done, in order."""
    if state.phase.final:
        return state, ()
    draft = StateDraft(state, policy, now_s)
    _apply(draft, event)
    _check_clock(draft)
    draft.settle()
    return draft.freeze(), tuple(draft.instructions)


def next_wakeup_s(state: JobState, policy: Policy) -> float | None:
    """When a `Tick` is due at the latest; None when only events can change anything."""
    if state.phase.final or state.outcome is not None:
        return None
    times: list[float] = []
    if policy.time_limit_s is not None and state.started_at_s is not None:
        times.append(state.started_at_s + policy.time_limit_s)
    if state.restart_at_s is not None:
        times.append(state.restart_at_s)
    for status in state.members.values():
        if status.restart_at_s is not None:
            times.append(status.restart_at_s)
        elif status.state is MemberState.STARTING and status.started_at_s is not None:
            times.append(status.started_at_s + policy.start_timeout_s)
    return min(times, default=None)


def _apply(draft: StateDraft, event: Event) -> None:
    match event:
        case MemberReady() if _current(draft, event, MemberState.STARTING):
            draft.update(event.member, ready=True)
        case MemberRunning() if _current(draft, event, MemberState.STARTING):
            draft.update(event.member, state=MemberState.RUNNING, ready=True, gate_open=True)
        case MemberExited() if _current(draft, event):
            _exited(draft, event)
        case StartFailed() if event.epoch == draft.epoch:
            _start_failed(draft, event)
        case StopRequested():
            _stop_requested(draft, event)
        case Placed() if draft.outcome is None:
            _placed(draft, event.members)
        case Resized() if draft.outcome is None and event.members:
            draft.resize(event.members, event.reason)
        case Stalled() if event.epoch == draft.epoch and draft.outcome is None:
            _stalled(draft, event.reason)
        case _:
            pass  # a Tick, or news of an attempt that is over


def _current(
    draft: StateDraft, event: MemberReady | MemberRunning | MemberExited, *states: MemberState
) -> bool:
    status = draft.members.get(event.member)
    return (
        status is not None
        and event.epoch == draft.epoch
        and event.attempt == status.attempt
        and (status.state in states if states else status.state.alive)
    )


def _exited(draft: StateDraft, event: MemberExited) -> None:
    before = draft.members[event.member].state
    draft.update(
        event.member,
        exit_code=event.exit_code,
        reason=event.reason,
        ended_at_s=draft.now_s,
    )
    if before is MemberState.STOPPING:
        draft.update(event.member, state=MemberState.ENDED)
    elif event.exit_code == 0:
        draft.update(event.member, state=MemberState.SUCCEEDED)
        draft.check_success(event.member)
    else:
        draft.failed(event.member, wording.exit_sentence(event))


def _start_failed(draft: StateDraft, event: StartFailed) -> None:
    gone = [
        member
        for member in event.members or tuple(draft.where(lambda s: not s.gate_open))
        if member in draft.members and draft.members[member].state.alive
    ]
    again: list[MemberId] = []
    fresh = False
    for member in gone:
        status = draft.members[member]
        ended = status.state is MemberState.STOPPING
        draft.update(
            member,
            state=MemberState.ENDED if ended else MemberState.FAILED,
            reason=event.reason,
            ended_at_s=draft.now_s,
        )
        if not ended:
            again.append(member)
            fresh = fresh or status.attempt == 0
    if not again or draft.outcome is not None:
        return
    sentence = f"could not start {wording.names(again)}: {event.reason}"
    if not fresh:
        for member in again:
            if draft.outcome is None and draft.phase is not Phase.RESTARTING:
                draft.failed(member, sentence)
    elif draft.epoch == 0:
        # What cannot be started even once is a wrong environment, not bad luck.
        draft.conclude(Phase.FAILED, sentence)
    else:
        draft.restart_gang(sentence)


def _stop_requested(draft: StateDraft, event: StopRequested) -> None:
    if draft.outcome is None:
        draft.conclude(Phase.STOPPED, event.reason)
        return
    stopping = draft.where(lambda s: s.state.alive)
    if stopping:
        draft.instructions.append(StopMembers(tuple(stopping), draft.epoch, 0.0))


def _placed(draft: StateDraft, members: Sequence[MemberId]) -> None:
    known = [m for m in dict.fromkeys(members) if m in draft.members]
    fresh = [m for m in known if not draft.members[m].placed]
    for member in fresh:
        draft.update(member, placed=True)
    if draft.phase is Phase.RESTARTING:
        return  # they start with the gang
    if draft.policy.all_or_nothing:
        if not all(status.placed for status in draft.members.values()):
            return
        if draft.phase is not Phase.PENDING:
            return
        fresh = list(draft.members)
    draft.start_batch(fresh)


def _stalled(draft: StateDraft, reason: str) -> None:
    """One that restarts is not one that stands still."""
    if draft.phase is not Phase.RUNNING:
        return
    if draft.policy.on_stall == "fail":
        draft.conclude(Phase.FAILED, reason)
    elif draft.policy.on_stall == "restart":
        draft.restart_gang(reason)


def _check_clock(draft: StateDraft) -> None:
    if draft.outcome is not None:
        return
    limit_s = draft.policy.time_limit_s
    if (
        limit_s is not None
        and draft.started_at_s is not None
        and draft.now_s >= draft.started_at_s + limit_s
    ):
        draft.conclude(Phase.FAILED, f"over its time limit of {format_duration(limit_s)}")
        return
    late = draft.where(
        lambda s: (
            s.state is MemberState.STARTING
            and s.started_at_s is not None
            and draft.now_s >= s.started_at_s + draft.policy.start_timeout_s
        )
    )
    if late:
        _start_timed_out(draft, late)


def _start_timed_out(draft: StateDraft, late: Sequence[MemberId]) -> None:
    batches = {draft.members[member].batch for member in late}
    unready = draft.where(
        lambda s: (
            s.batch in batches
            and not s.ready
            and (s.state is MemberState.STARTING or s.restart_at_s is not None)
        )
    )
    blamed = unready or late
    within = format_duration(draft.policy.start_timeout_s)
    verb = "was" if len(blamed) == 1 else "were"
    what = "ready" if unready else "running"
    sentence = f"{wording.names(blamed)} {verb} not {what} within {within}"
    if any(draft.policy.restart_of(member) is Restart.NEVER for member in blamed):
        draft.conclude(Phase.FAILED, sentence)
    else:
        draft.restart_gang(sentence)
