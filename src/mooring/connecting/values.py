"""What programs are told of jobs in the queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mooring.model.status import Phase
from mooring.report.figures import Report


@dataclass(frozen=True)
class JobStatus:
    """A job at one moment. `run` is the id of its current or last run, '' before the first;
    `position` its place in the queue while it waits, from 1; `reason` why it waits, stops or ended
    as it did.
    """

    phase: str
    reason: str
    ended: bool
    run: str = ""
    position: int | None = None


@dataclass(frozen=True)
class JobResult:
    """How a job ended. One that was stopped before it ran has neither figures nor a folder."""

    phase: str
    reason: str
    run: str = ""
    report: Report | None = field(default=None, repr=False)
    directory: Path | None = None

    @property
    def succeeded(self) -> bool:
        return self.phase == Phase.SUCCEEDED.value


@dataclass(frozen=True)
class Step:
    """What a member reported of a step, at `at_s` (Unix seconds). What it did not say is None.

    Steps that follow each other within a fifth of a second are one: `count` says how many, `step`
    and `loss` are of the last, `examples` of all of them.
    """

    member: str
    at_s: float
    step: int | None
    total: int | None = None
    loss: float | None = None
    examples: int | None = None
    rank: int = 0
    count: int = 1
