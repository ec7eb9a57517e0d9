"""The queue from the folders of its jobs, for when its file is damaged.

Each folder tells what was submitted, what was given last and how that ended. What only the file
told is lost: what happened in which order, and how often a job was tried before its last admission.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mooring import frameworks
from mooring.backends.local.queue import entry as entries
from mooring.backends.local.queue.documents import Action, Admission, Submission, Wanted
from mooring.backends.local.queue.entry import EntryState, QueueEntry
from mooring.backends.local.queue.folders import JobFolder, QueueHome
from mooring.model.errors import BadInput

_STATES = {
    Action.RUN: EntryState.STARTING,
    Action.STOP: EntryState.STOPPING,
    Action.RELEASE: EntryState.RELEASING,
}


@dataclass(frozen=True)
class Recovered:
    """The jobs that are known again, and the folders that say too little."""

    entries: tuple[QueueEntry, ...]
    unreadable: tuple[str, ...]

    @property
    def last_number(self) -> int:
        return max((each.number for each in self.entries), default=0)

    def note(self, what: str) -> str:
        """What whoever runs the service should know; `what` happened to the queue's file."""
        unfinished = sum(not each.ended for each in self.entries)
        ended = len(self.entries) - unfinished
        said = (
            f"the queue's file {what}: {unfinished} jobs that had not ended and {ended} that had "
            f"are known by their folders; what happened when is lost"
        )
        if self.unreadable:
            lost = ", ".join(self.unreadable[:10])
            said += f"; {len(self.unreadable)} folders cannot be read: {lost}"
        return said


def recover(home: QueueHome, now_s: float) -> Recovered:
    """All jobs that have a folder. One whose supervisor is gone is found to be so later, as after
    any other absence of the service."""
    found, unreadable = [], []
    for path in sorted(home.jobs_dir.iterdir()):
        folder = JobFolder(path)
        submission = folder.submission()
        if submission is not None and submission.id == path.name:
            found.append(_entry(folder, submission, now_s))
        elif folder.job_file.exists():
            unreadable.append(path.name)
    return Recovered(tuple(sorted(found, key=lambda each: each.number)), tuple(unreadable))


def _entry(folder: JobFolder, submission: Submission, now_s: float) -> QueueEntry:
    entry = QueueEntry(
        number=submission.number,
        id=submission.id,
        name=submission.name,
        folder=submission.folder,
        source=submission.source,
        submitted_s=submission.submitted_s,
        foreground=submission.foreground is not None,
        supervisor=submission.foreground,
    )
    end = folder.end()
    if end is not None:
        return replace(
            entry,
            state=EntryState.ENDED,
            phase=end.phase,
            reason=end.reason,
            ended_s=end.ended_s,
            run_id=end.run_id,
            supervisor=None,
        )
    try:
        job = folder.job(submission.source)
        members = len(frameworks.expand(job, submission.source).members)
    except BadInput as error:
        return entries.failed(entry, f"its record cannot be read: {error}", now_s)
    entry = replace(entry, members=members, pool=job.spec.pool or "", priority=job.spec.priority)
    admission = max(_admissions(folder), key=lambda each: each.number, default=None)
    if admission is None:
        return entry
    return _admitted(entry, admission, folder.wanted(), submission.submitted_s)


def _admissions(folder: JobFolder) -> Iterator[Admission]:
    for path in folder.root.glob("admission-*.json"):
        number = path.stem.removeprefix("admission-")
        if number.isascii() and number.isdigit():
            admission = folder.admission(int(number))
            if admission is not None:
                yield admission


def _admitted(
    entry: QueueEntry, admission: Admission, wanted: Wanted | None, since_s: float
) -> QueueEntry:
    """As it was when its supervisor was last told something; whether that process has ended
    meanwhile is looked at as for all that an earlier service had admitted."""
    entry = entries.admitted(entry, admission, since_s)
    entry = replace(entry, epoch=admission.first_epoch, restarts=admission.restarts)
    if wanted is None or wanted.admission != admission.number:
        return entry
    return replace(
        entry,
        state=_STATES[wanted.action],
        reason=wanted.reason,
        stop_now=wanted.now,
        plan=wanted.plan or entry.plan,
    )
