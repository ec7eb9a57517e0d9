"""What an API server's audit log says about who wrote what, and how long things took.

Pure: entries in, figures out. Every time is the API server's own, of one clock: nothing that is
measured has to tell when it was done, and looking costs those who are measured nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Entry(Protocol):
    """One answered request, as the audit log tells of it."""

    @property
    def user(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def code(self) -> int: ...
    @property
    def is_write(self) -> bool: ...
    @property
    def received_s(self) -> float: ...
    @property
    def answered_s(self) -> float: ...


#: Written for as long as an operator lives, whether there is a job or not.
_OF_NO_JOB = ("leases",)


@dataclass(frozen=True)
class Writes:
    """What one user wrote for jobs: calls by verb and resource, most first. Refused calls count."""

    counts: tuple[tuple[str, int], ...]
    of_no_job: int

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)


def writes_of(entries: Iterable[Entry], user: str) -> Writes:
    counted: Counter[str] = Counter()
    of_no_job = 0
    for entry in entries:
        if entry.user != user or not entry.is_write:
            continue
        if entry.resource in _OF_NO_JOB:
            of_no_job += 1
        else:
            counted[f"{entry.verb} {_thing(entry)}"] += 1
    return Writes(tuple(sorted(counted.items(), key=lambda one: (-one[1], one[0]))), of_no_job)


def least_writes(pods: int, phases: int) -> int:
    """Each pod once, one Service, and the job's status once for each phase that it goes through."""
    return pods + 1 + phases


def done(entries: Iterable[Entry], verb: str, thing: str, user: str = "") -> list[Entry]:
    """Calls of one kind that were carried out, in the order of their answers. `thing` is a
    resource, or `resource/subresource`."""
    found = [
        entry
        for entry in entries
        if entry.verb == verb
        and _thing(entry) == thing
        and entry.code < 300
        and (not user or entry.user == user)
    ]
    return sorted(found, key=lambda entry: entry.answered_s)


def span_s(first: Sequence[Entry], last: Sequence[Entry]) -> float:
    """From the first arrival among some calls to the last answer among others."""
    if not first or not last:
        raise ValueError("no such call was made")
    return max(one.answered_s for one in last) - min(one.received_s for one in first)


def _thing(entry: Entry) -> str:
    return f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
