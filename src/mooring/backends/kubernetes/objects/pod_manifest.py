"""One attempt of a member as a pod manifest, and the service that gives its peers names.

Pods conform to the `restricted` Pod Security Standard. Members that are pinned or hold devices
become Guaranteed: only then does a static CPU manager give them CPUs of their own, and leave
them their devices (a Burstable pod with GPUs loses them when the kubelet next updates cpusets).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mooring.backends.base import Order
from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.amounts import GPU_RESOURCES
from mooring.backends.kubernetes.objects.contract import EpochSettings, contract, travels_packed
from mooring.backends.kubernetes.objects.scheduling import SchedulingGroup, scheduling_of
from mooring.model.cluster import Toleration, format_cpus
from mooring.model.member import Gang, Member, Pinning, Restart
from mooring.model.resources import Counts, format_cpu
from mooring.spec import TrainingJob
from mooring.spec.kubernetes import PodSpec

_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_DEFAULT_USER = 1000
#: What copying the launcher takes; it never makes a pod larger than its member.
_INIT_CPU_MILLIS = 100
_INIT_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Owner:
    """The TrainingJob that everything belongs to."""

    name: str
    namespace: str
    uid: str

    def reference(self) -> dict[str, Json]:
        return {
            "apiVersion": "mooring.dev/v1",
            "kind": "TrainingJob",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }


@dataclass(frozen=True)
class Image:
    """The image that carries the launcher, and where in it."""

    name: str
    launcher: str = "/opt/mooring/launcher.pyz"
    pull_policy: str | None = None


def service_manifest(job: TrainingJob, owner: Owner) -> dict[str, Json]:
    """One headless service a job: names for its pods, also before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service_name(owner.name),
            "namespace": owner.namespace,
            "labels": {names.MANAGED_BY: names.MANAGER, names.JOB: owner.name},
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.JOB_UID: owner.uid},
            "ports": [{"name": "meeting", "port": names.MEETING_PORT, "protocol": "TCP"}],
        },
    }


def guaranteed(member: Member) -> bool:
    return member.pinning is Pinning.EXCLUSIVE or member.resources.gpus > 0


def pod_manifest(
    job: TrainingJob,
    gang: Gang,
    owner: Owner,
    order: Order,
    around: EpochSettings,
    image: Image,
) -> dict[str, Json]:
    """The pod of one attempt, exactly as it is sent."""
    member = order.member
    pods = around.pods[member.id.role]
    kube = job.spec.kubernetes
    group = SchedulingGroup(owner.name, owner.uid, order.epoch)
    scheduling = scheduling_of(kube, gang, member, order.slot, group)
    labels: dict[str, Json] = {
        **pods.labels,
        **scheduling.labels,
        names.MANAGED_BY: names.MANAGER,
        names.JOB: owner.name,
        names.JOB_UID: owner.uid,
        names.ROLE: member.id.role,
        names.INDEX: str(member.id.index),
        names.EPOCH: str(order.epoch),
        names.ATTEMPT: str(order.attempt),
    }
    spec: dict[str, Json] = {
        "hostname": member.hostname,
        "subdomain": names.service_name(owner.name),
        "restartPolicy": "OnFailure" if member.restart is Restart.MEMBER else "Never",
        "terminationGracePeriodSeconds": int(job.spec.grace_period_s + 0.999) + 5,
        "automountServiceAccountToken": kube.service_account_name is not None,
        "enableServiceLinks": False,
        "securityContext": _pod_security(job),
        "initContainers": [_init_container(member, image)],
        "containers": [_container(job, order, pods, around)],
        "volumes": _volumes(job, member, pods, around, owner),
    }
    if member.tolerations:
        spec["tolerations"] = [_toleration(toleration) for toleration in member.tolerations]
    spec |= scheduling.spec
    if kube.service_account_name:
        spec["serviceAccountName"] = kube.service_account_name
    if kube.runtime_class_name:
        spec["runtimeClassName"] = kube.runtime_class_name
    if kube.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in kube.image_pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": member.hostname,
            "namespace": owner.namespace,
            "labels": labels,
            "annotations": {**pods.annotations, **scheduling.annotations, **_hints(order)},
            "ownerReferences": [owner.reference()],
        },
        "spec": spec,
    }


def _hints(order: Order) -> dict[str, Json]:
    slot = order.slot
    hints: dict[str, Json] = {}
    if slot.exclusive and slot.cpus:
        hints[names.CPUS] = format_cpus(slot.cpus)
    if slot.cells:
        hints[names.CELLS] = format_cpus(slot.cells)
    if slot.gpus:
        hints[names.GPUS] = format_cpus(slot.gpus)
    return hints


def _toleration(toleration: Toleration) -> dict[str, Json]:
    written = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {key: value for key, value in written.items() if value}


