"""What several checks ask of facts, and how they word it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil

from mooring.doctor.facts import MemberFacts, RunFacts, Use
from mooring.doctor.registry import DoesNotApply, Unknown

#: Where figures come from, in the words of docs/formats.md.
SAMPLES = "samples/M.jsonl"
READY = "samples/M.jsonl, ready"
EVENTS = "events.jsonl"
JOB = "job.yaml"
PLAN = "plan.json"

MEBIBYTE = 1 << 20


def used(members: Iterable[MemberFacts]) -> list[tuple[MemberFacts, Use]]:
    """Members with enough samples. Raises Unknown if there is none."""
    found = [(member, member.use) for member in members if member.use is not None]
    if not found:
        raise Unknown("fewer than three samples of any member")
    return found


def by_role(members: Iterable[MemberFacts]) -> Iterator[tuple[str, list[MemberFacts]]]:
    """Members of each role: a remedy in the job file is a role's, not a member's."""
    roles: dict[str, list[MemberFacts]] = {}
    for member in members:
        roles.setdefault(member.role, []).append(member)
    yield from roles.items()


def servers_of(facts: RunFacts) -> tuple[MemberFacts, ...]:
    """Raises Unknown in a job without parameter servers."""
    if not facts.servers:
        raise DoesNotApply("the job has no parameter servers")
    return facts.servers


def whole_cpus(cpus: float) -> int:
    """At least one; a hair above a whole number is that number."""
    return max(1, ceil(cpus - 0.05))


def mebibytes(amount_bytes: float) -> str:
    """Rounded up, as a job file writes it."""
    return f"{max(1, ceil(amount_bytes / MEBIBYTE))}Mi"


def names(members: Iterable[MemberFacts]) -> tuple[str, ...]:
    return tuple(member.name for member in members)
