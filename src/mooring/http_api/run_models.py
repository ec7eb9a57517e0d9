"""Runs as the API tells of them: what their files say, and what the doctor finds in them."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue, RootModel

from mooring.http_api.models import ApiModel, Verdict
from mooring.model.status import Phase
from mooring.report.figures import Report

_NEXT = "Give it as `next` for those after these; null: no more."


class RunSummary(ApiModel):
    """A run: how it stands, how long it took, how fast it was."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    run: str
    job: str = Field(description="The name of its job.")
    queue_job: str = Field(description="Its job's id in the queue; empty: it came otherwise.")
    phase: str = Field(description="As of a job; Lost: its process was killed.")
    reason: str
    ended: bool
    running: int = Field(description="How many members run now.")
    members: int
    nodes: int
    started_s: float = Field(description="Unix seconds.")
    took_s: float | None
    examples_per_s: float | None
    pinned: bool = Field(description="Whether it is kept, however many runs there are.")
    directory: str


class RunList(ApiModel):
    """Runs, the latest first, and where the next ones begin."""

    runs: tuple[RunSummary, ...]
    next: str | None = Field(description=_NEXT)


class RunProgress(ApiModel):
    """How far a run is. What nobody reports is null."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    phase: Phase
    reason: str
    elapsed_s: float
    members: int
    members_running: int
    steps: int = Field(description="Of the member that is furthest.")
    total_steps: int | None
    steps_per_s: float | None
    examples: int = Field(description="Of all members.")
    examples_per_s: float | None
    loss: float | None
    eta_s: float | None = Field(description="How long the rest takes at the last minute's pace.")


class RunMember(ApiModel):
    """A member of a run."""

    member: str
    role: str
    node: str
    cpus: str = Field(description="The CPUs that it may run on, such as 0-3,7.")
    exclusive: bool
    gpus: tuple[int, ...]
    state: str
    attempt: int
    exit_code: int | None
    reason: str
    steps: int
    loss: float | None
    rss_bytes: int


class RunDetail(ApiModel):
    """A run, how far it is, and its members."""

    run: RunSummary
    progress: RunProgress
    members: tuple[RunMember, ...]


class HeldResources(ApiModel):
    """What a member asked for: CPUs and shares of a device in thousandths, others as pairs."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    gpu_share_millis: int = 0
    extended: tuple[tuple[str, int], ...] = ()


class PlannedMember(ApiModel):
    """Where a member is, what it holds there, and what each node said."""

    member: str
    role: str
    index: int
    node: str
    cpus: tuple[int, ...]
    exclusive: bool
    cells: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    gpu_share_millis: int = 0
    resources: HeldResources = HeldResources()
    nodes: tuple[Verdict, ...] = ()


class RunPlan(ApiModel):
    """Where each member is and why."""

    job: str
    preset: str = ""
    duties: dict[str, str] = Field({}, description="Role -> what it is for.")
    members: tuple[PlannedMember, ...]
    waiting: tuple[str, ...] = Field((), description="Members without a place.")
    notes: tuple[str, ...] = ()
    next: str | None = Field(None, description=_NEXT)


class LogEntry(ApiModel):
    """A line that a member printed."""

    at: str = Field(description="UTC.")
    stream: str = Field(description="out or err.")
    rank: int = Field(description="The local one.")
    text: str


class LogPart(ApiModel):
    """Some lines of a member's log; places are bytes of its file."""

    member: str
    lines: tuple[LogEntry, ...]
    begin: int = Field(description="The place of the first line.")
    next: int = Field(description="Give it as `offset` for the lines after these.")
    size: int = Field(description="Of the file now; more than `next`: there is more to read.")


class SamplePart(ApiModel):
    """Some records of what a member's launcher measured; places are bytes of its file."""

    member: str
    samples: tuple[dict[str, JsonValue], ...]
    begin: int
    next: int = Field(description="Give it as `offset` for the records after these.")
    size: int = Field(description="Of the file now; more than `next`: there is more to read.")


class RunReport(RootModel[Report]):
    """The figures of a run, as far as it has come."""


class EvidenceLine(ApiModel):
    """One figure that a finding stands on."""

    what: str
    value: float | str
    unit: str
    source: str
    members: tuple[str, ...]


class RemedyChange(ApiModel):
    """A field of the job file and its new value."""

    path: tuple[str | int, ...]
    value: JsonValue
    remove: bool


class RemedyLine(ApiModel):
    """What to do about a finding."""

    does: str
    changes: tuple[RemedyChange, ...]
    code: str
    where: str
    patch: str = Field(description="The change as a diff of the job file; empty: none it can hold.")


class GainLine(ApiModel):
    """By how much the run would be faster."""

    low: float
    high: float
    basis: str


class FindingLine(ApiModel):
    """A cause with its name, evidence and remedy."""

    id: str
    title: str
    says: str
    why: str
    members: tuple[str, ...]
    because: tuple[str, ...]
    weight: Annotated[float, Field(description="The share of time that is lost, 0 to 1.")]
    confidence: str
    evidence: tuple[EvidenceLine, ...]
    remedy: RemedyLine
    gain: GainLine | None


class CheckedLine(ApiModel):
    """Something that was looked at."""

    id: str
    title: str
    findings: int
    answer: str
    unknown: str


class RunFindings(ApiModel):
    """Why a run is slow: findings, worst first, and all that was looked at."""

    of: str
    account: dict[str, JsonValue] = Field(
        description="Where a step's time goes, as `moor doctor --json` prints it."
    )
    findings: tuple[FindingLine, ...]
    checked: tuple[CheckedLine, ...]
