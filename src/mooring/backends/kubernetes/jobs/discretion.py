"""What may be told of a job that is refused: not what stands in its variables and arguments.

Statuses, events and logs are read by more people than jobs are, and people do put passwords there.
"""

from __future__ import annotations

import re
from dataclasses import replace

from mooring.model.errors import BadInput, Problem

#: The field, its entry (a variable's name, a number), and more: a key that holds a value.
_PRIVATE = re.compile(r"((?:.*\.)?(?:env|command)(?=[.\[]|$))(\.[A-Za-z_]\w*|\[\d+\])?(.*)", re.S)


def discreet(problem: Problem) -> Problem:
    match = _PRIVATE.match(problem.path)
    if match is None:
        return problem
    field, entry, more = match.groups(default="")
    path = field if more else field + entry
    return replace(problem, path=path, found="something that is not shown here")


def discreet_text(error: BadInput) -> str:
    """The error's message, as others may read it."""
    return str(BadInput(error.source, [discreet(problem) for problem in error.problems]))
