"""What ends a job, what a failure leads to, and how a step of training is recognised."""

from __future__ import annotations

import re
import warnings
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from mooring.model.member import Restart
from mooring.spec.base import Rejection, SpecModel, describe, rejected
from mooring.spec.fields import Duration, FilledText, Number, RoleName, Whole

#: Compiling `(?i)[\0-\U0010ffff]` takes 20 ms a set: these bounds keep a hostile pattern below 1 s.
_LONGEST_PATTERN = 1000
_MOST_SETS = 30
_GROUPS = ("step", "examples", "loss")


class SuccessMode(StrEnum):
    """Whether all members of the named roles must end with 0, or any one of them."""

    ALL = "all"
    ANY = "any"


class SuccessPolicy(SpecModel):
    """Whose end ends the job well."""

    roles: Annotated[tuple[RoleName, ...], Field(min_length=1)] = Field(
        description="The roles whose members' end counts. The other members are then stopped.",
        examples=[["worker"]],
    )
    mode: SuccessMode = Field(
        SuccessMode.ALL,
        description="`all`: every member of these roles ended with exit code 0; `any`: the first "
        "one that did is enough.",
        examples=["any"],
    )


class Backoff(SpecModel):
    """How long to wait before a restart: initial, then times factor each time, up to max."""

    initial_s: Duration = Field(
        1.0, alias="initial", description="The wait before the first restart.", examples=["1s"]
    )
    factor: Annotated[Number, Field(ge=1, le=100)] = Field(
        2.0,
        description="What the wait is multiplied by after each restart: 1 to 100.",
        examples=[2.0],
    )
    max_s: Duration = Field(60.0, alias="max", description="The longest wait.", examples=["1m"])

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_s < self.initial_s:
            raise rejected(
                [
                    Rejection(
                        f"{self.max_s:g} s", f"at least initial ({self.initial_s:g} s)", ("max",)
                    )
                ]
            )
        return self


class OnStall(StrEnum):
    """What a standstill leads to."""

    WARN = "warn"
    FAIL = "fail"
    RESTART = "restart"


class FailurePolicy(SpecModel):
    """What the failure of a member, or a standstill of all, leads to."""

    restart: Restart = Field(
        Restart.NEVER,
        description="`never`: the job fails; `member`: that member alone is started again; "
        "`gang`: all members are stopped and started again together, with a new epoch.",
        examples=["gang"],
    )
    max_restarts: Annotated[Whole, Field(ge=0, le=1_000_000)] = Field(
        3,
        alias="maxRestarts",
        description="How many restarts each member, and apart from that the whole gang, may have "
        "before the job fails.",
        examples=[3],
    )
    backoff: Backoff = Field(
        Backoff.all_defaults(),
        description="How long to wait before each restart.",
        examples=[{"initial": "1s", "factor": 2, "max": "1m"}],
    )
    stall_timeout_s: Annotated[Duration, Field(gt=0)] | None = Field(
        None,
        alias="stallTimeout",
        description="How long nobody may make a step before `onStall` is done. Until the first "
        "step, and where no steps are reported, time counts in which no member prints, computes or "
        "sends anything. Longer than the longest evaluation or checkpoint. Not given: a warning "
        "after 5 times the longest pause between steps so far, and 30 s at least. On Kubernetes "
        "it counts from the first step on, and needs reported steps.",
        examples=["10m"],
    )
    on_stall: OnStall = Field(
        OnStall.WARN,
        alias="onStall",
        description="`warn`: the live view, the report and `moor doctor` name who is waited for; "
        "`fail`: the job fails; `restart`: all members are stopped and started again, at most "
        "`maxRestarts` times. The last two need `stallTimeout`; all stacks are kept first.",
        examples=["restart"],
    )

    @model_validator(mode="after")
    def _stall_bounded(self) -> Self:
        if self.on_stall is not OnStall.WARN and self.stall_timeout_s is None:
            accepted = f"a duration, because of 'onStall: {self.on_stall.value}'"
            raise rejected([Rejection("nothing", accepted, ("stallTimeout",))])
        return self


class StepSource(StrEnum):
    """Where reports of training steps come from."""

    AUTO = "auto"
    SDK = "sdk"
    REGEX = "regex"


class StepMetrics(SpecModel):
    """How a step of training is recognised, for the live view and the report."""

    source: StepSource = Field(
        StepSource.AUTO,
        description="`auto`: what the program reports through Mooring's SDK, or else lines of its "
        "standard output with the number of a step and a loss, such as `step 40 loss 0.64`; "
        "`sdk`: the SDK's reports alone; `regex`: `pattern` is searched in each line.",
        examples=["regex"],
    )
    pattern: FilledText | None = Field(
        None,
        description="A Python regular expression; each match is one report. Its groups may be "
        "named `step`, `examples` (done since the last report) and `loss`; all are optional. "
        "Needed with `source: regex`, and only there.",
        examples=[r"step (?P<step>\d+) loss (?P<loss>[\d.]+)"],
    )
    examples_per_step: Annotated[Whole, Field(ge=1, le=2**53)] | None = Field(
        None,
        alias="examplesPerStep",
        description="Training examples in one step, where the reports do not say it.",
        examples=[512],
    )
    total_steps: Annotated[Whole, Field(ge=1, le=2**53)] | None = Field(
        None,
        alias="totalSteps",
        description="Steps until the end, for the progress bar.",
        examples=[10000],
    )

    @model_validator(mode="after")
    def _pattern_usable(self) -> Self:
        if self.source is not StepSource.REGEX:
            if self.pattern is not None:
                raise rejected(
                    [Rejection("a pattern", "none, or 'source: regex' beside it", ("pattern",))]
                )
            return self
        accepted = "a Python regular expression whose named groups are among " + ", ".join(_GROUPS)
        if self.pattern is None:
            raise rejected([Rejection("nothing", accepted, ("pattern",))])
        trouble = _trouble_with(self.pattern)
        if trouble:
            found = f"{describe(self.pattern)} ({trouble})"
            raise rejected([Rejection(found, accepted, ("pattern",))])
        return self


def _trouble_with(pattern: str) -> str | None:
    if len(pattern) > _LONGEST_PATTERN:
        return f"longer than {_LONGEST_PATTERN} characters"
    if pattern.count("[") > _MOST_SETS:
        return f"more than {_MOST_SETS} character sets"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            groups = re.compile(pattern).groupindex
    except re.error as error:
        return str(error)
    except (OverflowError, RecursionError, MemoryError):
        return "too large or too deep"
    unknown = [name for name in groups if name not in _GROUPS]
    return f"unknown group '{unknown[0]}'" if unknown else None
