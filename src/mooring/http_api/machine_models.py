"""The machine and how jobs share it, as the API tells of them."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from mooring.http_api.models import ApiModel, Verdict
from mooring.http_api.run_models import PlannedMember
from mooring.model.resources import Resources


class Amount(ApiModel):
    """CPUs in thousandths, memory in bytes, devices in thousandths, and others by name."""

    cpu_millis: int
    memory_bytes: int
    gpu_millis: int
    extended: dict[str, int] = Field(default_factory=dict)

    @classmethod
    def of(cls, resources: Resources) -> Amount:
        return cls(
            cpu_millis=resources.cpu_millis,
            memory_bytes=resources.memory_bytes,
            gpu_millis=resources.gpu_millis,
            extended=dict(resources.extended),
        )


class PoolLine(ApiModel):
    """A pool: what it has, what its jobs hold, who waits."""

    name: str
    guaranteed: Amount
    cap: Amount | None = Field(description="What it may hold at most; null: no limit.")
    weight: float
    held: Amount = Field(description="What its jobs hold now.")
    running: int
    waiting: int


class PoolList(ApiModel):
    """How jobs share the machine."""

    pools: tuple[PoolLine, ...]
    next: str | None


class NodeLine(ApiModel):
    """A node: this machine, or one of its virtual ones."""

    name: str
    capacity: Amount
    held: Amount
    cpus: str = Field(description="Its CPUs, such as 0-3.")
    held_cpus: str = Field(description="Those that somebody has alone.")
    gpus: int
    nic_mbps: int | None
    jobs: tuple[str, ...] = Field(description="Jobs of the queue with members there.")


class NodeList(ApiModel):
    """The nodes of the queue, and what is held on them."""

    nodes: tuple[NodeLine, ...]
    next: str | None


class PlanRequest(ApiModel):
    """A job that is only asked about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: dict[str, Any] = Field(description="The job file, as data.")
    source: str = Field("job", max_length=4096, description="What errors call it.")


class PlanAnswer(ApiModel):
    """Where a job's members would go now, before anybody else who waits; or why they cannot."""

    job: str
    members: tuple[PlannedMember, ...]
    waiting: tuple[str, ...] = Field(description="Members that would start later.")
    refused: str | None = Field(description="Why it has no place now; null: it has.")
    nodes: tuple[Verdict, ...] = Field(description="Of a refusal: what each node says.")
    notes: tuple[str, ...]
