"""What of a job only makes sense in pods: images, accounts, volumes, clean-up, who schedules.

Volumes, mounts and variables from secrets are written as in a pod and passed on as they are: the
API server checks them. Everything here is without effect where members run as processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema, model_validator

from mooring.spec.base import Rejection, SpecModel, describe, reject, rejected
from mooring.spec.fields import Duration, EnvName, FilledText, Label, Memory, Text, Whole, YesNo

_DEEPEST = 16
#: The names of what Mooring itself adds to a pod.
RESERVED_VOLUMES = ("mooring", "mooring-shm")
RESERVED_MOUNTS = ("/mooring", "/dev/shm")
RESERVED_LABEL_PREFIX = "mooring.dev/"


def _check_object(value: object) -> object:
    if not isinstance(value, dict) or not value:
        raise reject(value, "a mapping, as in a pod")
    if _is_deeper(value, _DEEPEST):
        raise reject("a mapping of more levels", f"a mapping at most {_DEEPEST} levels deep")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    """Whether mappings and lists are nested beyond `levels`. It looks no further than that: what
    comes from outside may be nested deeper than Python can recurse."""
    here = [value]
    for _ in range(levels):
        below: list[object] = []
        for part in here:
            if isinstance(part, dict):
                below += part.values()
            elif isinstance(part, list):
                below += part
        here = below
    return any(isinstance(part, dict | list) for part in here)


#: A piece of a pod that is passed on as it is.
PodPart = Annotated[
    dict[str, JsonValue],
    BeforeValidator(_check_object),
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]


class PullPolicy(StrEnum):
    """When the node fetches the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Scheduler(StrEnum):
    """Who decides where and when the pods run."""

    MOORING = "mooring"
    DEFAULT = "default"
    VOLCANO = "volcano"
    KUEUE = "kueue"


class CleanPods(StrEnum):
    """Which pods are removed when the job is over."""

    RUNNING = "running"
    ALL = "all"


class SecretKey(SpecModel):
    """One key of a secret of the job's namespace."""

    secret: FilledText = Field(description="The secret's name.", examples=["storage"])
    key: FilledText = Field(description="The key in it.", examples=["token"])


class ConfigMapKey(SpecModel):
    """One key of a config map of the job's namespace."""

    config_map: FilledText = Field(
        alias="configMap", description="The config map's name.", examples=["settings"]
    )
    key: FilledText = Field(description="The key in it.", examples=["batch-size"])


#: What a pod can be told about itself as a variable.
_POD_FIELD = re.compile(
    r"metadata\.(name|namespace|uid)|spec\.(nodeName|serviceAccountName)|"
    r"status\.(hostIP|hostIPs|podIP|podIPs)|metadata\.(labels|annotations)\['[^'\s]{1,317}'\]",
    re.ASCII,
)


def _check_pod_field(value: object) -> str:
    if not isinstance(value, str) or _POD_FIELD.fullmatch(value) is None:
        accepted = (
            "metadata.name, .namespace, .uid, .labels['KEY'] or .annotations['KEY'], spec.nodeName "
            "or .serviceAccountName, status.hostIP or .podIP"
        )
        raise rejected([Rejection(describe(value), accepted)])
    return value


PodField = Annotated[str, BeforeValidator(_check_pod_field)]


class PodSecurity(SpecModel):
    """Whom the processes run as. The rest conforms to the `restricted` Pod Security Standard."""

    run_as_user: Annotated[Whole, Field(ge=1, le=2**31 - 1)] | None = Field(
        None,
        alias="runAsUser",
        description="The user id, not 0. Not given: 1000.",
        examples=[1000],
    )
    run_as_group: Annotated[Whole, Field(ge=0, le=2**31 - 1)] | None = Field(
        None, alias="runAsGroup", description="The group id. Not given: 1000.", examples=[1000]
    )
    fs_group: Annotated[Whole, Field(ge=0, le=2**31 - 1)] | None = Field(
        None,
        alias="fsGroup",
        description="The group that owns mounted volumes. Not given: as `runAsGroup`.",
        examples=[1000],
    )
    supplemental_groups: tuple[Annotated[Whole, Field(ge=0, le=2**31 - 1)], ...] = Field(
        (), alias="supplementalGroups", description="Further groups.", examples=[[4000]]
    )


