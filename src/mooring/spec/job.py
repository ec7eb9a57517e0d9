"""The job file: what a user may write, with its defaults, and what no single field can tell.

Names are bounded so that `job-role-index`, the host name of a member, is one DNS label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from mooring.model.member import Pinning
from mooring.spec.base import Rejection, SpecModel, describe, one_of, rejected
from mooring.spec.fields import (
    Duration,
    EnvName,
    FilledText,
    JobName,
    Label,
    Priority,
    RelativePath,
    RoleName,
    Text,
    Threads,
    Whole,
    YesNo,
)
from mooring.spec.kubernetes import KubernetesSpec
from mooring.spec.placement import PlacementSpec
from mooring.spec.policies import FailurePolicy, StepMetrics, SuccessPolicy
from mooring.spec.role import MOST_MEMBERS, Command, Role
from mooring.spec.strategy import Strategy
from mooring.spec.traffic import TrafficSpec
from mooring.spec.variables import VariablesSpec
from mooring.spec.write import dump_yaml

__all__ = ["API_VERSION", "JobSpec", "Metadata", "Role", "TrainingJob"]

API_VERSION = "mooring.dev/v1"


class Metadata(SpecModel):
    """What the job is called."""

    name: JobName = Field(
        description="The job's name: 1 to 40 lower-case letters, digits and '-'.",
        examples=["wide-deep"],
    )
    labels: dict[FilledText, Text] = Field(
        {}, description="Free labels of the job.", examples=[{"team": "ranking"}]
    )


class JobSpec(SpecModel):
    """What is to run, and how."""

    framework: FilledText = Field(
        description="The training framework: `tensorflow`, `pytorch`, `mpi`, `indexed`, or one "
        "that an installed package adds.",
        examples=["tensorflow"],
    )
    strategy: Strategy | None = Field(
        None,
        description="How the members work together. Not given: the framework's own default.",
        examples=["parameter-server"],
    )
    image: FilledText | None = Field(
        None,
        description="The container image, where members run in containers; members on this machine "
        "run as processes and do not use it.",
        examples=["registry.example/train:1"],
    )
    command: Command | None = Field(
        None,
        description="The program and its arguments for every role without one of its own, as a "
        "list; no shell is involved.",
        examples=[["python", "train.py"]],
    )
    python: FilledText | None = Field(
        None,
        description="What `python` at the head of a command (or after `mpirun`) means: an "
        "interpreter, or the folder of a virtual or conda environment, relative to the job file. "
        "In pods an absolute path inside the image. Not given: on one machine the active "
        "environment, else the PATH's `python`, else its `python3`, else the one that runs `moor`; "
        "in pods the image's `python`.",
        examples=[".venv"],
    )
    env: dict[EnvName, Text] = Field(
        {},
        description="Environment variables of every member. Values are texts: write numbers in "
        "quotes. Names that begin with MOORING_ are reserved.",
        examples=[{"TF_CPP_MIN_LOG_LEVEL": "2"}],
    )
    working_dir: FilledText | None = Field(
        None,
        alias="workingDir",
        description="Where the members run, relative to the job file. Not given: the copied "
        "`files` if there are any, otherwise the job file's folder.",
        examples=["src"],
    )
    files: tuple[RelativePath, ...] = Field(
        (),
        description="Files and folders beside the job file that are copied for the run, so that "
        "later edits do not change it. Relative, without `..`.",
        examples=[["train.py", "model"]],
    )
    roles: Annotated[dict[RoleName, Role], Field(min_length=1)] = Field(
        description="The job's roles by name, at least one; which names there are is up to the "
        "framework. At most 10000 members in all.",
        examples=[{"worker": {"replicas": 2}}],
    )
    placement: PlacementSpec = Field(
        PlacementSpec.all_defaults(),
        description="Where the members may and should run.",
        examples=[{"preset": "colocate"}],
    )
    pinning: Pinning = Field(
        Pinning.SHARED,
        description="`exclusive`: whole CPUs that no other member uses (every role then needs a "
        "whole `resources.cpu`); `shared`: the node's CPUs that nobody holds exclusively; "
        "`none`: wherever the operating system likes.",
        examples=["exclusive"],
    )
    threads: Threads = Field(
        "auto",
        description="Threads of each local process (OMP_NUM_THREADS and its like): `auto` "
        "derives them from the member's CPUs, which members that share them divide; a number sets "
        "them.",
        examples=[4],
    )
    gang: YesNo = Field(
        True,
        description="true: all members start together or none does; false: members start as "
        "places are found.",
        examples=[False],
    )
    min_available: Annotated[Whole, Field(ge=1, le=MOST_MEMBERS)] | None = Field(
        None,
        alias="minAvailable",
        description="An elastic gang: so many members are enough to start, all servers and one of "
        "each other role among them. On a shared cluster it grows when there is room and shrinks "
        "before it is pushed out; `moor run` starts as many as have a place and leaves it at that. "
        "The world size is that of the members that started. Not given: all of them.",
        examples=[3],
    )
    traffic: TrafficSpec | None = Field(
        None,
        description="What the members send each other in a step. The plan then prefers a low load "
        "on the busiest network card, and shows it.",
        examples=[{"bytesPerStep": "400Mi"}],
    )
    variables: VariablesSpec | None = Field(
        None,
        description="How the model's variables are divided over the parameter servers; for "
        "programs that ask the SDK for their strategy. Not given: partitioned.",
        examples=[{"placement": "partitioned", "maxShardBytes": "64Mi"}],
    )
    priority: Priority = Field(
        0,
        description="Which job goes first where several wait on a shared cluster: the higher "
        "number, or the name of a priority class: `low` (-60), `normal` (0), `high` (60), `urgent` "
        "(600) or one of the cluster's own. On one machine it has no effect.",
        examples=[100],
    )
    preemptible: YesNo = Field(
        True,
        description="Whether the job may be stopped for others on a shared cluster. One that may "
        "not borrows only what is guaranteed to no other pool.",
        examples=[False],
    )
    expected_duration_s: Annotated[Duration, Field(gt=0)] | None = Field(
        None,
        alias="expectedDuration",
        description="How long the job will run, as far as its author knows. On a shared cluster it "
        "may then start before jobs that wait, if it ends in time; it is not a limit.",
        examples=["2h"],
    )
    pool: Label | None = Field(
        None,
        description="The pool whose share the job uses on a shared cluster; without effect on one "
        "machine.",
        examples=["ads"],
    )
    pipeline: Label | None = Field(
        None,
        description="The pipeline that the job is a task of: members of its jobs avoid each "
        "other's nodes where they can.",
        examples=["nightly"],
    )
    success_policy: SuccessPolicy | None = Field(
        None,
        alias="successPolicy",
        description="Whose end ends the job well. Not given: what the framework's strategy "
        "implies.",
        examples=[{"roles": ["chief"]}],
    )
    failure_policy: FailurePolicy = Field(
        FailurePolicy.all_defaults(),
        alias="failurePolicy",
        description="What the failure of a member leads to.",
        examples=[{"restart": "gang", "maxRestarts": 2}],
    )
    time_limit_s: Annotated[Duration, Field(gt=0)] | None = Field(
        None,
        alias="timeLimit",
        description="The longest that the job may run before it is stopped as failed: seconds, "
        "or such as `90s`, `10m`, `1h30m`. Not given: no limit.",
        examples=["2h"],
    )
    start_timeout_s: Annotated[Duration, Field(gt=0)] = Field(
        300.0,
        alias="startTimeout",
        description="The longest that the members may take to be ready, together.",
        examples=["5m"],
    )
    grace_period_s: Duration = Field(
        10.0,
        alias="gracePeriod",
        description="The time between SIGTERM and SIGKILL when a member is stopped.",
        examples=["10s"],
    )
    step_metrics: StepMetrics = Field(
        StepMetrics.all_defaults(),
        alias="stepMetrics",
        description="How a step of training is recognised.",
        examples=[{"source": "regex", "pattern": "step (?P<step>\\d+)"}],
    )
    kubernetes: KubernetesSpec = Field(
        KubernetesSpec.all_defaults(),
        description="How the members are made into pods; without effect on one machine.",
        examples=[{"ttlAfterFinished": "24h"}],
    )

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        rejections = [
            *self._unknown_roles(),
            *self._too_many_members(),
            *self._unpinnable_roles(),
            *self._more_than_all(),
        ]
        if rejections:
            raise rejected(rejections)
        return self

    def _unknown_roles(self) -> Iterator[Rejection]:
        named: list[tuple[tuple[str | int, ...], tuple[str, ...]]] = []
        if self.success_policy is not None:
            named.append((("successPolicy", "roles"), self.success_policy.roles))
        for index, rule in enumerate(self.placement.rules):
            named.append((("placement", "rules", index, "roles"), rule.roles))
            named.append((("placement", "rules", index, "with"), rule.others or ()))
        for index, spread in enumerate(self.placement.topology_spread):
            named.append((("placement", "topologySpread", index, "roles"), spread.roles or ()))
        for at, names in named:
            for position, name in enumerate(names):
                if name not in self.roles:
                    accepted = one_of(name, self.roles)
                    yield Rejection(f"unknown role '{name}'", accepted, (*at, position))

    def _too_many_members(self) -> Iterator[Rejection]:
        members = sum(role.replicas for role in self.roles.values())
        if members > MOST_MEMBERS:
            yield Rejection(f"{members} members", f"at most {MOST_MEMBERS} in all", ("roles",))

    def _more_than_all(self) -> Iterator[Rejection]:
        members = sum(role.replicas for role in self.roles.values())
        if self.min_available is not None and self.min_available > members:
            accepted = f"at most {members}, the members of the job"
            yield Rejection(describe(self.min_available), accepted, ("minAvailable",))

    def _unpinnable_roles(self) -> Iterator[Rejection]:
        if self.pinning is not Pinning.EXCLUSIVE:
            return
        for name, role in self.roles.items():
            cpu = role.resources.cpu
            if cpu is None or cpu < 1 or cpu % 1:
                found = "nothing" if cpu is None else f"{cpu.normalize():f} cpu"
                yield Rejection(
                    found,
                    "a whole number of CPUs, at least 1, because of 'pinning: exclusive'",
                    ("roles", name, "resources", "cpu"),
                )


class _Lines(dict[tuple[str | int, ...], int]):
    """Equal to any other: two jobs are the same wherever they were written."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Lines)


