"""Jobs of the queue as the API tells of them, and how they come in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from mooring import frameworks
from mooring.backends.local import staging
from mooring.backends.local.queue.admission import Candidate, Sharing
from mooring.backends.local.queue.documents import Environment, Submission
from mooring.backends.local.queue.entry import EntryState, QueueEntry
from mooring.backends.local.queue.service import QueueService
from mooring.brain.queue import DEFAULT_POOL
from mooring.http_api.models import JobLine, NewJob
from mooring.model.errors import BadInput, RunFailed
from mooring.planning import priority_of
from mooring.spec import TrainingJob
from mooring.spec.load import check_job

_MOST_AHEAD = 10


async def submit(service: QueueService, new: NewJob) -> Candidate:
    """Check a job, keep all that it needs, and queue it. Raises BadInput, RunFailed, or what the
    store raises; nothing is left then."""
    job = check_job(new.job, new.source)
    members = _check(job, new, service.sharing)
    now_s = time.time()
    number, job_id = service.roster.new_id(job.metadata.name)
    folder = service.roster.folder(job_id)
    submission = Submission(
        id=job_id,
        number=number,
        name=job.metadata.name,
        folder=new.folder,
        source=new.source,
        submitted_s=now_s,
        env_files=new.env_files,
        check=new.check,
        stacks=new.stacks,
        umask=new.umask,
        foreground=new.foreground,
    )
    environment = Environment(variables=new.environment, given=new.given)
    try:
        try:
            folder.create(job, submission, environment)
        except OSError as error:
            raise RunFailed(f"cannot keep the job in {folder.root}: {error.strerror}") from error
        if job.spec.files and new.foreground is None:
            names, target = list(job.spec.files), folder.files_dir
            await asyncio.to_thread(staging.copy_files, names, Path(new.folder), target)
        entry = QueueEntry(
            number=number,
            id=job_id,
            name=job.metadata.name,
            folder=new.folder,
            source=new.source,
            submitted_s=now_s,
            members=members,
            pool=job.spec.pool or "",
            priority=job.spec.priority,
            foreground=new.foreground is not None,
            supervisor=new.foreground,
        )
        return service.roster.add(entry, job)
    except BaseException:
        folder.remove()
        raise


def _check(job: TrainingJob, new: NewJob, sharing: Sharing) -> int:
    """The number of its members. Raises BadInput."""
    folder = Path(new.folder)
    if not folder.is_absolute() or not folder.is_dir():
        raise BadInput.at(new.source, "folder", repr(new.folder), "a folder, by its whole path")
    members = len(frameworks.expand(job, new.source).members)
    priority_of(job.spec.priority, sharing.classes, new.source)
    known = [pool.name for pool in sharing.pools]
    pool = job.spec.pool or DEFAULT_POOL
    if known and pool not in known:
        found = repr(job.spec.pool) if job.spec.pool else "no pool"
        accepted = f"one of the machine's pools: {', '.join(sorted(known))}"
        raise BadInput.at(new.source, "spec.pool", found, accepted)
    staging.working_dir(job, folder, new.source)
    staging.check_files(job, folder, new.source)
    return members


class JobLines:
    """Jobs at one moment. Sentences are made when the first job that waits is asked for."""

    def __init__(self, service: QueueService) -> None:
        self._service = service
        self._places: Mapping[str, tuple[int, tuple[str, ...]]] | None = None

    def _place(self, job_id: str) -> tuple[int | None, tuple[str, ...]]:
        if self._places is None:
            self._places = {
                job: (index + 1, tuple(line[max(0, index - _MOST_AHEAD) : index]))
                for line in self._service.round().lines().values()
                for index, job in enumerate(line)
            }
        return self._places.get(job_id, (None, ()))

    def of(self, candidate: Candidate) -> JobLine:
        """A job that has not ended."""
        entry, reason = candidate.entry, candidate.entry.reason
        position: int | None = None
        ahead: tuple[str, ...] = ()
        if entry.state is EntryState.QUEUED:
            position, ahead = self._place(entry.id)
            reason = self._service.sentences().get(entry.id, reason)
        return _line(entry, self._service.sharing, position, ahead, reason)

    def of_ended(self, entry: QueueEntry) -> JobLine:
        return _line(entry, self._service.sharing, None, (), entry.reason)


def phase_of(entry: QueueEntry) -> str:
    return "Queued" if entry.state is EntryState.QUEUED else entry.phase.value


def _line(
    entry: QueueEntry,
    sharing: Sharing,
    position: int | None,
    ahead: tuple[str, ...],
    reason: str,
) -> JobLine:
    return JobLine(
        id=entry.id,
        name=entry.name,
        state=entry.state.value,
        phase=phase_of(entry),
        pool=sharing.pool_of(entry),
        priority=sharing.priority_of(entry),
        members=entry.members,
        placed=len(entry.plan.slots) if entry.plan is not None else 0,
        submitted_s=entry.submitted_s,
        admitted_s=entry.admitted_s,
        ended_s=entry.ended_s,
        run=entry.run_id,
        restarts=entry.restarts,
        admissions=entry.admission,
        position=position,
        ahead=ahead,
        reason=reason,
    )