class PodSpec(SpecModel):
    """What the pods of a role, or of every role, have beyond what runs in them."""

    image: FilledText | None = Field(
        None,
        description="The container image. Not given: the job's `image`.",
        examples=["registry.example/train:1"],
    )
    image_pull_policy: PullPolicy | None = Field(
        None,
        alias="imagePullPolicy",
        description="When the node fetches the image. Not given: as Kubernetes does.",
        examples=["IfNotPresent"],
    )
    python: FilledText | None = Field(
        None,
        description="The Python (3.8 or later) in the image that starts the launcher. Not given: "
        "`python3`.",
        examples=["/usr/bin/python3"],
    )
    env_from: tuple[PodPart, ...] = Field(
        (),
        alias="envFrom",
        description="Variables from whole secrets or config maps, as in a pod.",
        examples=[[{"configMapRef": {"name": "settings"}}]],
    )
    secret_env: dict[EnvName, SecretKey] = Field(
        {},
        alias="secretEnv",
        description="Variables from single keys of secrets.",
        examples=[{"TOKEN": {"secret": "storage", "key": "token"}}],
    )
    config_map_env: dict[EnvName, ConfigMapKey] = Field(
        {},
        alias="configMapEnv",
        description="Variables from single keys of config maps.",
        examples=[{"BATCH": {"configMap": "settings", "key": "batch-size"}}],
    )
    field_env: dict[EnvName, PodField] = Field(
        {},
        alias="fieldEnv",
        description="Variables from fields of the pod itself, by their paths.",
        examples=[{"NODE": "spec.nodeName"}],
    )
    volumes: tuple[PodPart, ...] = Field(
        (),
        description="Volumes, as in a pod.",
        examples=[[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]],
    )
    volume_mounts: tuple[PodPart, ...] = Field(
        (),
        alias="volumeMounts",
        description="Where the volumes are mounted, as in a container.",
        examples=[[{"name": "data", "mountPath": "/data"}]],
    )
    shared_memory: Memory | None = Field(
        None,
        alias="sharedMemory",
        description="The size of /dev/shm; it counts towards the member's memory. Not given: "
        "half of the member's memory, or without one as large as the node allows.",
        examples=["2Gi"],
    )
    labels: dict[FilledText, Text] = Field(
        {}, description="Further labels of the pods.", examples=[{"team": "ranking"}]
    )
    annotations: dict[FilledText, Text] = Field(
        {}, description="Further annotations of the pods.", examples=[{"example.com/cost": "7"}]
    )

    @model_validator(mode="after")
    def _leaves_ours_alone(self) -> Self:
        rejections = [*self._bad_volumes(), *self._bad_mounts(), *self._bad_labels()]
        if rejections:
            raise rejected(rejections)
        return self

    def _bad_volumes(self) -> Iterator[Rejection]:
        for index, volume in enumerate(self.volumes):
            name = volume.get("name")
            if not isinstance(name, str) or not name:
                yield Rejection(describe(name), "a volume's name", ("volumes", index, "name"))
            elif name in RESERVED_VOLUMES:
                yield Rejection(
                    describe(name),
                    f"another name: {', '.join(RESERVED_VOLUMES)} are Mooring's own",
                    ("volumes", index, "name"),
                )

    def _bad_mounts(self) -> Iterator[Rejection]:
        for index, mount in enumerate(self.volume_mounts):
            path = mount.get("mountPath")
            if not isinstance(path, str) or not path.startswith("/"):
                found: Any = path
                yield Rejection(
                    describe(found), "an absolute path", ("volumeMounts", index, "mountPath")
                )
            elif path.rstrip("/") in RESERVED_MOUNTS:
                yield Rejection(
                    describe(path),
                    f"another path: {', '.join(RESERVED_MOUNTS)} are Mooring's own",
                    ("volumeMounts", index, "mountPath"),
                )

    def _bad_labels(self) -> Iterator[Rejection]:
        for field, names in (("labels", self.labels), ("annotations", self.annotations)):
            for name in names:
                if name.startswith(RESERVED_LABEL_PREFIX):
                    accepted = f"another name: {RESERVED_LABEL_PREFIX} is Mooring's own"
                    yield Rejection(describe(name), accepted, (field, name))


