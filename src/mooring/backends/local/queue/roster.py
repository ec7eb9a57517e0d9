"""All jobs of the queue that have not ended, in memory as in the store.

The one way to change a job: the new record and what happened are written first, in one
transaction; then the job's end is carried through (its folder says so, its variables are gone), and
whoever waits for news hears of it. A store that turns out to be damaged is replaced by one that is
written from memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from mooring.backends.local.queue.admission import Candidate
from mooring.backends.local.queue.documents import End
from mooring.backends.local.queue.entry import EntryState, QueueEntry, failed
from mooring.backends.local.queue.folders import JobFolder, QueueHome
from mooring.backends.local.queue.recovery import recover
from mooring.backends.local.queue.store import Damaged, NewEvent, Store, set_aside
from mooring.model.errors import BadInput
from mooring.spec import TrainingJob

log = logging.getLogger(__name__)


class Roster:
    """Jobs by id. `changed` is called after each change."""

    def __init__(self, home: QueueHome, store: Store, now: Callable[[], float]) -> None:
        self.home, self.store, self.now = home, store, now
        self.notes: list[str] = []
        """What whoever runs the service should know."""
        self.changed: Callable[[], None] = lambda: None
        self._jobs: dict[str, Candidate] = {}
        self._next_number = store.next_number()
        self._news: set[asyncio.Event] = set()
        self._begun_anew: list[NewEvent] | None = None
        self._unreadable: frozenset[str] = frozenset()
        store.mend = self._mend

    @classmethod
    def opened(cls, home: QueueHome, now: Callable[[], float]) -> Roster:
        """With the queue's file, or what can be made up for it if it is damaged."""
        try:
            roster = cls(home, Store(home.database), now)
        except Damaged as error:
            kept = set_aside(home.database)
            roster = cls(home, Store(home.database), now)
            roster._fill(f"{error}", f"was damaged and is kept as {kept.name}")
            return roster
        if roster.store.is_new and any(home.jobs_dir.iterdir()):
            roster._fill(f"{home.database} is empty", "was empty")
        return roster

    def __getitem__(self, job_id: str) -> Candidate:
        """Raises KeyError if it has ended or never was."""
        return self._jobs[job_id]

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def __iter__(self) -> Iterator[Candidate]:
        return iter(list(self._jobs.values()))

    def get(self, job_id: str) -> Candidate | None:
        return self._jobs.get(job_id)

    def folder(self, job_id: str) -> JobFolder:
        return self.home.job(job_id)

    def load(self) -> None:
        """Take up the jobs of an earlier service. Folders of submissions that nobody was told of
        are removed; what cannot be read any more has failed."""
        for entry in self.store.unfinished():
            try:
                job = self.folder(entry.id).job(entry.source)
                self._jobs[entry.id] = Candidate.of(entry, job)
            except BadInput as error:
                log.error("%s cannot be read any more: %s", entry.id, error)
                ended = failed(entry, f"its record cannot be read: {error}", self.now())
                self._write([ended], [end_event(ended)])
        for folder in self.home.jobs_dir.iterdir():
            if folder.name in self._unreadable:
                continue
            if folder.name not in self._jobs and self.store.find(folder.name) is None:
                JobFolder(folder).remove()

    def new_id(self, name: str) -> tuple[int, str]:
        """A number that was never used, and the id of a job with this name and number."""
        number, self._next_number = self._next_number, self._next_number + 1
        return number, f"{name}-{number}"

    def add(self, entry: QueueEntry, job: TrainingJob) -> Candidate:
        """A job whose folder is complete. Raises BadInput or StoreFull."""
        candidate = Candidate.of(entry, job)
        self._write([entry], [NewEvent("submitted", entry.id, {"name": entry.name})])
        self._jobs[entry.id] = candidate
        self.changed()
        return candidate

    def change(self, after: QueueEntry, *events: NewEvent) -> None:
        """Raises StoreFull, and nothing has changed then."""
        self.change_all([after], events)

    def change_all(self, after: Sequence[QueueEntry], events: Iterable[NewEvent]) -> None:
        """All of it or nothing."""
        ended = [one for one in after if one.ended]
        for entry in ended:
            # The folder first: the store tells of an end that everybody can see.
            self._write_end(entry)
        self._write(after, [*events, *map(end_event, ended)])
        for entry in after:
            if entry.ended:
                self._jobs.pop(entry.id, None)
                self.folder(entry.id).forget_environment()
            else:
                self._jobs[entry.id] = replace(self._jobs[entry.id], entry=entry)
        self.changed()

    def note_in_memory(self, after: QueueEntry) -> None:
        """What the job's folder tells as well and the store need not."""
        self._jobs[after.id] = replace(self._jobs[after.id], entry=after)

    def tell(self, *events: NewEvent) -> None:
        """What happened, without a change of any job."""
        self._write([], events)

    def subscribe(self) -> asyncio.Event:
        """Set whenever the journal has grown; give it back with `unsubscribe`."""
        news = asyncio.Event()
        self._news.add(news)
        return news

    def unsubscribe(self, news: asyncio.Event) -> None:
        self._news.discard(news)

    def remove_ended(self, job_ids: Sequence[str]) -> None:
        """Forget jobs that have ended. Their runs stay."""
        self.store.remove(job_ids)
        for job_id in job_ids:
            self.folder(job_id).remove()

    def _write(self, entries: Sequence[QueueEntry], events: Iterable[NewEvent]) -> None:
        told = list(events)
        if self._begun_anew is not None:
            self._save_all(self._begun_anew)
        try:
            self.store.save(entries, told, self.now())
        except Damaged as error:
            self._mend(error)
            self.store.save(entries, told, self.now())
        if told:
            for news in self._news:
                news.set()

    def _mend(self, error: Damaged) -> None:
        """The file is no longer what was written: begin a new one. Raises StoreFull."""
        kept = self.store.begin_anew()
        self._fill(f"{error}", f"was damaged and is kept as {kept.name}")

    def _fill(self, error: str, what: str) -> None:
        recovered = recover(self.home, self.now())
        self._unreadable = frozenset(recovered.unreadable)
        note = recovered.note(what)
        log.error("%s; %s", error, note)
        self.notes.append(note)
        self._next_number = max(self._next_number, recovered.last_number + 1)
        self._save_all([NewEvent("recovered", "", {"says": note})])

    def _save_all(self, told: list[NewEvent]) -> None:
        """All that is known, into a file that is empty; if that is full, with the next change."""
        self._begun_anew = told
        entries = {entry.id: entry for entry in recover(self.home, self.now()).entries}
        entries |= {candidate.entry.id: candidate.entry for candidate in self._jobs.values()}
        self.store.save(list(entries.values()), told, self.now())
        self.store.reserve_numbers(self._next_number - 1)
        self._begun_anew = None

    def _write_end(self, entry: QueueEntry) -> None:
        end = End(
            phase=entry.phase,
            reason=entry.reason,
            ended_s=entry.ended_s or self.now(),
            run_id=entry.run_id,
        )
        try:
            self.folder(entry.id).write_end(end)
        except OSError as error:
            log.error("cannot write down the end of %s: %s", entry.id, error)


def end_event(entry: QueueEntry) -> NewEvent:
    return NewEvent(
        "ended",
        entry.id,
        {"phase": entry.phase.value, "reason": entry.reason, "run": entry.run_id},
    )


def waits(candidate: Candidate) -> bool:
    return candidate.entry.state is EntryState.QUEUED
