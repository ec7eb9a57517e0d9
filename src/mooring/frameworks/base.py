"""What an adapter is: the facts about a framework's roles, and how an identity is written for it.

An adapter is small on purpose. It names its roles, may check a job further, and renders one
member's identity; merging job and role settings, ranks and addresses are the same for every
framework and live in `expand` and `identify`. Variables come in three strengths: `defaults` of
the adapter, over them what the user set, over that the identity, which a job may not contradict.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

from mooring.model.engine import Engine
from mooring.model.errors import Problem
from mooring.model.identity import Identity
from mooring.model.launch import Launch, LocalProcess
from mooring.model.member import Duty, Member
from mooring.spec import Strategy, SuccessPolicy, TrainingJob, VariablesSpec

#: Every variable with this prefix belongs to Mooring; a job cannot set it.
RESERVED_PREFIX = "MOORING_"


@dataclass(frozen=True)
class RoleFacts:
    """What a framework knows about one of its roles.

    ranked: its processes count in the world size; duty: what it is there for;
    multi_process: a member of it may run several local processes;
    ports: the names of the ports that Mooring chooses for each member.
    """

    ranked: bool = True
    duty: Duty = Duty.TRAINS
    required: bool = False
    max_replicas: int | None = None
    needs_command: bool = True
    multi_process: bool = False
    ports: tuple[str, ...] = ("main",)


class Framework(ABC):
    """An adapter. Subclasses are found by name in the entry point group `mooring.frameworks`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    strategies: ClassVar[tuple[Strategy, ...]]
    """What it can do; the first is the default."""
    owned_env: ClassVar[frozenset[str]] = frozenset()
    """The variables (or patterns such as `VC_*`) that `render` sets: a job cannot set them."""
    engine: ClassVar[Engine | None] = None
    """What its programs import; None: they need nothing in particular."""

    @abstractmethod
    def roles(self, strategy: Strategy) -> Mapping[str, RoleFacts]:
        """The roles by name. The order of the ranked ones is the order of their ranks."""

    def other_roles(self, strategy: Strategy) -> RoleFacts | None:
        """The facts of roles that `roles` does not name; None: there can be no others."""
        return None

    def facts(self, strategy: Strategy, role: str) -> RoleFacts | None:
        return self.roles(strategy).get(role) or self.other_roles(strategy)

    def owns(self, variable: str) -> bool:
        return variable.startswith(RESERVED_PREFIX) or any(
            fnmatchcase(variable, pattern) for pattern in self.owned_env
        )

    def strategy(self, job: TrainingJob) -> Strategy:
        return job.spec.strategy or self.strategies[0]

    def check(self, job: TrainingJob) -> list[Problem]:
        """Problems beyond strategy, role names, counts, commands and variables."""
        return inside_problems(job, "framework tensorflow")

    def success(self, job: TrainingJob) -> SuccessPolicy:
        """When the job has succeeded, if its author does not say: all ranked members ended well."""
        strategy = self.strategy(job)
        ranked = [
            role
            for role in job.spec.roles
            if (facts := self.facts(strategy, role)) is not None and facts.ranked
        ]
        roles = tuple(ranked or job.spec.roles)
        return SuccessPolicy.all_defaults().model_copy(update={"roles": roles})

    def role_env(self, job: TrainingJob, role: str) -> Mapping[str, str]:
        """Variables of a role's members that follow from the job file alone, for the SDK."""
        return {}

    @abstractmethod
    def render(self, member: Member, identity: Identity, member_dir: str) -> Launch:
        """What `member` runs, with the identity in the framework's own variables.

        `member_dir` is the folder that `Launch.files` are written to.
        """

    def starter_files(self) -> dict[str, str]:
        """The files that `moor init` writes: those in `starters/<name>/` beside the module."""
        from importlib import resources

        package = sys.modules[type(self).__module__].__package__
        if not package:
            return {}
        folder = resources.files(package) / "starters" / self.name
        if not folder.is_dir():
            return {}
        found = [entry for entry in folder.iterdir() if entry.is_file()]
        return {
            entry.name: entry.read_text(encoding="utf-8")
            for entry in sorted(found, key=lambda entry: entry.name)
        }


def inside_problems(job: TrainingJob, needed: str) -> list[Problem]:
    """What `spec.variables` asks to be changed in a program, where nothing can change it."""
    asked = job.spec.variables or VariablesSpec.all_defaults()
    given = {"lookups": asked.lookups.value, "optimizer": asked.optimizer.value}
    return [
        Problem(f"spec.variables.{name}", value, f"as-written; {value} needs {needed}")
        for name, value in given.items()
        if value != "as-written"
    ]


def member_env(identity: Identity) -> dict[str, str]:
    """The variables that every process of a member gets, whatever its framework."""
    me = identity.member
    return {
        "MOORING_JOB": identity.job,
        "MOORING_ROLE": me.role,
        "MOORING_INDEX": str(me.index),
        "MOORING_MEMBER": me.name,
        "MOORING_EPOCH": str(identity.epoch),
        "MOORING_WORLD_SIZE": str(identity.world_size),
        "MOORING_LOCAL_WORLD_SIZE": str(identity.me.processes),
        "MOORING_PEERS": identity.peers.addresses_json,
    }


def process_env(identity: Identity, local_rank: int) -> dict[str, str]:
    """The variables that differ between a member's local processes."""
    env = {"MOORING_LOCAL_RANK": str(local_rank)}
    if identity.ranks:
        env["MOORING_RANK"] = str(identity.ranks[local_rank])
    return env


def launch(
    member: Member,
    identity: Identity,
    *,
    defaults: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    per_process: Iterable[Mapping[str, str]] = (),
    files: Mapping[str, str] | None = None,
    serves_ranks: bool = False,
) -> Launch:
    """A Launch with Mooring's own variables in place, under and over what the user set."""
    extra = list(per_process) or [{} for _ in range(member.processes)]
    return Launch(
        argv=() if serves_ranks else member.argv,
        env={**(defaults or {}), **member.env, **(env or {}), **member_env(identity)},
        processes=()
        if serves_ranks
        else tuple(
            LocalProcess(local_rank, {**own, **process_env(identity, local_rank)})
            for local_rank, own in enumerate(extra)
        ),
        files=files or {},
        serves_ranks=serves_ranks,
    )
