"""Members: what a job expands to before anything is placed.

A member carries all that placing and starting need, already resolved (defaults, role and job
settings merged), so that no later layer looks into the job file again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

from mooring.model.affinity import ANYWHERE, NodeWish
from mooring.model.cluster import Toleration
from mooring.model.labels import Labels
from mooring.model.resources import Resources
from mooring.model.topology_spread import TopologySpread
from mooring.model.traffic import Traffic
from mooring.model.volumes import Volume

#: The label of the members of all jobs of one pipeline; its value is the pipeline's name.
PIPELINE = "mooring.dev/pipeline"
#: The labels that every member has, whether its job names any or not.
JOB = "mooring.dev/job"
ROLE = "mooring.dev/role"


class Pinning(StrEnum):
    """How tightly a member is held to CPUs.

    exclusive: whole CPUs that no other member of any run may use; shared: the node's CPUs that
    nobody holds exclusively; none: wherever the operating system likes.
    """

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    NONE = "none"


class Restart(StrEnum):
    """What the failure of a member leads to."""

    NEVER = "never"
    MEMBER = "member"
    GANG = "gang"


@dataclass(frozen=True, order=True)
class MemberId:
    """The stable name of a member within its job; it survives restarts."""

    role: str
    index: int

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Member:
    """One copy of a role. `processes` counts the local ranks that it runs."""

    id: MemberId
    job: str
    resources: Resources = Resources()
    pinning: Pinning = Pinning.SHARED
    processes: int = 1
    computes: bool = True
    """False: it only starts or leads others, and needs no CPU of its own."""
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Name -> port that the user fixed, or 0 for one that the runtime chooses."""
    node_selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tolerations: tuple[Toleration, ...] = ()
    restart: Restart = Restart.NEVER
    wish: NodeWish = ANYWHERE
    image: str = ""
    volumes: tuple[Volume, ...] = ()
    labels: Labels = ()
    """What other jobs' rules may know it by."""

    @property
    def name(self) -> str:
        return self.id.name

    @property
    def all_labels(self) -> Labels:
        """Its labels, its job and its role."""
        return tuple(sorted((*self.labels, (JOB, self.job), (ROLE, self.id.role))))

    @property
    def hostname(self) -> str:
        """The name under which its peers find it: one DNS label."""
        return f"{self.job}-{self.id.role}-{self.id.index}"


class Duty(StrEnum):
    """What the members of a role are there for, as their framework tells."""

    TRAINS = "trains"
    SERVES = "serves"
    """Holds parameters for those who train."""
    LEADS = "leads"
    """Hands out steps to those who train, and does not do them itself."""
    EVALUATES = "evaluates"
    """Looks at what the others have made, now and then."""
    STARTS = "starts"
    """Only starts the processes of others and waits for them."""


class Relation(StrEnum):
    APART = "apart"
    TOGETHER = "together"


@dataclass(frozen=True)
class Rule:
    """`roles` apart from / together with `others`, by node; required or a preference."""

    relation: Relation
    roles: tuple[str, ...]
    others: tuple[str, ...]
    required: bool = False
    weight: int = 50


class Preset(StrEnum):
    COLOCATE = "colocate"
    ISOLATE = "isolate"
    SPREAD_PS = "spread-ps"
    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True)
class Gang:
    """The members that start together or not at all, and what their author wants of the place.

    `duties`: (role, what it is there for); a role that is not named trains.
    """

    job: str
    members: tuple[Member, ...]
    preset: Preset
    duties: tuple[tuple[str, Duty], ...] = ()
    rules: tuple[Rule, ...] = ()
    all_or_nothing: bool = True
    traffic: Traffic | None = None
    spreads: tuple[TopologySpread, ...] = ()
    preset_is_open: bool = False
    """Nobody asked for the preset: where traffic is known, it may choose another."""

    @cached_property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([member.id.role for member in self.members]))

    def duty_of(self, role: str) -> Duty:
        return self.duty_by_role.get(role, Duty.TRAINS)

    @cached_property
    def duty_by_role(self) -> Mapping[str, Duty]:
        return dict(self.duties)

    @cached_property
    def server_roles(self) -> tuple[str, ...]:
        """The roles that serve parameters: the presets speak of them."""
        return tuple(role for role, duty in self.duties if duty is Duty.SERVES)
