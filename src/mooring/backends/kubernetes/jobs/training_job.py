"""TrainingJobs as the operator holds them: the object as the server has it, and what it asks for.

A job is checked again here, by the same rules as a file: it may have been written past a webhook
that was down. It is parsed once for each generation of its spec.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mooring import frameworks
from mooring.backends.kubernetes.api.document import (
    Json,
    Key,
    Object,
    find,
    mapping,
    number,
    text,
    texts,
)
from mooring.backends.kubernetes.api.times import parse_time
from mooring.backends.kubernetes.jobs.look import RunPolicy
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.status import decode
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pod_manifest import Owner, guaranteed
from mooring.backends.kubernetes.objects.storage import claim_name
from mooring.backends.kubernetes.objects.use import in_namespace
from mooring.brain.queue.order import CLASSES
from mooring.lifecycle import Policy
from mooring.model.errors import BadInput, Problem
from mooring.model.labels import Labels
from mooring.model.member import Gang, Member
from mooring.model.resources import format_gpus
from mooring.model.volumes import Volume
from mooring.planning import priority_of
from mooring.policy import policy_of
from mooring.spec import TrainingJob
from mooring.spec.kubernetes import CleanPods, Scheduler
from mooring.spec.load import check_job

_NO_LIMIT_S = 10 * 365 * 86_400.0
_MANY_MEMBERS = 256
STOP = f"{names.DOMAIN}/stop"


@dataclass(frozen=True)
class JobView:
    """A TrainingJob of the cluster; `object` is what it was parsed from."""

    object: Object
    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    stop: bool
    created_at_s: float

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def status(self) -> Object:
        return mapping(self.object, "status")

    @property
    def owner(self) -> Owner:
        return Owner(self.name, self.namespace, self.uid)

    @property
    def has_files(self) -> bool:
        return bool(texts(self.object, "metadata", "annotations").get(names.FILES))


@dataclass(frozen=True)
class ParsedJob:
    """A job that passed every check: its members, and how it wants to live."""

    job: TrainingJob
    gang: Gang
    policy: Policy
    priority: int
    queued: Gang
    """The gang among those of all namespaces, as the brain is told of it."""

    @property
    def by_mooring(self) -> bool:
        return self.job.spec.kubernetes.scheduler is Scheduler.MOORING


def parse_view(obj: Object) -> JobView:
    annotations = texts(obj, "metadata", "annotations")
    return JobView(
        object=obj,
        namespace=text(obj, "metadata", "namespace"),
        name=text(obj, "metadata", "name"),
        uid=text(obj, "metadata", "uid"),
        generation=number(obj, "metadata", "generation"),
        deleting=bool(text(obj, "metadata", "deletionTimestamp")),
        stop=STOP in annotations,
        created_at_s=parse_time(text(obj, "metadata", "creationTimestamp")),
    )


def is_large(view: JobView) -> bool:
    """Does it take long to say what the job means? Half a second for 10,000 members."""
    roles = mapping(view.object, "spec", "roles").values()
    return len(roles) + sum(number(role, "replicas") for role in roles) > _MANY_MEMBERS


def parse_training_job(obj: Object) -> ParsedJob:
    """What the object asks for. Raises BadInput with every problem."""
    name, namespace = text(obj, "metadata", "name"), text(obj, "metadata", "namespace")
    source = f"{namespace}/{name}" if namespace else name
    document: dict[str, Json] = {
        "apiVersion": find(obj, "apiVersion"),
        "kind": find(obj, "kind"),
        "metadata": {"name": name, "labels": texts(obj, "metadata", "labels")},
        "spec": find(obj, "spec"),
    }
    job = check_job(document, source)
    gang = frameworks.expand(job, source)
    problems = list(_pod_problems(job, gang))
    if problems:
        raise BadInput(source, problems)
    shaped = replace(gang, members=tuple(_shaped(member) for member in gang.members))
    priority = priority_of(job.spec.priority, CLASSES, source)
    policy = policy_of(job, shaped)
    return ParsedJob(job, shaped, policy, priority, among_all(shaped, (namespace, name)))


def job_key(key: Key) -> str:
    """The name by which the brain tells jobs of different namespaces apart."""
    return "/".join(key)


def among_all(gang: Gang, key: Key) -> Gang:
    """Names of claims and labels hold within a namespace; the brain looks at all of them."""
    namespace = key[0]
    job = job_key(key)

    def there(labels: Labels) -> Labels:
        return in_namespace(labels, namespace) if labels else ()

    members = tuple(
        replace(
            member,
            job=job,
            labels=in_namespace(member.labels, namespace) if member.labels or gang.spreads else (),
            volumes=tuple(_here(volume, namespace) for volume in member.volumes),
        )
        for member in gang.members
    )
    spreads = tuple(
        replace(spread, match_labels=there(spread.match_labels)) for spread in gang.spreads
    )
    return replace(gang, job=job, members=members, spreads=spreads)


def _here(volume: Volume, namespace: str) -> Volume:
    return replace(volume, claim=claim_name(namespace, volume.claim)) if volume.claim else volume


def record_of(view: JobView, parsed: ParsedJob) -> TrainingJobRecord:
    """What the job's status remembers of it."""
    members = [member.id for member in parsed.gang.members]
    return decode(view.status, members, view.created_at_s)


