"""A round of the queue on the cluster as it is: who is given a place, who gives one back.

The brain decides. Gangs that were admitted hold their places by their record, whether or not all
their pods exist yet; every other pod of the cluster counts as what it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from mooring.backends.kubernetes.jobs.look import admit, release
from mooring.backends.kubernetes.jobs.pool_access import Pools
from mooring.backends.kubernetes.jobs.pools import PoolView, pool_specs
from mooring.backends.kubernetes.jobs.promised import PlacedJob, Promises
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import JobView, ParsedJob, job_key, run_policy_of
from mooring.backends.kubernetes.objects.nodes import NodeView
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.backends.kubernetes.objects.use import Interest, Kept, Uses, snapshot
from mooring.brain import queue
from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.state import ClusterState
from mooring.model.member import Gang
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.volumes import Storage, Volume

#: In place of a node's name: no node is called so.
ANYWHERE = "*"


@dataclass(frozen=True)
class JobCandidate:
    """A job that waits for a place, or holds one."""

    view: JobView
    parsed: ParsedJob
    record: TrainingJobRecord
    pool: str
    priority: int


@dataclass
class LastRound:
    """What the last round worked out of nodes and pods; most of it still holds in the next."""

    uses: Uses = field(default_factory=Uses)
    promises: Promises = field(default_factory=Promises)
    cluster: ClusterState | None = None


def candidate(
    view: JobView, parsed: ParsedJob, record: TrainingJobRecord, pools: Pools | None = None
) -> JobCandidate | None:
    """The job as the queue sees it; None if it neither waits for a place nor holds one, or may not
    have one."""
    if not parsed.by_mooring:
        return None
    run_policy = run_policy_of(view, parsed)
    if record.stage is Stage.QUEUED and (run_policy.suspend or run_policy.stop):
        return None
    if record.stage not in (Stage.QUEUED, Stage.ADMITTED):
        return None
    rules, asked = pools or Pools(), (parsed.job, parsed.priority, view.namespace)
    if record.stage is Stage.QUEUED and rules.refusals(*asked):
        return None
    standing = rules.standing(*asked)
    return JobCandidate(view, parsed, record, standing.pool, standing.priority)


def decide(
    candidates: Sequence[JobCandidate],
    nodes: Iterable[NodeView],
    pods: Iterable[PodView],
    pools: Iterable[PoolView],
    now_s: float,
    profile: Profile = DEFAULT,
    storage: Callable[[], Storage | None] = lambda: None,
    last: LastRound | None = None,
) -> tuple[queue.Decision, ...]:
    """What the queue decides now, in the order in which it is to be carried out."""
    admitted = [
        job_candidate
        for job_candidate in candidates
        if job_candidate.record.stage is Stage.ADMITTED
    ]
    waiting = [
        job_candidate
        for job_candidate in candidates
        if job_candidate.record.stage is Stage.QUEUED and job_candidate.record.not_before_s <= now_s
    ]
    if not waiting and not any(_may_grow(job_candidate) for job_candidate in admitted):
        return ()
    interest = interest_of([*waiting, *admitted], storage)
    cluster, running = occupied(admitted, nodes, pods, profile, interest, last)
    capacity = cluster.capacity
    state = queue.QueueState(
        capacity=capacity,
        waiting=tuple(_queued(job_candidate) for job_candidate in waiting),
        running=tuple(running),
        pools=pool_specs(pools, capacity),
    )
    return queue.decide(state, cluster, now_s)


def record_after(
    decision: queue.Decision, job_candidate: JobCandidate, now_s: float
) -> TrainingJobRecord:
    """The job's record once the decision holds. A gang that grows or shrinks starts anew: its
    members are told of each other when they start."""
    record, policy = job_candidate.record, job_candidate.parsed.policy
    next_epoch = record.state.epoch + 1 if record.state else record.epoch
    match decision:
        case queue.Admit(plan=plan):
            return admit(record, plan, policy, now_s)
        case queue.Grow(plan=plan):
            return admit(replace(record, epoch=next_epoch), plan, policy, now_s)
        case queue.Shrink(members=members, reason=reason):
            left = {member: slot for member, slot in record.slots.items() if member not in members}
            smaller = replace(record, epoch=next_epoch, slots=left)
            return replace(admit(smaller, smaller.plan(""), policy, now_s), message=reason)
        case queue.Preempt(reason=reason):
            return release(record, "Preempted", reason)
        case queue.Wait(sentence=sentence):
            return replace(record, reason="Waiting", message=sentence)


def occupied(
    admitted: Sequence[JobCandidate],
    nodes: Iterable[NodeView],
    pods: Iterable[PodView],
    profile: Profile = DEFAULT,
    interest: Interest | None = None,
    last: LastRound | None = None,
) -> tuple[ClusterState, list[queue.RunningGang]]:
    """The cluster with everybody in their places.

    A gang whose place is no longer there (somebody took its room, or a node is gone) will be taken
    back; until then it holds what its pods hold, and is nobody to bargain with.
    """
    views, there = list(nodes), list(pods)
    holding = list(admitted)
    known = last or LastRound()
    while True:
        inside = [
            PlacedJob(job_candidate.view, job_candidate.parsed, job_candidate.record)
            for job_candidate in holding
        ]
        others = known.promises.others(there, inside)
        found = snapshot(views, others, _kept(holding), interest or Interest(), known.uses)
        cluster = known.cluster = ClusterState(found, profile, known.cluster)
        running, lost = [], []
        for job_candidate in holding:
            gang = _running(job_candidate, found.storage)
            try:
                cluster.assume(gang.gang, gang.plan)
            except ValueError:
                lost.append(job_candidate)
            else:
                running.append(gang)
        if not lost:
            return cluster, running
        uids = {job_candidate.view.uid for job_candidate in lost}
        holding = [job_candidate for job_candidate in holding if job_candidate.view.uid not in uids]
        if not any(pod.mark is not None and pod.mark.job_uid in uids for pod in there):
            return cluster, running


def interest_of(
    candidates: Sequence[JobCandidate], storage: Callable[[], Storage | None]
) -> Interest:
    """What those who may be given a place look at, besides amounts."""
    asking = [
        job_candidate.parsed.queued
        for job_candidate in candidates
        if job_candidate.record.stage is Stage.QUEUED or _may_grow(job_candidate)
    ]
    mounts = any(member.volumes for gang in asking for member in gang.members)
    counts = any(spread.match_labels for gang in asking for spread in gang.spreads)
    names = {
        job_candidate.view.uid: job_key(job_candidate.view.key) for job_candidate in candidates
    }
    return Interest(storage() if mounts else None, counts, names)


def _kept(holding: Iterable[JobCandidate]) -> dict[str, Kept]:
    """CPUs and devices that gangs hold by their records, by node: no other pod can have those."""
    cpus: dict[str, set[int]] = {}
    gpus: dict[str, set[int]] = {}
    for job_candidate in holding:
        for slot in job_candidate.record.slots.values():
            if slot.exclusive:
                cpus.setdefault(slot.node, set()).update(slot.cpus)
            if slot.gpus:
                gpus.setdefault(slot.node, set()).update(slot.gpus)
    return {
        node: Kept(frozenset(cpus.get(node, ())), frozenset(gpus.get(node, ())))
        for node in cpus.keys() | gpus.keys()
    }


def anywhere(gang: Gang) -> Plan:
    """The plan of a gang that another scheduler places."""
    slot = Slot(ANYWHERE, ())
    return Plan(gang.job, tuple(Placement(member.id, slot) for member in gang.members))


def _may_grow(job_candidate: JobCandidate) -> bool:
    return len(job_candidate.record.slots) < len(job_candidate.parsed.gang.members)


def _queued(job_candidate: JobCandidate) -> queue.QueuedGang:
    spec = job_candidate.parsed.job.spec
    return queue.QueuedGang(
        gang=job_candidate.parsed.queued,
        priority=job_candidate.priority,
        pool=job_candidate.pool,
        arrived_s=job_candidate.record.queued_at_s,
        preemptible=spec.preemptible,
        min_available=spec.min_available,
        expected_s=spec.expected_duration_s,
    )


def _running(job_candidate: JobCandidate, storage: Storage | None) -> queue.RunningGang:
    queued = _queued(job_candidate)
    if storage is not None:
        queued = replace(queued, gang=_bound(queued.gang, storage))
    plan = job_candidate.record.plan(job_key(job_candidate.view.key))
    started_s = job_candidate.record.admitted_at_s or job_candidate.record.queued_at_s
    return queue.RunningGang(queued, plan, started_s)


def _bound(gang: Gang, storage: Storage) -> Gang:
    """Without the claims of its own for volumes that were there before: its pods have those, and
    they are not to be had a second time."""
    made = {kind.name for kind in storage.classes if kind.provisioner}

    def stays(volume: Volume) -> bool:
        return volume.own is None or volume.own.storage_class in made

    if all(stays(volume) for member in gang.members for volume in member.volumes):
        return gang
    members = tuple(
        replace(member, volumes=tuple(filter(stays, member.volumes))) for member in gang.members
    )
    return replace(gang, members=members)
