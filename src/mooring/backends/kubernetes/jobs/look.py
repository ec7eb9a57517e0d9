"""One look at one job: what its record becomes, and what is to be done about its pods.

Pure and level-triggered: the answer depends on the record, the pods and the time alone. Who
carries it out writes the record first; if it dies in between, the next look says the same again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mooring import lifecycle
from mooring.backends.kubernetes.jobs.observe import current, events
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.lifecycle import JobState, Policy, Stalled, StopRequested, Tick
from mooring.model.member import MemberId
from mooring.model.plan import Plan
from mooring.model.status import MemberState, Phase

#: How long a gang that did not get its room waits before it is placed again: doubled each time.
_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 300.0
#: A chain of events may make further ones possible (ready -> gate -> running): never many.
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class Removal:
    """Delete this very pod."""

    pod: PodView
    grace_s: float


@dataclass(frozen=True)
class NextStep:
    """The record after a look, and what follows from it."""

    record: TrainingJobRecord
    create: tuple[MemberId, ...] = ()
    remove: tuple[Removal, ...] = ()
    wake_at_s: float | None = None
    delete_job: bool = False
    outdated: bool = False
    """Pods know of a later start than the record does: it must be read again, nothing done."""


@dataclass(frozen=True)
class RunPolicy:
    """What the job's author says about its life on the cluster."""

    policy: Policy
    bind_timeout_s: float = 60.0
    suspend: bool = False
    stop: bool = False
    clean_all: bool = False
    ttl_s: float | None = None
    own_scheduler: bool = False
    """Somebody else's scheduler decides when the pods are bound: there is no time limit to it."""


@dataclass(frozen=True)
class ObservedPods:
    """The job's pods by member, as the cache has them."""

    job_uid: str
    job_created_at_s: float = float("inf")
    pods: Mapping[MemberId, PodView] = field(default_factory=dict)
    stalled: Stalled | None = None
    """It has made no step for as long as its author allows."""


def admit(record: TrainingJobRecord, plan: Plan, policy: Policy, now_s: float) -> TrainingJobRecord:
    """The record of a job that has been given its place."""
    slots = {placement.member: placement.slot for placement in plan.placements}
    state, _ = lifecycle.begin(
        tuple(slots), policy, tuple(slots), now_s, epoch=record.epoch, restarts=record.restarts
    )
    return replace(
        record,
        stage=Stage.ADMITTED,
        state=state,
        slots=slots,
        reason="Admitted",
        message=f"{len(slots)} members on {len({slot.node for slot in slots.values()})} nodes",
        admitted_at_s=now_s,
        running_at_s=None,
    )


def release(record: TrainingJobRecord, reason: str, message: str) -> TrainingJobRecord:
    """The record of a job that must give its place back; one whose end is known just ends."""
    if record.state is not None and record.state.outcome is not None:
        return record
    return replace(record, stage=Stage.RELEASING, reason=reason, message=message)


def take_back(record: TrainingJobRecord, message: str, now_s: float) -> TrainingJobRecord:
    """The record of a gang that did not get the room it was promised; it waits longer each time."""
    wait_s = min(_FIRST_WAIT_S * 2**record.taken_back, _LONGEST_WAIT_S)
    return replace(
        release(record, "TakenBack", message),
        taken_back=record.taken_back + 1,
        not_before_s=now_s + wait_s,
    )