class TrainingJob(SpecModel):
    """A whole job file."""

    api_version: Literal["mooring.dev/v1"] = Field(
        "mooring.dev/v1",
        alias="apiVersion",
        description="The version of this format.",
        examples=["mooring.dev/v1"],
    )
    kind: Literal["TrainingJob"] = Field(
        "TrainingJob", description="What the file describes.", examples=["TrainingJob"]
    )
    metadata: Metadata = Field(
        description="What the job is called.", examples=[{"name": "wide-deep"}]
    )
    spec: JobSpec = Field(
        description="What is to run, and how.",
        examples=[{"framework": "indexed", "command": ["true"], "roles": {"worker": {}}}],
    )

    _lines: _Lines = PrivateAttr(default_factory=lambda: _Lines())

    def remember_lines(self, lines: Mapping[tuple[str | int, ...], int]) -> None:
        """Where each field stands in the file, for errors that are found later than parsing."""
        self._lines.update(lines)

    def line_of(self, path: str) -> int | None:
        """The line of a field such as `spec.roles.ps`, or of the nearest field around it."""
        parts: tuple[str | int, ...] = tuple(path.split("."))
        while parts and parts not in self._lines:
            parts = parts[:-1]
        return self._lines.get(parts) if len(parts) > 1 else None

    def to_dict(self, *, defaults: bool = False) -> dict[str, Any]:
        """The job as it would stand in a file; with `defaults`, also what was not written."""
        body = self.model_dump(
            mode="json", by_alias=True, exclude_defaults=not defaults, exclude_none=True
        )
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    def to_yaml(self, *, defaults: bool = False) -> str:
        """A job file that loads to the same job."""
        return dump_yaml(self.to_dict(defaults=defaults))
