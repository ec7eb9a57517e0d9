"""Jobs of others on a cluster, as their pods tell: who of them has a place, and who waits.

Operators mark the pods of one job by a label; without one, the pods' owner tells them apart. Pods
that a Deployment or a DaemonSet keeps serve on their own and are nobody's gang.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Object, items, mapping, text, texts
from mooring.backends.kubernetes.api.errors import Forbidden
from mooring.backends.kubernetes.api.resources import POD
from mooring.backends.kubernetes.api.times import parse_time
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pods import pod_resources
from mooring.doctor.facts import ClusterFacts, GangFacts

#: The label with a job's name -> what such a job is called where the pods have no owner of that
#: name. The more particular come first: pods of one job may carry several.
_LABELS = (
    ("training.kubeflow.org/job-name", "TrainJob"),
    ("volcano.sh/job-name", "Job.batch.volcano.sh"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("ray.io/cluster", "RayCluster"),
    ("spark-app-selector", "SparkApplication"),
)
#: Of plain Jobs, by new and by old control planes. Their tasks may work alone, unless numbered.
_PLAIN = ("batch.kubernetes.io/job-name", "job-name")
_INDEXED = "batch.kubernetes.io/job-completion-index"
_SERVING = frozenset({"ReplicaSet", "ReplicationController", "DaemonSet", "StatefulSet", "Node"})
_OVER = frozenset({"Succeeded", "Failed"})


async def read_gangs(client: Client, namespace: str | None, now_s: float) -> ClusterFacts:
    """Of all namespaces, or of one."""
    name = namespace or client.access.server
    try:
        pods = await client.list(POD, namespace)
    except Forbidden as error:
        return ClusterFacts(name, unseen=f"pods of others are not shown to this user: {error}")
    return ClusterFacts(name, gangs_of(pods, now_s))


@dataclass
class _Gang:
    kind: str
    together: bool
    holding: list[Object] = field(default_factory=list)
    waiting: list[Object] = field(default_factory=list)


def gangs_of(pods: Iterable[Object], now_s: float) -> tuple[GangFacts, ...]:
    found: dict[tuple[str, str, str], _Gang] = {}
    for pod in pods:
        if text(pod, "status", "phase") in _OVER or text(pod, "metadata", "deletionTimestamp"):
            continue
        group = _group(pod)
        if group is None:
            continue
        kind, name, together = group
        key = (text(pod, "metadata", "namespace"), kind, name)
        gang = found.setdefault(key, _Gang(kind, together))
        (gang.holding if text(pod, "spec", "nodeName") else gang.waiting).append(pod)
    return tuple(_facts(key[0], key[2], gang, now_s) for key, gang in sorted(found.items()))


def _group(pod: Object) -> tuple[str, str, bool] | None:
    """(kind, name, whether its members need each other) of the job that a pod belongs to."""
    labels = texts(pod, "metadata", "labels")
    if names.JOB in labels:
        return None
    owner = next(
        (
            item
            for item in items(pod, "metadata", "ownerReferences")
            if item.get("controller") is True
        ),
        {},
    )
    kind = text(owner, "kind")
    for label, called in _LABELS:
        if labels.get(label):
            # Volcano's jobs are of the kind Job, too.
            named = text(owner, "name") == labels[label] and kind != "Job"
            return kind if named else called, labels[label], True
    for label in _PLAIN:
        if labels.get(label):
            notes = texts(pod, "metadata", "annotations")
            return "Job", labels[label], _INDEXED in notes
    if kind and kind not in _SERVING:
        return kind, text(owner, "name"), True
    return None


def _facts(namespace: str, name: str, gang: _Gang, now_s: float) -> GangFacts:
    return GangFacts(
        namespace=namespace,
        name=name,
        kind=gang.kind,
        holding=len(gang.holding),
        waiting=len(gang.waiting),
        gpus=sum(pod_resources(mapping(pod, "spec")).gpus for pod in gang.holding),
        nodes=tuple(sorted({text(pod, "spec", "nodeName") for pod in gang.holding})),
        waited_s=max((now_s - _since_s(pod) for pod in gang.waiting), default=0.0),
        together=gang.together,
    )


def _since_s(pod: Object) -> float:
    """When the scheduler first found no place, or when it was made."""
    for condition in items(pod, "status", "conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "status") == "False":
            return parse_time(text(condition, "lastTransitionTime")) or _made_s(pod)
    return _made_s(pod)


def _made_s(pod: Object) -> float:
    return parse_time(text(pod, "metadata", "creationTimestamp"))
