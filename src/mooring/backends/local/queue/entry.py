"""A job in the queue: what is remembered of it, and how each thing that happens changes that.

Pure: times are arguments, and who calls writes the result down before acting on it. A job is
queued until it is admitted, then has a supervisor until that process is gone, and waits again or
has ended after that. Each admission has a number; news of another one's supervisor change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from mooring.backends.local.queue.documents import (
    Admission,
    Ending,
    Outcome,
    PromisedPlan,
    SupervisorName,
)
from mooring.model.status import Phase

#: How long a job that did not get its promised room waits before it is placed again: doubled.
_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 300.0
#: Supervisors that die before the run begins are bad luck so often, then something is wrong.
_MOST_FAILED_STARTS = 3


class EntryState(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    """Admitted: its supervisor waits for the promised room, or has just been started."""
    RUNNING = "running"
    """It has a run with a folder."""
    RELEASING = "releasing"
    """It was told to give its place back and will wait again."""
    STOPPING = "stopping"
    """It was told to end for good."""
    ENDED = "ended"

    @property
    def supervised(self) -> bool:
        """A process carries it, or is about to."""
        return self not in (EntryState.QUEUED, EntryState.ENDED)

    @property
    def promised(self) -> bool:
        """What its plan says is its own. The place of one that gives way is promised to others."""
        return self in (EntryState.STARTING, EntryState.RUNNING, EntryState.STOPPING)


@dataclass(frozen=True)
class RestartPolicy:
    """Whether a job whose supervisor is lost waits again, and how often."""

    restarts: bool
    max_restarts: int


@dataclass(frozen=True)
class QueueEntry:
    """One job of the queue. One in the `foreground` has its `supervisor` from the beginning: a
    `moor run` that waits for its turn.

    `members`, `pool` ('': none) and `priority` are what was asked for. `submitted_s` is also what
    its turn is counted from, however often it has to wait again. `epoch` and `restarts` are those
    that its next run begins with. `reason` says how it ended, or why it stops, gives way or waits
    again.
    """

    number: int
    id: str
    name: str
    folder: str
    source: str
    submitted_s: float
    members: int = 0
    pool: str = ""
    priority: int | str = 0
    state: EntryState = EntryState.QUEUED
    foreground: bool = False
    admission: int = 0
    epoch: int = 0
    restarts: int = 0
    run_id: str = ""
    token: str = ""
    plan: PromisedPlan | None = None
    supervisor: SupervisorName | None = None
    admitted_s: float | None = None
    running_s: float | None = None
    ended_s: float | None = None
    phase: Phase = Phase.PENDING
    reason: str = ""
    stop_now: bool = False
    not_before_s: float = 0.0
    taken_back: int = 0
    failed_starts: int = 0

    @property
    def ended(self) -> bool:
        return self.state is EntryState.ENDED


def admitted(entry: QueueEntry, given: Admission, now_s: float) -> QueueEntry:
    """It has been given a place; its supervisor is to be started."""
    return replace(
        entry,
        state=EntryState.STARTING,
        admission=given.number,
        run_id=given.run_id,
        token=given.token,
        plan=given.plan,
        supervisor=entry.supervisor if entry.foreground else None,
        admitted_s=now_s,
        running_s=None,
        phase=Phase.STARTING,
        reason="",
        stop_now=False,
    )


def supervised_by(entry: QueueEntry, name: SupervisorName) -> QueueEntry:
    return replace(entry, supervisor=name)


def running(entry: QueueEntry, now_s: float) -> QueueEntry:
    """Its run has a folder: what it was promised is really its own now."""
    if entry.state is not EntryState.STARTING:
        return replace(entry, running_s=entry.running_s or now_s)
    return replace(
        entry,
        state=EntryState.RUNNING,
        phase=Phase.RUNNING,
        running_s=now_s,
        taken_back=0,
        failed_starts=0,
    )


def preempted(entry: QueueEntry, reason: str) -> QueueEntry:
    return replace(entry, state=EntryState.RELEASING, phase=Phase.STOPPING, reason=reason)


def resized(entry: QueueEntry, plan: PromisedPlan, reason: str) -> QueueEntry:
    """Its gang is to have these slots from now on."""
    number = entry.plan.number + 1 if entry.plan is not None else 1
    return replace(entry, plan=plan.model_copy(update={"number": number}), reason=reason)


def stop_requested(entry: QueueEntry, reason: str, *, now: bool, now_s: float) -> QueueEntry:
    """Somebody wants it to end. One that waits has ended with that."""
    if entry.state is EntryState.ENDED:
        return entry
    if entry.state is EntryState.QUEUED:
        return _ended(entry, Phase.STOPPED, reason, now_s)
    first = entry.state is not EntryState.STOPPING
    return replace(
        entry,
        state=EntryState.STOPPING,
        phase=Phase.STOPPING,
        reason=reason if first else entry.reason,
        stop_now=entry.stop_now or now,
    )


def supervisor_ended(
    entry: QueueEntry, outcome: Outcome, policy: RestartPolicy, now_s: float
) -> QueueEntry:
    """Its supervisor is gone and has said how that ended."""
    if not entry.state.supervised:
        return entry
    after = replace(entry, epoch=outcome.epoch + 1, restarts=outcome.restarts)
    match outcome.ending:
        case Ending.ENDED:
            return _ended(after, outcome.phase, outcome.reason, now_s)
        case Ending.RELEASED:
            if entry.state is EntryState.STOPPING:
                return _ended(after, Phase.STOPPED, entry.reason, now_s)
            return _waits_again(after, outcome.reason, now_s)
        case Ending.INTERRUPTED:
            reason = f"its supervising process was interrupted: {outcome.reason}"
            after = replace(entry, restarts=outcome.restarts)
            return supervisor_lost(after, reason, outcome.epoch, policy, now_s)
        case Ending.NO_ROOM:
            after = replace(entry, taken_back=entry.taken_back + 1)
            return _without_run(after, outcome.reason, _doubled_s(entry.taken_back), now_s)


def supervisor_lost(
    entry: QueueEntry, reason: str, epoch: int | None, policy: RestartPolicy, now_s: float
) -> QueueEntry:
    """Its supervisor is gone without a word, and nothing of the run is left.

    `epoch` is the last one of the run; None: there was no run yet.
    """
    if not entry.state.supervised:
        return entry
    if epoch is None:
        after = replace(entry, failed_starts=entry.failed_starts + 1)
        if after.failed_starts >= _MOST_FAILED_STARTS and entry.state is EntryState.STARTING:
            said = f"{reason}, {after.failed_starts} times before the run began"
            return _ended(after, Phase.FAILED, said, now_s)
        return _without_run(after, reason, _doubled_s(entry.failed_starts), now_s)
    after = replace(entry, epoch=epoch + 1)
    if entry.state is EntryState.STOPPING:
        return _ended(after, Phase.STOPPED, entry.reason, now_s)
    if entry.state is EntryState.RELEASING:
        return _waits_again(after, entry.reason, now_s)
    if not policy.restarts or entry.restarts >= policy.max_restarts or entry.foreground:
        times = f" after {entry.restarts} restarts" if entry.restarts else ""
        return _ended(after, Phase.FAILED, f"{reason}{times}", now_s)
    after = replace(after, restarts=entry.restarts + 1)
    return _waits_again(after, reason, now_s)


def left(entry: QueueEntry, reason: str, now_s: float) -> QueueEntry:
    """The process that waited for its turn waits no more."""
    return _ended(entry, Phase.STOPPED, reason, now_s)


def failed(entry: QueueEntry, reason: str, now_s: float) -> QueueEntry:
    """It cannot go on."""
    return _ended(entry, Phase.FAILED, reason, now_s)


def _without_run(entry: QueueEntry, reason: str, wait_s: float, now_s: float) -> QueueEntry:
    """An admission that led to no run."""
    if entry.state is EntryState.STOPPING:
        return _ended(entry, Phase.STOPPED, entry.reason, now_s)
    if entry.foreground:
        return _ended(entry, Phase.STOPPED, reason, now_s)
    if entry.state is EntryState.RELEASING:
        return _waits_again(entry, entry.reason, now_s)
    return _waits_again(entry, reason, now_s + wait_s)


def _waits_again(entry: QueueEntry, reason: str, not_before_s: float) -> QueueEntry:
    if entry.foreground:
        # Whoever waits for it in front of a terminal is told; a process that is gone cannot wait.
        return _ended(entry, Phase.STOPPED, reason, not_before_s)
    return replace(
        entry,
        state=EntryState.QUEUED,
        phase=Phase.PENDING,
        reason=reason,
        plan=None,
        supervisor=None,
        admitted_s=None,
        running_s=None,
        not_before_s=not_before_s,
        stop_now=False,
    )


def _ended(entry: QueueEntry, phase: Phase, reason: str, now_s: float) -> QueueEntry:
    return replace(
        entry,
        state=EntryState.ENDED,
        phase=phase,
        reason=reason,
        plan=None,
        supervisor=None,
        ended_s=now_s,
    )


def _doubled_s(times_before: int) -> float:
    return min(_FIRST_WAIT_S * 2.0 ** min(times_before, 16), _LONGEST_WAIT_S)
