"""What the operator knows of a job besides its pods, and all that it must not forget.

It is written to the job's status before anything is done that depends on it; what pods show by
themselves is not part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from mooring.lifecycle import JobState
from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot


class Stage(StrEnum):
    """Where a job is between its arrival and its end.

    Admitted jobs live by `lifecycle`; releasing ones give their place back, pod by pod, and wait
    again (or stay suspended) once nothing of them is left.
    """

    QUEUED = "Queued"
    ADMITTED = "Admitted"
    RELEASING = "Releasing"
    SUSPENDED = "Suspended"
    FINISHED = "Finished"


@dataclass(frozen=True)
class TrainingJobRecord:
    """One job. Times are seconds since the epoch of Unix.

    `epoch` is that of the next start while the job waits, and `state.epoch` is that of the
    current one while it does not. `taken_back` counts how often the gang did not get the room
    it was promised; `not_before_s` is when it may try again.
    """

    stage: Stage = Stage.QUEUED
    epoch: int = 0
    restarts: int = 0
    state: JobState | None = None
    slots: Mapping[MemberId, Slot] = field(default_factory=lambda: MappingProxyType({}))
    reason: str = ""
    message: str = ""
    taken_back: int = 0
    not_before_s: float = 0.0
    queued_at_s: float = 0.0
    admitted_at_s: float | None = None
    running_at_s: float | None = None
    finished_at_s: float | None = None

    @property
    def holds_place(self) -> bool:
        return self.stage in (Stage.ADMITTED, Stage.RELEASING)

    def plan(self, job: str) -> Plan:
        """The placement in the brain's words."""
        return Plan(job, tuple(Placement(member, slot) for member, slot in self.slots.items()))
