"""The errors that a user can cause, each carrying the sentence that the user reads.

The command line turns `BadInput` and `NotInstalled` into exit code 2 and `RunFailed` into exit
code 1; anything else that escapes is a defect of Mooring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One rejection: where it is, what was found there, what would be accepted."""

    path: str
    found: str
    accepted: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.path} (line {self.line})" if self.line is not None else self.path
        return f"{where}: found {self.found}; accepted: {self.accepted}"


class MooringError(Exception):
    """Base of all errors with a message meant for the user."""


class BadInput(MooringError):
    """What the user gave cannot be used; nothing was started."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))

    @classmethod
    def at(cls, source: str, path: str, found: str, accepted: str) -> BadInput:
        return cls(source, [Problem(path, found, accepted)])


class RunFailed(MooringError):
    """The machine refused something that a run needs (disk full, no permission, ...)."""


class NotInstalled(MooringError):
    """A program of the job needs something that is not there; nothing was started."""
