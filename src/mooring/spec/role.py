"""A role of a job: how many members it has, what they run and what each of them needs."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from mooring.model.member import Restart
from mooring.model.resources import Resources, counts
from mooring.spec.affinity import NodeAffinitySpec
from mooring.spec.base import Rejection, SpecModel, describe, rejected
from mooring.spec.extended import BESIDE, Extended, extended_field, gathered
from mooring.spec.fields import Cpus, EnvName, FilledText, Gpus, Label, Memory, Text, Whole
from mooring.spec.kubernetes import PodSpec
from mooring.spec.placement import NODE_AFFINITY_EXAMPLE, TolerationSpec

MOST_MEMBERS = 10_000
MOST_PROCESSES = 1024

Command = Annotated[tuple[Text, ...], Field(min_length=1)]


class ResourceSpec(SpecModel):
    """What one member asks for. Quantities are written as in Kubernetes."""

    model_config = ConfigDict(json_schema_extra=BESIDE)

    cpu: Cpus | None = Field(
        None,
        description="CPUs of one member: `2`, `0.5` or `500m`. Not given: none are reserved.",
        examples=["500m"],
    )
    memory: Memory | None = Field(
        None,
        description="Memory of one member, in bytes or with a unit: `4Gi`, `512Mi`, `1G`. It is "
        "also the limit, where the machine can enforce one. Not given: no limit.",
        examples=["4Gi"],
    )
    gpu: Gpus | None = Field(
        None,
        description="GPUs of one member: whole ones, or below 1 a share of one card in thousandths "
        "(`0.25`), which others may share too. Not given: none.",
        examples=[1],
    )
    extended: Extended = extended_field(
        "one member, which may also stand beside `cpu` as in Kubernetes,"
    )

    @model_validator(mode="before")
    @classmethod
    def _beside_or_below(cls, data: Any) -> Any:
        return gathered(data)

    def to_model(self) -> Resources:
        return Resources(
            int((self.cpu or 0) * 1000),
            self.memory or 0,
            gpu_share_millis=int((self.gpu or 0) * 1000),
            extended=counts(self.extended),
        )


class Role(SpecModel):
    """One kind of member: how many there are, what they run and what they need."""

    replicas: Annotated[Whole, Field(ge=1, le=MOST_MEMBERS)] = Field(
        1, description="How many members this role has: 1 to 10000.", examples=[4]
    )
    processes: Annotated[Whole, Field(ge=1, le=MOST_PROCESSES)] = Field(
        1,
        description="Local processes (ranks) that each member runs: 1 to 1024.",
        examples=[2],
    )
    command: Command | None = Field(
        None,
        description="The program and its arguments, as a list; no shell is involved. Not given: "
        "`spec.command`.",
        examples=[["python", "train.py", "--steps", "1000"]],
    )
    env: dict[EnvName, Text] = Field(
        {},
        description="Environment variables, added to those of `spec.env`. Values are texts: "
        "write numbers in quotes. Names that begin with MOORING_ are reserved.",
        examples=[{"BATCH": "512"}],
    )
    resources: ResourceSpec = Field(
        ResourceSpec.all_defaults(),
        description="What each member asks for.",
        examples=[{"cpu": 2, "memory": "4Gi"}],
    )
    ports: dict[Label, Annotated[Whole, Field(ge=0, le=65535)]] = Field(
        {},
        description="Ports by name: a fixed one (1 to 65535), or 0 for one that is chosen. "
        "Those that the framework needs are there without being listed.",
        examples=[{"main": 0, "metrics": 9100}],
    )
    node_selector: dict[FilledText, Text] = Field(
        {},
        alias="nodeSelector",
        description="Labels that a node must have to take members of this role, added to those "
        "of `placement.nodeSelector`.",
        examples=[{"accelerator": "a100"}],
    )
    node_affinity: NodeAffinitySpec | None = Field(
        None,
        alias="nodeAffinity",
        description="Which nodes may take members of this role and which they would like, in "
        "addition to `placement.nodeAffinity`.",
        examples=[NODE_AFFINITY_EXAMPLE],
    )
    node_name: FilledText | None = Field(
        None,
        alias="nodeName",
        description="The one node that members of this role must be on. Not given: "
        "`placement.nodeName`.",
        examples=["gpu-0"],
    )
    gpu_kind: FilledText | None = Field(
        None,
        alias="gpuKind",
        description="What the GPUs of a member must be, as the cluster file calls them (`kind`). "
        "Not given: any.",
        examples=["a100"],
    )
    gpu_memory: Memory | None = Field(
        None,
        alias="gpuMemory",
        description="The least memory that each card must have on which a member has GPUs. Not "
        "given: any.",
        examples=["40Gi"],
    )
    tolerations: tuple[TolerationSpec, ...] = Field(
        (),
        description="Taints that members of this role tolerate, added to `placement.tolerations`.",
        examples=[[{"key": "gpu", "operator": "Exists"}]],
    )
    restart: Restart | None = Field(
        None,
        description="What the failure of a member of this role leads to: `never`, `member` or "
        "`gang`. Not given: `failurePolicy.restart`.",
        examples=["member"],
    )
    kubernetes: PodSpec = Field(
        PodSpec.all_defaults(),
        description="What the pods of this role have on Kubernetes, over `spec.kubernetes`.",
        examples=[{"image": "registry.example/ps:1"}],
    )

    @model_validator(mode="after")
    def _kind_of_what(self) -> Self:
        named = (("gpuKind", self.gpu_kind), ("gpuMemory", self.gpu_memory))
        lost = [
            Rejection(describe(value), "'gpu' in 'resources' as well, or leave it out", (name,))
            for name, value in named
            if value is not None and not self.resources.gpu
        ]
        if lost:
            raise rejected(lost)
        return self

    @model_validator(mode="after")
    def _ports_distinct(self) -> Self:
        owner: dict[int, str] = {}
        clashes = []
        for name, port in self.ports.items():
            if port and port in owner:
                accepted = f"a port other than that of '{owner[port]}', or 0"
                clashes.append(Rejection(describe(port), accepted, ("ports", name)))
            owner.setdefault(port, name)
        if clashes:
            raise rejected(clashes)
        return self
