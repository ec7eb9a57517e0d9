"""The library behind a framework: how it is recognised in a program, and what installs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Engine:
    """A module that programs of a framework import.

    module, package: what is imported, and what pip installs for it;
    implied_by: modules that are useless without it: who imports them uses the engine;
    programs: what it puts on the PATH and commands begin with;
    system_packages: package manager -> its package with those programs; empty: pip brings them.
    """

    module: str
    package: str
    implied_by: frozenset[str] = frozenset()
    programs: tuple[str, ...] = ()
    system_packages: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
