"""Pods as Mooring looks at them: what they hold, and what became of their member.

A pod of somebody else is kept as little more than its resources: there are many of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import TypeAlias

from mooring.backends.kubernetes.api.document import (
    Json,
    Object,
    find,
    items,
    mapping,
    number,
    text,
    texts,
)
from mooring.backends.kubernetes.api.resources import TRAINING_JOB
from mooring.backends.kubernetes.api.times import parse_time
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.amounts import amounts
from mooring.backends.kubernetes.objects.storage import mounted_by
from mooring.model.labels import Labels, labels_of
from mooring.model.member import MemberId
from mooring.model.resources import Resources
from mooring.model.volumes import Volume

_LONGEST_LIST, _MOST_IDS = 16_384, 16_384
#: Reasons with which a kubelet turns a pod away that was bound to it: the room was not there.
TURNED_AWAY = frozenset(
    {
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "NodeAffinity",
        "NodePorts",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "InvalidNodeInfo",
    }
)
#: A resource list, as it is written.
_Pairs: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """What Mooring wrote on a pod: whose attempt it is."""

    job: str
    job_uid: str
    member: MemberId
    epoch: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ContainerView:
    """The member's container. `restarts` were made by the kubelet, in place."""

    running: bool = False
    exit_code: int | None = None
    exit_reason: str = ""
    waiting: str = ""
    waiting_message: str = ""
    restarts: int = 0
    started: bool = False


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod. `reason` is the server's or the kubelet's word on why it is not running."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    deleting: bool
    resources: Resources
    host_ports: tuple[int, ...] = ()
    mark: Mark | None = None
    container: ContainerView | None = None
    reason: str = ""
    message: str = ""
    cpus: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    created_at_s: float = 0.0
    whole_cpus: int = 0
    """CPUs that a static CPU manager gives to it alone."""
    labels: Labels = ()
    volumes: tuple[Volume, ...] = ()
    delete_by_s: float = 0.0
    """Of a pod that was told to go: when it should have ended."""

    @property
    def over(self) -> bool:
        """Its containers have ended for good: it holds nothing."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def turned_away(self) -> bool:
        return self.phase == "Failed" and self.reason in TURNED_AWAY

    def belongs_to(self, namespace: str, job_uid: str) -> bool:
        """Is it a member of this very job? A uid alone proves nothing: anybody may write it."""
        mine = self.mark is not None and self.mark.job_uid == job_uid
        return mine and self.namespace == namespace


def parse_pod(obj: Object) -> PodView:
    about, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    labels = texts(about, "labels")
    delete_by = text(about, "deletionTimestamp")
    mark = mark_of(about)
    resources = pod_resources(spec)
    reason, message = text(status, "reason"), text(status, "message")
    container = None
    cpus: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    if mark is not None:
        container = _container(status)
        notes = texts(about, "annotations")
        cpus, gpus = parse_ids(notes.get(names.CPUS, "")), parse_ids(notes.get(names.GPUS, ""))
        # Anybody may write annotations: who names more than it asks for has not been given them.
        cpus = cpus if len(cpus) * 1000 <= resources.cpu_millis else ()
        gpus = gpus if len(gpus) <= resources.gpus else ()
        if not reason:
            reason, message = _why_unscheduled(status)
    return PodView(
        namespace=intern(text(about, "namespace")),
        name=text(about, "name"),
        uid=text(about, "uid"),
        node=intern(text(spec, "nodeName")),
        phase=intern(text(status, "phase")),
        deleting=bool(delete_by),
        resources=resources,
        host_ports=_host_ports(spec),
        mark=mark,
        container=container,
        reason=reason,
        message=message,
        cpus=cpus,
        gpus=gpus,
        created_at_s=parse_time(text(about, "creationTimestamp")),
        whole_cpus=_whole_cpus(spec, status),
        labels=_labels_kept_once(labels_of(labels)),
        volumes=mounted_by(obj),
        delete_by_s=parse_time(delete_by) if delete_by else 0.0,
    )


@lru_cache(maxsize=4096)
def _labels_kept_once(labels: Labels) -> Labels:
    return labels


def pod_resources(spec: Object) -> Resources:
    """What the scheduler counts: all containers together, or the largest init container."""
    return _counted(
        tuple(_requests(item) for item in items(spec, "containers")),
        tuple(_requests(item) for item in items(spec, "initContainers")),
        _pairs(mapping(spec, "overhead")),
    )


@lru_cache(maxsize=65_536)
def _counted(containers: tuple[_Pairs, ...], first: tuple[_Pairs, ...], more: _Pairs) -> Resources:
    """Replicas ask for the same: it is added up, and kept, once."""
    together = sum((amounts(dict(container)) for container in containers), Resources())
    alone = [amounts(dict(one)) for one in first]
    most = Resources(
        max([together.cpu_millis, *(one.cpu_millis for one in alone)]),
        max([together.memory_bytes, *(one.memory_bytes for one in alone)]),
        max([together.gpus, *(one.gpus for one in alone)]),
        extended=tuple(
            (name, max(each.count(name) for each in (together, *alone)))
            for name in {name for each in (together, *alone) for name, _ in each.extended}
        ),
    )
    return most + amounts(dict(more))


def parse_ids(listed: str) -> tuple[int, ...]:
    """`0-2,5` -> (0, 1, 2, 5); nothing for what is no such list. Anybody may write annotations."""
    if len(listed) > _LONGEST_LIST:
        return ()
    ids: list[int] = []
    for part in filter(None, listed.split(",")):
        low, _, high = part.partition("-")
        if not all(one.isdecimal() and len(one) <= 4 for one in (low, high or low)):
            return ()
        ids += range(int(low), int(high or low) + 1)
        if len(ids) > _MOST_IDS:
            return ()
    return tuple(ids)


def _whole_cpus(spec: Object, status: Object) -> int:
    """Of containers that ask for whole CPUs, in a pod that the server calls Guaranteed."""
    if text(status, "qosClass") != "Guaranteed":
        return 0
    listed = (dict(_requests(item)) for item in items(spec, "containers"))
    millis = (amounts(one).cpu_millis for one in listed)
    return sum(asked // 1000 for asked in millis if asked % 1000 == 0)


def _requests(container: Object) -> _Pairs:
    return _pairs(mapping(container, "resources", "requests"))


def _pairs(listed: Object) -> _Pairs:
    return tuple((name, str(amount)) for name, amount in listed.items() if amount is not None)


def _host_ports(spec: Object) -> tuple[int, ...]:
    return tuple(
        port
        for container in items(spec, "containers")
        for item in items(container, "ports")
        if (port := number(item, "hostPort"))
    )


def mark_of(about: Object) -> Mark | None:
    """What a pod's metadata says of it, if it is a pod of the job that it names.

    Anybody who may create a pod can label it. The mark counts only on a pod that the job controls
    and that is called as its member is: the server lets no second one have either of the two. Who
    may write pods in the job's namespace can still forge it; `job_uid` holds in that one alone.
    """
    labels = texts(about, "labels")
    if labels.get(names.MANAGED_BY) != names.MANAGER:
        return None
    counts = [labels.get(key, "") for key in (names.INDEX, names.EPOCH, names.ATTEMPT)]
    if not all(one.isascii() and one.isdigit() for one in counts):
        return None
    index, epoch, attempt = map(int, counts)
    job, uid, member = (
        labels.get(names.JOB, ""),
        labels.get(names.JOB_UID, ""),
        MemberId(labels.get(names.ROLE, ""), index),
    )
    if not uid or text(about, "name") != f"{job}-{member.role}-{member.index}":
        return None
    if not any(_controls(owner, job, uid) for owner in items(about, "ownerReferences")):
        return None
    return Mark(job, uid, member, epoch, attempt)


def _controls(owner: Object, job: str, uid: str) -> bool:
    return (
        find(owner, "controller") is True
        and text(owner, "kind") == TRAINING_JOB.name
        and text(owner, "apiVersion") == TRAINING_JOB.api_version
        and text(owner, "name") == job
        and text(owner, "uid") == uid
    )


def _container(status: Object) -> ContainerView | None:
    listed: Sequence[Object] = items(status, "containerStatuses")
    mine = next((one for one in listed if text(one, "name") == names.CONTAINER), None)
    if mine is None:
        return None
    ended = find(mine, "state", "terminated") or find(mine, "lastState", "terminated")
    waiting = mapping(mine, "state", "waiting")
    running = bool(mapping(mine, "state", "running"))
    return ContainerView(
        running=running,
        exit_code=_exit_code(ended),
        exit_reason=text(ended, "reason") if isinstance(ended, Mapping) else "",
        waiting=text(waiting, "reason"),
        waiting_message=text(waiting, "message"),
        restarts=number(mine, "restartCount"),
        started=running or ended is not None,
    )


def _exit_code(ended: Json) -> int | None:
    return number(ended, "exitCode") if isinstance(ended, Mapping) else None


def _why_unscheduled(status: Object) -> tuple[str, str]:
    for condition in items(status, "conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "status") == "False":
            return text(condition, "reason"), text(condition, "message")
    return "", ""
