"""What goes over the wire, as models: the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mooring.backends.local.queue.documents import SupervisorName

#: Variables of the largest environment that a kernel starts a program with.
MOST_VARIABLES = 10_000


class ApiModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class NewJob(ApiModel):
    """A job to be queued."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: dict[str, Any] = Field(description="The job file, as data.")
    folder: str = Field(description="What its paths are relative to; absolute.")
    source: Annotated[str, Field(max_length=4096)] = Field(
        "job", description="What errors call it, such as the path of its file."
    )
    environment: Annotated[dict[str, str], Field(max_length=MOST_VARIABLES)] = Field(
        default_factory=dict, description="The submitter's variables, which members inherit."
    )
    given: Annotated[dict[str, str], Field(max_length=MOST_VARIABLES)] = Field(
        default_factory=dict, description="Variables that were given for this job alone."
    )
    env_files: Annotated[tuple[str, ...], Field(max_length=100)] = Field(
        (), description="The files that `given` comes from."
    )
    check: bool = Field(True, description="Look first whether what the script imports is there.")
    stacks: bool = Field(True, description="Look at what programs do while they train.")
    umask: Annotated[int, Field(ge=0, le=0o777)] = Field(
        0o022, description="The submitter's, for files that members make."
    )
    foreground: SupervisorName | None = Field(
        None, description="The process that carries the job out itself, once it has its turn."
    )


class StopRequest(ApiModel):
    """How a job is to be stopped."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    now: bool = Field(False, description="Do not wait for members to end by themselves.")


class JobLine(ApiModel):
    """A job of the queue."""

    id: str
    name: str
    state: str = Field(description="queued, starting, running, releasing, stopping or ended.")
    phase: str = Field(description="As of a run; that of a job that has ended is final.")
    pool: str
    priority: int
    members: int = Field(description="How many it asks for.")
    placed: int = Field(description="How many of them have a place.")
    submitted_s: float = Field(description="Unix seconds.")
    admitted_s: float | None
    ended_s: float | None
    run: str = Field(description="The id of its current or last run; empty before the first.")
    restarts: int
    admissions: int = Field(description="How often it was given a place.")
    position: int | None = Field(description="Of a job that waits: its place in its line, from 1.")
    ahead: tuple[str, ...] = Field(description="The jobs before it in that line, at most ten.")
    reason: str = Field(description="Why it waits, stops or ended as it did.")


class JobList(ApiModel):
    """Jobs, and where the next ones begin."""

    jobs: tuple[JobLine, ...]
    next: str | None = Field(description="Give it as `next` for those after these; null: no more.")


class Queue(ApiModel):
    """The jobs that have no run now, the next one of each line first."""

    jobs: tuple[JobLine, ...]
    next: str | None = Field(description="Give it as `next` for those after these; null: no more.")
    notes: tuple[str, ...]


class Verdict(ApiModel):
    """A node's answer for one member: why it refuses, or its score by rule."""

    node: str
    refused: tuple[str, ...]
    scores: dict[str, float]


class JobExplanation(ApiModel):
    """Why a job waits or is where it is, told by one of its members."""

    job: str
    member: str
    node: str | None = Field(description="Where the member is.")
    refused: str | None = Field(description="Why the job waits.")
    queued: bool
    note: str
    nodes: tuple[Verdict, ...]
    changes: tuple[str, ...] = Field(description="Any one of these would let it start.")


class ProblemLine(ApiModel):
    """One rejection: where, what was found, what would be accepted."""

    path: str
    found: str
    accepted: str
    line: int | None = None


class ErrorAnswer(ApiModel):
    """Why a request was refused."""

    error: str
    source: str = ""
    problems: tuple[ProblemLine, ...] = ()


class ServiceInfo(ApiModel):
    """The service itself."""

    version: str
    pid: int
    started_s: float
    now_s: float = Field(description="The time here, in Unix seconds.")
    virtual_nodes: int
    nic_mbps: int | None
    queued: int
    running: int
    tcp_url: str | None = Field(description="Where it listens beside its Unix socket.")
    last_event: int = Field(description="The place of the last event in the queue's journal.")
    notes: tuple[str, ...] = Field(description="What whoever runs it should know.")
