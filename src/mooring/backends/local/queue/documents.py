"""What the service and the supervisors of jobs tell each other, as documents in files.

Each is replaced whole. What the service wants is a state, not a message: whoever reads it late, or
twice, does the same.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.status import Phase

#: Of all documents here; one of a later version is not taken for something else.
VERSION = 1
_Whole = Annotated[int, Field(ge=0, lt=1 << 62)]


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=False)

    version: Annotated[int, Field(ge=1, le=VERSION)] = VERSION


class SupervisorName(Document):
    """A process, by its id and its mark (`process_mark`)."""

    pid: Annotated[int, Field(gt=0, lt=1 << 31)]
    mark: str


class Submission(Document):
    """A job's submission, beside the job itself."""

    id: str
    number: _Whole
    name: str
    folder: str
    source: str
    submitted_s: float
    env_files: tuple[str, ...] = ()
    check: bool = True
    stacks: bool = True
    umask: Annotated[int, Field(ge=0, le=0o777)] = 0o022
    foreground: SupervisorName | None = None
    """A `moor run` that waits for its turn and has all else that it needs by itself."""


class Environment(Document):
    """The variables of whoever submitted the job; `given` were named for it (`--env-file`)."""

    variables: dict[str, str]
    given: dict[str, str] = Field(default_factory=dict)


class PromisedSlot(BaseModel):
    """A member and the slot that it is given."""

    model_config = ConfigDict(frozen=True)

    role: str
    index: _Whole
    node: str
    cpus: tuple[_Whole, ...]
    cells: tuple[_Whole, ...] = ()
    gpus: tuple[_Whole, ...] = ()
    exclusive: bool = False
    gpu_share_millis: _Whole = 0


class PromisedPlan(BaseModel):
    """A plan without the reasons for it. `number` grows with each change of a running gang's."""

    model_config = ConfigDict(frozen=True)

    number: _Whole = 0
    slots: tuple[PromisedSlot, ...]

    @classmethod
    def of(cls, plan: Plan, number: int = 0) -> Self:
        return cls(
            number=number,
            slots=tuple(
                PromisedSlot(
                    role=one.member.role,
                    index=one.member.index,
                    node=one.slot.node,
                    cpus=one.slot.cpus,
                    cells=one.slot.cells,
                    gpus=one.slot.gpus,
                    exclusive=one.slot.exclusive,
                    gpu_share_millis=one.slot.gpu_share_millis,
                )
                for one in plan.placements
            ),
        )

    def plan(self, job: str) -> Plan:
        return Plan(
            job,
            tuple(
                Placement(
                    MemberId(one.role, one.index),
                    Slot(
                        one.node,
                        one.cpus,
                        one.cells,
                        one.gpus,
                        one.exclusive,
                        one.gpu_share_millis,
                    ),
                )
                for one in self.slots
            ),
        )


class Admission(Document):
    """What the queue gives a job with its `number`-th admission."""

    number: _Whole
    run_id: str
    token: str
    plan: PromisedPlan
    virtual_nodes: _Whole = 0
    nic_mbps: _Whole | None = None
    first_epoch: _Whole = 0
    restarts: _Whole = 0


class Action(StrEnum):
    """What a supervisor is to do: carry the run out, end it for good, or end it because the job
    has to wait again."""

    RUN = "run"
    STOP = "stop"
    RELEASE = "release"


class Wanted(Document):
    """What the service wants of the supervisor of this admission. A supervisor of another
    admission ends without doing anything."""

    admission: _Whole
    action: Action = Action.RUN
    reason: str = ""
    now: bool = False
    """Without waiting for members to end by themselves."""
    plan: PromisedPlan | None = None
    """Where the gang is to be from now on, if that is not what the admission says."""


class Ending(StrEnum):
    """What the end of a supervisor means for its job.

    ended: the job is over; released: it gave its place back and waits again; no-room: what it was
    promised was held by somebody else; interrupted: a signal ended the supervisor, and the job's
    policy says whether it starts again.
    """

    ENDED = "ended"
    RELEASED = "released"
    NO_ROOM = "no-room"
    INTERRUPTED = "interrupted"


class Outcome(Document):
    """How a supervisor's work ended. `epoch` is the last one that it used."""

    ending: Ending
    phase: Phase
    reason: str
    epoch: _Whole = 0
    restarts: _Whole = 0


class End(Document):
    """How a job ended."""

    phase: Phase
    reason: str
    ended_s: float
    run_id: str = ""