class KubernetesSpec(PodSpec):
    """How the job's pods are made, held and cleaned up."""

    image_pull_secrets: tuple[FilledText, ...] = Field(
        (),
        alias="imagePullSecrets",
        description="Names of secrets for fetching the image.",
        examples=[["registry"]],
    )
    service_account_name: FilledText | None = Field(
        None,
        alias="serviceAccountName",
        description="The pods' service account. Not given: the namespace's default one; its token "
        "is not mounted.",
        examples=["trainer"],
    )
    runtime_class_name: FilledText | None = Field(
        None,
        alias="runtimeClassName",
        description="The pods' runtime class.",
        examples=["nvidia"],
    )
    security_context: PodSecurity = Field(
        PodSecurity.all_defaults(),
        alias="securityContext",
        description="Whom the processes run as.",
        examples=[{"runAsUser": 1000}],
    )
    scheduler: Scheduler = Field(
        Scheduler.MOORING,
        description="`mooring`: the whole gang is placed first, then created; `default`: the "
        "cluster's scheduler places, with the placement's rules as affinities; `volcano`, `kueue`: "
        "the job is handed to them as a group.",
        examples=["volcano"],
    )
    queue: FilledText | None = Field(
        None,
        description="The Volcano queue or Kueue local queue; only with those schedulers.",
        examples=["research"],
    )
    bind_timeout_s: Annotated[Duration, Field(gt=0)] = Field(
        60.0,
        alias="bindTimeout",
        description="How long the cluster's scheduler may take to bind all pods of the gang "
        "before they are taken back and the job waits again.",
        examples=["1m"],
    )
    suspend: YesNo = Field(
        False,
        description="true: the job gives its place back and waits until this is false again.",
        examples=[True],
    )
    clean_pods: CleanPods = Field(
        CleanPods.RUNNING,
        alias="cleanPods",
        description="Which pods are removed when the job is over: those still `running` (they "
        "would hold their place for ever), or `all`.",
        examples=["all"],
    )
    ttl_after_finished_s: Duration | None = Field(
        None,
        alias="ttlAfterFinished",
        description="How long the finished job is kept before it is deleted with all that belongs "
        "to it. Not given: for ever.",
        examples=["24h"],
    )
    namespace: Label | None = Field(
        None,
        description="The namespace that `moor submit` sends the job to. Not given: the context's.",
        examples=["research"],
    )

    @model_validator(mode="after")
    def _queue_has_an_owner(self) -> Self:
        if self.queue and self.scheduler not in (Scheduler.VOLCANO, Scheduler.KUEUE):
            found = f"{describe(self.queue)} with scheduler '{self.scheduler.value}'"
            accepted = "a queue only with 'scheduler: volcano' or 'scheduler: kueue'"
            raise rejected([Rejection(found, accepted, ("queue",))])
        return self

    def of_role(self, own: PodSpec) -> PodSpec:
        """What a role's pods have: its own over these; lists and mappings add up."""
        # Both were checked before: a copy needs no second look.
        return PodSpec.all_defaults().model_copy(
            update={
                "image": own.image or self.image,
                "image_pull_policy": own.image_pull_policy or self.image_pull_policy,
                "python": own.python or self.python,
                "env_from": (*self.env_from, *own.env_from),
                "secret_env": {**self.secret_env, **own.secret_env},
                "config_map_env": {**self.config_map_env, **own.config_map_env},
                "field_env": {**self.field_env, **own.field_env},
                "volumes": _by_name(self.volumes, own.volumes, "name"),
                "volume_mounts": _by_name(self.volume_mounts, own.volume_mounts, "mountPath"),
                "shared_memory": own.shared_memory
                if own.shared_memory is not None
                else self.shared_memory,
                "labels": {**self.labels, **own.labels},
                "annotations": {**self.annotations, **own.annotations},
            }
        )


def _by_name(
    all_roles: tuple[dict[str, JsonValue], ...], own: tuple[dict[str, JsonValue], ...], key: str
) -> tuple[dict[str, JsonValue], ...]:
    """Both lists; of two entries with the same key the role's own."""
    merged = {str(part.get(key)): part for part in (*all_roles, *own)}
    return tuple(merged.values())
