"""The exact objects that sending a job would lead to, made by the operator's own code.

What only a server can give is left blank: the job's uid, which stands in the owner references and
labels, and the job's token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mooring.backends.kubernetes.api.document import Json, Object, mapping
from mooring.backends.kubernetes.client.cluster import ClusterNow
from mooring.backends.kubernetes.client.files import config_map
from mooring.backends.kubernetes.client.submit import manifest_of, taken
from mooring.backends.kubernetes.jobs import admission
from mooring.backends.kubernetes.jobs.admission import JobCandidate
from mooring.backends.kubernetes.jobs.gang_manifests import needs_token, pod_manifests
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.pools import access_rules
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import (
    JobView,
    ParsedJob,
    job_key,
    parse_training_job,
    parse_view,
)
from mooring.backends.kubernetes.objects.network import network_policy_manifest
from mooring.backends.kubernetes.objects.pod_manifest import Image, Owner, service_manifest
from mooring.backends.kubernetes.objects.token import token_manifest
from mooring.brain import queue
from mooring.spec import TrainingJob

UID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Rendered:
    """The objects in the order in which they come to be.

    `waits` is why there are no pods among them; `notes` is what it would mean for other jobs.
    """

    objects: tuple[dict[str, Json], ...]
    waits: str = ""
    notes: tuple[str, ...] = ()


def render(
    job: TrainingJob,
    namespace: str,
    archive: bytes | None,
    cluster: ClusterNow,
    image: Image,
    now_s: float,
    source: str,
) -> Rendered:
    """Raises BadInput where a submit would."""
    manifest = manifest_of(job, namespace, has_files=archive is not None)
    parsed = parse_training_job(manifest)
    key = (namespace, job.metadata.name)
    if any(view.key == key for view in cluster.jobs):
        raise taken(source, key)
    owner = Owner(job.metadata.name, namespace, UID)
    objects: list[dict[str, Json]] = [manifest]
    if archive is not None:
        objects.append(config_map(owner, archive))
    record, waits, notes = _placed(parsed, arriving(manifest), cluster, now_s)
    objects.append(service_manifest(parsed.job, owner))
    if needs_token(parsed):
        objects.append(token_manifest(owner, token=""))
    objects.append(network_policy_manifest(owner))
    if record is not None:
        members = tuple(record.slots)
        has_files = archive is not None
        objects += pod_manifests(parsed, owner, record, members, image, has_files=has_files)
    return Rendered(tuple(objects), waits, notes)


def arriving(manifest: Object) -> JobView:
    """The job as it would be stored, but for what the server adds."""
    metadata: dict[str, Json] = {**mapping(manifest, "metadata"), "uid": UID}
    return parse_view({**manifest, "metadata": metadata})


def _placed(
    parsed: ParsedJob, view: JobView, cluster: ClusterNow, now_s: float
) -> tuple[TrainingJobRecord | None, str, tuple[str, ...]]:
    """The record of the job once it is admitted, or why it is not."""
    record = TrainingJobRecord(queued_at_s=now_s)
    kube = parsed.job.spec.kubernetes
    if kube.suspend:
        return None, f"{view.name} is suspended (spec.kubernetes.suspend)", ()
    if not parsed.by_mooring:
        note = f"nodes are chosen by '{kube.scheduler.value}'"
        plan = admission.anywhere(parsed.gang)
        return admit(record, plan, parsed.policy, now_s), "", (note,)
    rules = access_rules(cluster.pools)
    barred = rules.refusals(parsed.job, parsed.priority, view.namespace)
    if barred:
        return None, "; ".join(map(str, barred)), ()
    pool = parsed.job.spec.pool or queue.DEFAULT_POOL
    asked = JobCandidate(view, parsed, record, pool, parsed.priority)
    candidates = [*cluster.candidates(), asked]
    decisions = admission.decide(
        candidates,
        cluster.nodes,
        cluster.pods,
        cluster.pools,
        now_s,
        storage=lambda: cluster.storage,
    )
    name = job_key(view.key)
    notes: list[str] = []
    for decision in decisions:
        match decision:
            case queue.Admit(job=job, plan=plan) if job == name:
                made = admit(record, plan, parsed.policy, now_s)
                left = len(parsed.gang.members) - len(made.slots)
                if left:
                    notes.append(f"it starts with {len(made.slots)} members; {left} wait")
                return replace(made, message=""), "", tuple(notes)
            case queue.Wait(job=job, sentence=sentence) if job == name:
                return None, sentence, tuple(notes)
            case queue.Preempt(reason=reason) | queue.Shrink(reason=reason):
                notes.append(reason)
            case _:
                continue
    return None, f"{view.name} waits for the next round of the queue", tuple(notes)
