"""What a runtime needs to start one member: where it is reached and what it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Address:
    """Where a member is reached: a host name or address, and its ports by name."""

    host: str
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class LocalProcess:
    """One user process of a member; `env` is what differs between the local ranks."""

    local_rank: int
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Launch:
    """A framework's rendering of an identity.

    `files` (name -> text) are written into the member's own folder before it starts.
    A member that `serves_ranks` has no command: another member starts processes in its slot.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    processes: tuple[LocalProcess, ...]
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    serves_ranks: bool = False