def _pod_security(job: TrainingJob) -> dict[str, Json]:
    asked = job.spec.kubernetes.security_context
    group = asked.run_as_group if asked.run_as_group is not None else _DEFAULT_USER
    context: dict[str, Json] = {
        "runAsNonRoot": True,
        "runAsUser": asked.run_as_user or _DEFAULT_USER,
        "runAsGroup": group,
        "fsGroup": asked.fs_group if asked.fs_group is not None else group,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if asked.supplemental_groups:
        context["supplementalGroups"] = list(asked.supplemental_groups)
    return context


def _restricted() -> dict[str, Json]:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _init_container(member: Member, image: Image) -> dict[str, Json]:
    container: dict[str, Json] = {
        "name": names.INIT_CONTAINER,
        "image": image.name,
        "command": ["cp", image.launcher, names.LAUNCHER],
        "securityContext": _restricted(),
        "volumeMounts": [{"name": names.VOLUME, "mountPath": names.HOME}],
    }
    if image.pull_policy:
        container["imagePullPolicy"] = image.pull_policy
    resources = _resources(
        min(member.resources.cpu_millis, _INIT_CPU_MILLIS),
        min(member.resources.memory_bytes, _INIT_MEMORY_BYTES),
        0,
        (),
        whole=guaranteed(member),
    )
    if resources:
        container["resources"] = resources
    return container


def _container(
    job: TrainingJob, order: Order, pods: PodSpec, around: EpochSettings
) -> dict[str, Json]:
    member = order.member
    carried = {
        name: value
        for name, value in order.launch.env.items()
        if _ENV_NAME.fullmatch(name) and not travels_packed(order, name)
    }
    extra = {name: v for name, v in order.launch.env.items() if name not in carried}
    env: list[Json] = [{"name": name, "value": _literal(v)} for name, v in carried.items()]
    env += _from_elsewhere(pods)
    secret = {"name": names.token_secret_name(member.job, around.job_uid), "key": "token"}
    if job.spec.gang:
        env.append({"name": names.TOKEN_ENV, "valueFrom": {"secretKeyRef": secret}})
    if around.has_agents:
        env.append({"name": names.AGENT_TOKEN_ENV, "valueFrom": {"secretKeyRef": secret}})
    env.append({"name": "MOORING_CONTRACT", "value": _literal(contract(job, order, around, extra))})
    mounts: list[Json] = [
        {"name": names.VOLUME, "mountPath": names.HOME},
        {"name": names.SHM_VOLUME, "mountPath": "/dev/shm"},
        *pods.volume_mounts,
    ]
    if around.has_files:
        mounts.append({"name": names.FILES_VOLUME, "mountPath": names.FILES_HOME, "readOnly": True})
    container: dict[str, Json] = {
        "name": names.CONTAINER,
        "image": pods.image or job.spec.image,
        "command": [_literal(pods.python or "python3"), names.LAUNCHER, "pod"],
        "env": env,
        "ports": [
            {"name": name, "containerPort": port}
            for name, port in around.addresses[member.id].ports.items()
        ],
        "securityContext": _restricted(),
        "volumeMounts": mounts,
        # The last lines of a member that failed are shown with the job.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    resources = _resources(
        member.resources.cpu_millis,
        member.resources.memory_bytes,
        member.resources.gpus,
        member.resources.extended,
        whole=guaranteed(member),
    )
    if resources:
        container["resources"] = resources
    if pods.image_pull_policy is not None:
        container["imagePullPolicy"] = pods.image_pull_policy.value
    if pods.env_from:
        container["envFrom"] = list(pods.env_from)
    return container


def _from_elsewhere(pods: PodSpec) -> list[Json]:
    """Variables whose values are not the job's: they are named, never copied."""
    sources: list[tuple[str, Json]] = []
    for name, secret in pods.secret_env.items():
        sources.append((name, {"secretKeyRef": {"name": secret.secret, "key": secret.key}}))
    for name, entry in pods.config_map_env.items():
        sources.append((name, {"configMapKeyRef": {"name": entry.config_map, "key": entry.key}}))
    for name, path in pods.field_env.items():
        sources.append((name, {"fieldRef": {"fieldPath": path}}))
    return [{"name": name, "valueFrom": source} for name, source in sources]


def _resources(
    cpu_millis: int, memory_bytes: int, gpus: int, extended: Counts, *, whole: bool
) -> dict[str, Json]:
    """Requests and limits. Memory is always a limit; CPU only where the pod is Guaranteed."""
    requests: dict[str, Json] = {}
    limits: dict[str, Json] = {}
    if cpu_millis:
        requests["cpu"] = format_cpu(cpu_millis)
        if whole:
            limits["cpu"] = format_cpu(cpu_millis)
    if memory_bytes:
        requests["memory"] = limits["memory"] = str(memory_bytes)
    if gpus:
        requests[GPU_RESOURCES[0]] = limits[GPU_RESOURCES[0]] = str(gpus)
    for name, count in extended:
        requests[name] = limits[name] = str(count)
    resources: dict[str, Json] = {}
    if requests:
        resources["requests"] = requests
    if limits:
        resources["limits"] = limits
    return resources


def _volumes(
    job: TrainingJob, member: Member, pods: PodSpec, around: EpochSettings, owner: Owner
) -> list[Json]:
    shm: dict[str, Json] = {"medium": "Memory"}
    size = pods.shared_memory
    if size is None and member.resources.memory_bytes:
        size = member.resources.memory_bytes // 2
    if size:
        shm["sizeLimit"] = str(size)
    volumes: list[Json] = [
        {"name": names.VOLUME, "emptyDir": {}},
        {"name": names.SHM_VOLUME, "emptyDir": shm},
        *pods.volumes,
    ]
    if around.has_files:
        volumes.append({"name": names.FILES_VOLUME, "configMap": {"name": f"{owner.name}-files"}})
    return volumes


def _literal(value: str) -> str:
    """Kubernetes replaces $(NAME) and shortens $$ in variables and commands; this keeps both."""
    return value.replace("$", "$$")
