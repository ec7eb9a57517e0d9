"""Why a job of the cluster is where it is, or waits: the brain on the cluster as it is."""

from __future__ import annotations

from dataclasses import replace

from mooring.backends.kubernetes.client.cluster import ClusterNow
from mooring.backends.kubernetes.jobs import admission
from mooring.backends.kubernetes.jobs.admission import JobCandidate
from mooring.backends.kubernetes.jobs.pools import access_rules
from mooring.backends.kubernetes.jobs.record import Stage
from mooring.backends.kubernetes.jobs.status import decode
from mooring.backends.kubernetes.jobs.training_job import JobView, job_key, parse_training_job
from mooring.backends.kubernetes.objects.use import snapshot
from mooring.brain import queue
from mooring.brain.changes import changes
from mooring.explaining import Explanation
from mooring.model.errors import BadInput
from mooring.model.member import Gang, MemberId
from mooring.model.plan import Refusal


def explain_job(
    cluster: ClusterNow, view: JobView, member: str | None, now_s: float
) -> Explanation:
    """About a job that was submitted, or one that would be."""
    parsed = parse_training_job(view.object)
    members = [member.id for member in parsed.gang.members]
    record = decode(view.status, members, view.created_at_s or now_s)
    key = view.key
    name = job_key(key)
    gang = parsed.queued
    named = _member(gang, member)
    if not parsed.by_mooring:
        chosen = parsed.job.spec.kubernetes.scheduler.value
        note = f"nodes are chosen by '{chosen}', not by Mooring"
        return Explanation(name, named or gang.members[0].id, (), note=note)
    rules = access_rules(cluster.pools)
    barred = rules.refusals(parsed.job, parsed.priority, view.namespace)
    if barred and record.stage is Stage.QUEUED:
        sentence = "; ".join(map(str, barred))
        return Explanation(name, named or gang.members[0].id, (), refused=sentence)
    pods = [pod for pod in cluster.pods if not pod.belongs_to(view.namespace, view.uid)]
    rivals = [rival for rival in cluster.candidates() if rival.view.key != key]
    holding = [rival for rival in rivals if rival.record.stage is Stage.ADMITTED]
    waiting = replace(record, stage=Stage.QUEUED, not_before_s=0.0)
    asked = JobCandidate(
        view, parsed, waiting, parsed.job.spec.pool or queue.DEFAULT_POOL, parsed.priority
    )
    interest = admission.interest_of([*rivals, asked], lambda: cluster.storage)
    state, _ = admission.occupied(holding, cluster.nodes, pods, interest=interest)
    if record.stage is not Stage.QUEUED:
        named = named or gang.members[0].id
        slot = record.slots.get(named)
        note = "" if slot else f"{name} is {record.stage.value}: {record.message}"
        return Explanation(
            name, named, state.explain(gang, named), slot.node if slot else None, note=note
        )
    decisions = admission.decide(
        [*rivals, asked],
        cluster.nodes,
        pods,
        cluster.pools,
        now_s,
        storage=lambda: cluster.storage,
    )
    mine = next((decision for decision in decisions if decision.job == name), None)
    if isinstance(mine, queue.Admit):
        there = {placement.member: placement.slot.node for placement in mine.plan.placements}
        named = named or next(iter(there))
        note = ""
        if record.not_before_s > now_s:
            note = f"it tries again in {record.not_before_s - now_s:.0f} s: {record.message}"
        verdicts = state.explain(gang, named)
        return Explanation(name, named, verdicts, there.get(named), note=note)
    sentence = mine.sentence if isinstance(mine, queue.Wait) else record.message or "it waits"
    answer = state.place(gang)
    advice: tuple[str, ...] = ()
    if isinstance(answer, Refusal):
        named = named or answer.member
        advice = changes(gang, snapshot(cluster.nodes, pods, interest=interest))
    named = named or gang.members[0].id
    return Explanation(name, named, state.explain(gang, named), None, sentence, True, advice)


def _member(gang: Gang, name: str | None) -> MemberId | None:
    if name is None:
        return None
    for member in gang.members:
        if member.name == name:
            return member.id
    known = ", ".join(member.name for member in gang.members[:10])
    raise BadInput.at("moor explain", "MEMBER", repr(name), f"one of {known}")
