"""A program's job as a submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api import AnyJob, job_of
from mooring.backends.local.inherited import refuse_owned
from mooring.backends.local.preparing import Given
from mooring.backends.local.queue.submitting import request_of


def submission(job: AnyJob, set: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """The body of a request. Raises BadInput or NotInstalled."""
    ready = job_of(job, set)
    refuse_owned(ready.spec, variables, "variables")
    given = Given(variables=dict(variables))
    return request_of(ready.spec, ready.folder, ready.source, given).body
