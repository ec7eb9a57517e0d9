"""What a workload file may say: pools, jobs, roles, and what no single field can tell."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from mooring.brain.queue.order import CLASSES
from mooring.brain.queue.types import DEFAULT_POOL, UNLIMITED
from mooring.model.member import Pinning, Preset
from mooring.model.resources import Resources
from mooring.model.traffic import Pattern, Traffic
from mooring.simulate.workload import SERVER_ROLES, RoleShape, WorkloadJob, WorkloadPool
from mooring.spec.affinity import NodeAffinitySpec, wish_of
from mooring.spec.base import Rejection, SpecModel, describe, one_of, reject, rejected
from mooring.spec.fields import (
    Duration,
    FilledText,
    JobName,
    Label,
    Number,
    PriorityNumber,
    RoleName,
    Text,
    Whole,
    YesNo,
)
from mooring.spec.placement import TolerationSpec
from mooring.spec.pools import KINDS, PoolEntry
from mooring.spec.role import MOST_MEMBERS, ResourceSpec
from mooring.spec.traffic import TrafficSpec

#: Under this key the context of a validation has the numbers of the priority classes.
CLASSES_KEY = "classes"


def _number_of(value: object, info: ValidationInfo) -> object:
    """The number of a priority class; other values are judged as numbers."""
    if not isinstance(value, str):
        return value
    classes = (info.context or {}).get(CLASSES_KEY, CLASSES)
    if value not in classes:
        raise reject(value, f"a whole number, or {one_of(value, classes)}")
    return classes[value]


_Priority = Annotated[
    PriorityNumber,
    BeforeValidator(_number_of),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]
#: What a cap does not name is not limited, whatever other pools divide.
_UNLIMITED = Resources(UNLIMITED, UNLIMITED, UNLIMITED)
_Positive = Annotated[Duration, Field(gt=0)]


class WorkRole(SpecModel):
    """The members of one role of a simulated job."""

    replicas: Annotated[Whole, Field(ge=1, le=MOST_MEMBERS)] = Field(
        1, description="How many members this role has: 1 to 10000."
    )
    resources: ResourceSpec = Field(ResourceSpec(), description="What each member asks for.")
    node_selector: dict[FilledText, Text] = Field(
        {}, alias="nodeSelector", description="Labels that a node must have."
    )
    tolerations: tuple[TolerationSpec, ...] = Field((), description="Taints that are tolerated.")
    node_affinity: NodeAffinitySpec | None = Field(
        None,
        alias="nodeAffinity",
        description="Which nodes may take its members and which they would like.",
    )
    node_name: FilledText | None = Field(
        None, alias="nodeName", description="The one node that its members must be on."
    )

    def to_model(self, name: str) -> RoleShape:
        return RoleShape(
            name,
            self.replicas,
            self.resources.to_model(),
            self.node_selector,
            tuple(toleration.to_model() for toleration in self.tolerations),
            wish_of(None, self.node_affinity, self.node_name),
        )


class WorkJob(SpecModel):
    """One simulated job."""

    name: JobName = Field(description="The job's name, once in the file.")
    arrival_s: Duration = Field(
        0.0, alias="arrival", description="When it arrives, counted from the beginning."
    )
    duration_s: _Positive | None = Field(
        None, alias="duration", description="How long the whole gang works. Or give `work`."
    )
    work_s: _Positive | None = Field(
        None,
        alias="work",
        description="The work in seconds of one member of speed 1. Or give `duration`.",
    )
    speed: Annotated[Number, Field(gt=0, le=1e6)] = Field(
        1.0, description="What a member does of `work` in one second."
    )
    roles: Annotated[dict[RoleName, WorkRole], Field(min_length=1)] = Field(
        description="The gang: role -> replicas and resources."
    )
    pool: Label = Field(DEFAULT_POOL, description="The pool whose share it uses.")
    priority: _Priority = Field(
        0, description="The higher number goes first; or the name of a priority class."
    )
    preset: Preset = Field(Preset.PACK, description="Where the members should run.")
    pinning: Pinning = Field(Pinning.SHARED, description="How members are held to CPUs.")
    preemptible: YesNo = Field(True, description="Whether it may be stopped for others.")
    min_available: Annotated[Whole, Field(ge=1, le=MOST_MEMBERS)] | None = Field(
        None, alias="minAvailable", description="It may start with so many members and grow."
    )
    expected_s: _Positive | None = Field(
        None, alias="expected", description="How long its user expects it to run."
    )
    checkpoint_s: _Positive | None = Field(
        None, alias="checkpoint", description="How often it saves what it has done."
    )
    start_s: Duration = Field(
        0.0, alias="start", description="What passes after each start before it works."
    )
    traffic: TrafficSpec | None = Field(
        None,
        description="What the members send each other in a step. Without a pattern: "
        "`parameter-server` if there is a role `ps`, otherwise `ring`.",
    )

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if (self.duration_s is None) == (self.work_s is None):
            found = "neither" if self.work_s is None else "both"
            raise rejected([Rejection(found, "one of: duration, work", ("duration",))])
        members = sum(role.replicas for role in self.roles.values())
        if members > MOST_MEMBERS:
            raise rejected([Rejection(f"{members} members", f"at most {MOST_MEMBERS}", ("roles",))])
        if self.min_available is not None and self.min_available > members:
            accepted = f"at most {members}, the members of the gang"
            raise rejected([Rejection(describe(self.min_available), accepted, ("minAvailable",))])
        self._check_traffic()
        return self

    def _check_traffic(self) -> None:
        traffic = self.traffic
        servers = sum(self.roles[name].replicas for name in SERVER_ROLES if name in self.roles)
        if traffic is None:
            return
        if traffic.pattern is Pattern.PARAMETER_SERVER and not servers:
            accepted = "ring, or a role ps"
            raise rejected([Rejection(describe(traffic.pattern), accepted, ("traffic", "pattern"))])
        if traffic.per_server is not None and len(traffic.per_server) != servers:
            found, accepted = f"{len(traffic.per_server)} amounts", f"{servers}, one for each ps"
            raise rejected([Rejection(found, accepted, ("traffic", "perServer"))])

    def _traffic(self) -> Traffic | None:
        if self.traffic is None:
            return None
        serves = any(name in self.roles for name in SERVER_ROLES)
        pattern = self.traffic.pattern or (Pattern.PARAMETER_SERVER if serves else Pattern.RING)
        per_server = self.traffic.per_server or ()
        return Traffic(pattern, self.traffic.bytes_per_step or sum(per_server), per_server)

    def to_model(self) -> WorkloadJob:
        roles = tuple(role.to_model(name) for name, role in self.roles.items())
        members = sum(role.replicas for role in roles)
        work_s = self.work_s
        if work_s is None:
            work_s = (self.duration_s or 0.0) * members * self.speed
        return WorkloadJob(
            self.name,
            self.arrival_s,
            work_s,
            roles,
            self.pool,
            self.priority,
            self.speed,
            self.preset,
            self.pinning,
            self.preemptible,
            self.min_available,
            self.expected_s,
            self.checkpoint_s,
            self.start_s,
            self._traffic(),
        )


class WorkPool(PoolEntry):
    """A pool of the simulated cluster."""

    def to_model(self) -> WorkloadPool:
        guaranteed, cap = self.amounts(KINDS, _UNLIMITED)
        return WorkloadPool(self.name, guaranteed, cap, float(self.weight))


class WorkloadFile(SpecModel):
    """A whole workload file."""

    api_version: Literal["mooring.dev/v1"] = Field(alias="apiVersion", description="The format.")
    kind: Literal["Workload"] = Field(description="What the file describes.")
    pools: tuple[WorkPool, ...] = Field((), description="Pools with guarantees and weights.")
    jobs: Annotated[tuple[WorkJob, ...], Field(min_length=1)] = Field(description="The jobs.")

    @model_validator(mode="after")
    def _names_distinct(self) -> Self:
        clashes = []
        for field, names in (
            ("pools", [pool.name for pool in self.pools]),
            ("jobs", [job.name for job in self.jobs]),
        ):
            seen: set[str] = set()
            for index, name in enumerate(names):
                if name in seen:
                    found = f"the name '{name}' a second time"
                    clashes.append(Rejection(found, "each name once", (field, index, "name")))
                seen.add(name)
        if clashes:
            raise rejected(clashes)
        return self