def look(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> NextStep:
    """What to do next for this job."""
    if _outdated(record, observed):
        return NextStep(record, outdated=True)
    step = _look(record, run_policy, observed, now_s)
    return replace(
        step, remove=tuple(removal for removal in step.remove if _ours(removal.pod, observed))
    )


def _outdated(record: TrainingJobRecord, observed: ObservedPods) -> bool:
    """Is this record older than what it led to? A server that lags may show it after a restart,
    with the pods of today, and what it says of them would be wrong."""
    waits = record.stage in (Stage.QUEUED, Stage.SUSPENDED)
    last = record.epoch - 1 if waits or record.state is None else record.state.epoch
    return any(
        pod.mark is not None and pod.mark.job_uid == observed.job_uid and pod.mark.epoch > last
        for pod in observed.pods.values()
    )


def _ours(pod: PodView, observed: ObservedPods) -> bool:
    """May we remove it? Not if it may be of a later job of the same name: one that is older than
    this job is of an earlier one, on its way out already."""
    assert pod.mark is not None
    return pod.mark.job_uid == observed.job_uid or pod.created_at_s < observed.job_created_at_s


def _look(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> NextStep:
    if record.stage in (Stage.QUEUED, Stage.SUSPENDED):
        return _waiting(record, run_policy, observed, now_s)
    if record.stage is Stage.RELEASING:
        return _releasing(record, run_policy, observed, now_s)
    if record.stage is Stage.FINISHED:
        return _finished(record, run_policy, observed, now_s)
    return _admitted(record, run_policy, observed, now_s)


def _waiting(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> NextStep:
    if run_policy.stop:
        record = replace(
            record,
            stage=Stage.FINISHED,
            state=JobState(Phase.STOPPED, {}, record.epoch, record.restarts),
            reason="Stopped",
            message="stopped while it was waiting",
            finished_at_s=now_s,
        )
    elif run_policy.suspend and record.stage is Stage.QUEUED:
        record = replace(
            record, stage=Stage.SUSPENDED, reason="Suspended", message="suspended by its author"
        )
    elif not run_policy.suspend and record.stage is Stage.SUSPENDED:
        record = replace(record, stage=Stage.QUEUED, reason="Queued", message="resumed")
    left = tuple(Removal(pod, 0.0) for pod in observed.pods.values() if not pod.deleting)
    return NextStep(record, remove=left)


def _releasing(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> NextStep:
    if not observed.pods:
        state = record.state
        again = replace(
            record,
            stage=Stage.SUSPENDED if run_policy.suspend else Stage.QUEUED,
            epoch=(state.epoch if state else record.epoch) + 1,
            restarts=state.restarts if state else record.restarts,
            state=None,
            slots={},
            admitted_at_s=None,
            running_at_s=None,
        )
        return NextStep(again)
    remove = tuple(
        Removal(pod, run_policy.policy.grace_s)
        for pod in observed.pods.values()
        if not pod.deleting
    )
    return NextStep(record, remove=remove)


def _finished(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> NextStep:
    remove = tuple(
        Removal(pod, run_policy.policy.grace_s)
        for pod in observed.pods.values()
        if not pod.deleting and (run_policy.clean_all or not pod.over)
    )
    if run_policy.ttl_s is None or record.finished_at_s is None:
        return NextStep(record, remove=remove)
    due_s = record.finished_at_s + run_policy.ttl_s
    return NextStep(record, remove=remove, wake_at_s=due_s, delete_job=now_s >= due_s)


def _admitted(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> NextStep:
    assert record.state is not None
    if run_policy.suspend and record.state.outcome is None:
        return _releasing(
            release(record, "Suspended", "suspended by its author"), run_policy, observed, 0
        )
    lost = _no_room(record, run_policy, observed, now_s)
    if lost is not None:
        return _releasing(take_back(record, lost, now_s), run_policy, observed, now_s)
    state = _advance(record, run_policy, observed, now_s)
    record = _with_state(record, state, now_s)
    if record.stage is Stage.FINISHED:
        return _finished(record, run_policy, observed, now_s)
    create, remove = _differences(state, run_policy, observed)
    wake_at_s = lifecycle.next_wakeup_s(state, run_policy.policy)
    if not run_policy.own_scheduler and state.phase is Phase.STARTING:
        limit_s = _bind_limit_s(record, run_policy, observed)
        wake_at_s = min(filter(None, (wake_at_s, limit_s)), default=None)
    return NextStep(record, create=create, remove=remove, wake_at_s=wake_at_s)


def _advance(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> JobState:
    """Tell the lifecycle what the pods show, until nothing new follows from it."""
    state = record.state
    assert state is not None
    if run_policy.stop and state.outcome is None:
        state, _ = lifecycle.handle(state, run_policy.policy, StopRequested("stopped"), now_s)
    if observed.stalled is not None:
        state, _ = lifecycle.handle(state, run_policy.policy, observed.stalled, now_s)
    for _ in range(_MOST_ROUNDS):
        before = state
        seen_running = record.running_at_s is not None
        for event in events(state, observed.pods, observed.job_uid, all_seen=seen_running):
            state, _ = lifecycle.handle(state, run_policy.policy, event, now_s)
        state, _ = lifecycle.handle(state, run_policy.policy, Tick(), now_s)
        if state == before:
            break
    return state


def _with_state(record: TrainingJobRecord, state: JobState, now_s: float) -> TrainingJobRecord:
    running_at_s = record.running_at_s
    if state.phase is Phase.RUNNING and running_at_s is None:
        running_at_s = now_s
    if state.phase is Phase.RESTARTING:
        running_at_s = None
    if not state.phase.final:
        told = state.reason if state.phase in (Phase.RESTARTING, Phase.STOPPING) else ""
        starting = state.phase is Phase.STARTING
        return replace(
            record,
            state=state,
            running_at_s=running_at_s,
            reason=record.reason if starting else state.phase.value,
            message=told or record.message,
        )
    return replace(
        record,
        stage=Stage.FINISHED,
        state=state,
        running_at_s=running_at_s,
        reason=state.phase.value,
        message=state.reason,
        finished_at_s=now_s,
    )


def _no_room(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods, now_s: float
) -> str | None:
    """Why the place that the gang was given turned out not to be there; None if it is."""
    state = record.state
    assert state is not None
    if state.phase is not Phase.STARTING or state.outcome is not None:
        return None
    for member, pod in observed.pods.items():
        if current(pod, observed.job_uid, state.epoch) and pod.turned_away:
            return f"{pod.node} turned {member} away: {pod.message or pod.reason}"
    if run_policy.own_scheduler:
        return None
    for member, pod in observed.pods.items():
        if (
            current(pod, observed.job_uid, state.epoch)
            and not pod.node
            and not pod.over
            and now_s >= pod.created_at_s + run_policy.bind_timeout_s
        ):
            said = pod.message or "the cluster's scheduler does not say why"
            return f"{member} was not bound in {run_policy.bind_timeout_s:.0f} s: {said}"
    return None


def _bind_limit_s(
    record: TrainingJobRecord, run_policy: RunPolicy, observed: ObservedPods
) -> float | None:
    unbound = [pod.created_at_s for pod in observed.pods.values() if not pod.node and not pod.over]
    return min(unbound) + run_policy.bind_timeout_s if unbound else None


def _differences(
    state: JobState, run_policy: RunPolicy, observed: ObservedPods
) -> tuple[tuple[MemberId, ...], tuple[Removal, ...]]:
    """Pods that must be made, and pods that must go."""
    create: list[MemberId] = []
    remove: list[Removal] = []
    grace_s = run_policy.policy.grace_s
    for member, pod in observed.pods.items():
        status = state.members.get(member)
        if pod.deleting:
            continue
        if not current(pod, observed.job_uid, state.epoch) or status is None:
            remove.append(Removal(pod, 0.0 if pod.over else grace_s))
        elif status.state is MemberState.STOPPING:
            remove.append(Removal(pod, grace_s))
        elif status.state is MemberState.STARTING and pod.over:
            # Its attempt is over and a new one is due: only one pod of a name can be there.
            remove.append(Removal(pod, 0.0))
    for member, status in state.members.items():
        if status.state is MemberState.STARTING and member not in observed.pods:
            create.append(member)
    return tuple(create), tuple(remove)