def run_policy_of(view: JobView, parsed: ParsedJob) -> RunPolicy:
    kube = parsed.job.spec.kubernetes
    policy = parsed.policy
    if not parsed.by_mooring:
        # Its pods wait in somebody else's queue, for as long as that takes.
        policy = replace(policy, start_timeout_s=_NO_LIMIT_S)
    return RunPolicy(
        policy=policy,
        bind_timeout_s=kube.bind_timeout_s,
        suspend=kube.suspend,
        stop=view.stop,
        clean_all=kube.clean_pods is CleanPods.ALL,
        ttl_s=kube.ttl_after_finished_s,
        own_scheduler=not parsed.by_mooring,
    )


def _shaped(member: Member) -> Member:
    """A member that must be Guaranteed asks for whole CPUs: the brain counts what the pod will."""
    if not guaranteed(member):
        return member
    whole = -(-member.resources.cpu_millis // 1000) * 1000
    return replace(member, resources=replace(member.resources, cpu_millis=whole))


def _pod_problems(job: TrainingJob, gang: Gang) -> list[Problem]:
    """What a pod needs beyond what a process does."""
    problems = []
    if job.spec.python and not job.spec.python.startswith("/"):
        accepted = "an absolute path inside the image: its pods do not see your machine's files"
        problems.append(Problem("spec.python", repr(job.spec.python), accepted))
    for role, settings in job.spec.roles.items():
        if not (job.spec.image or job.spec.kubernetes.of_role(settings.kubernetes).image):
            problems.append(Problem("spec.image", "nothing", f"an image for the pods of '{role}'"))
        member = next(one for one in gang.members if one.id.role == role)
        if member.resources.gpu_share_millis:
            found = format_gpus(member.resources.gpu_millis)
            accepted = "whole GPUs: device plugins differ in how a pod asks for a share"
            problems.append(Problem(f"spec.roles.{role}.resources.gpu", found, accepted))
        if not guaranteed(member):
            continue
        why = "its pods must be Guaranteed, being pinned or holding devices"
        if not member.resources.memory_bytes:
            path = f"spec.roles.{role}.resources.memory"
            problems.append(Problem(path, "nothing", f"an amount, because {why}"))
        if not member.resources.cpu_millis:
            path = f"spec.roles.{role}.resources.cpu"
            problems.append(Problem(path, "nothing", f"whole CPUs, because {why}"))
    return list({problem.path: problem for problem in problems}.values())
