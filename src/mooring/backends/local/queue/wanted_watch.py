"""How a supervisor of a job hears what the service wants of it, and knows that it is the only one.

Supervisors are processes of their own (`mooring.supervise`) or a `moor run` in front of a terminal.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mooring.backends.local.queue.documents import Action, Admission
from mooring.backends.local.queue.folders import JobFolder
from mooring.model.plan import Plan
from mooring.record import RunRecord


class WantedWatch:
    """What the service wants of the run: where its members are to be, and why it is to end; the
    latter may also be wanted by somebody who has left a file for it (`moor stop` without the
    service)."""

    def __init__(self, folder: JobFolder, job: str, admission: Admission) -> None:
        self._folder, self._job, self._admission = folder, job, admission.number
        self._promise = admission.plan
        self._plan: Plan | None = None
        self._stamp: tuple[int, int] | None = None
        self._reason: str | None = None
        self._told = False
        self._now = False
        self.run: RunRecord | None = None
        self.released: str | None = None
        """Why the job has to give its place back, once it has to."""

    def reason(self) -> str | None:
        """None while it is to go on. Another text than before is a second request, which does not
        wait for the members."""
        self._look_at_wanted()
        if self.run is not None and self.run.stop_file.exists():
            self._look_at_stop_file(self.run.stop_file)
        if self._now and self._told:
            return f"{self._reason}, without grace"
        self._told = self._reason is not None
        return self._reason

    def plan(self) -> Plan:
        """The same object until another plan is wanted."""
        self._look_at_wanted()
        if self._plan is None:
            self._plan = self._promise.plan(self._job)
        return self._plan

    def _look_at_wanted(self) -> None:
        try:
            stat = self._folder.wanted_file.stat()
        except OSError:
            return
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        wanted = self._folder.wanted()
        if wanted is None:
            return
        if wanted.admission != self._admission:
            self._ask("it was admitted anew", now=False)
            return
        if wanted.plan is not None and wanted.plan.number > self._promise.number:
            self._promise, self._plan = wanted.plan, None
        if wanted.action is Action.RELEASE and self._reason is None:
            self.released = wanted.reason
            self._ask(wanted.reason, now=wanted.now)
        elif wanted.action is Action.STOP:
            # For good, also if it is giving way already.
            self.released = None
            self._ask(wanted.reason, now=wanted.now)

    def _look_at_stop_file(self, path: Path) -> None:
        with suppress(OSError):
            self.released = None
            self._ask("asked to stop", now=path.read_text(encoding="utf-8").startswith("now"))

    def _ask(self, reason: str, *, now: bool) -> None:
        self._reason = self._reason or reason
        self._now = self._now or now


@contextmanager
def only_supervisor(folder: JobFolder) -> Iterator[bool]:
    """Whether this is the only supervisor of the job; the kernel lets go when it dies."""
    fd = os.open(folder.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(fd)
