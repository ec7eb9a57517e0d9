"""The run that a user names, for commands that only look at one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.errors import BadInput

if TYPE_CHECKING:
    from mooring.record import RunRecord


def find_run(name: str) -> RunRecord:
    """As `record.find_run`; of a job that waits in the machine's queue the error says so."""
    from mooring import record

    try:
        return record.find_run(name)
    except BadInput as error:
        from mooring.cli import queue_jobs

        job = queue_jobs.find(name)
        if job is None:
            raise
        found = f"a job of the queue that has no run yet: {job['reason'] or job['phase']}"
        accepted = f"a job that has started; `moor attach {name}` waits for it"
        raise BadInput.at("moor", f"RUN {name}", found, accepted) from error
