"""The turn of a `moor run` in the machine's queue: asked for, waited for, and given up.

The process that waits supervises its job itself. It is known to the service by its mark from the
beginning, so that its end frees whatever it had been given, however it ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from mooring.backends.local.queue.client import NoService, NotFound, ServiceClient, ServiceFailed
from mooring.backends.local.queue.documents import Admission, Outcome, SupervisorName
from mooring.backends.local.queue.folders import JobFolder
from mooring.backends.local.queue.wanted_watch import WantedWatch, only_supervisor
from mooring.model.errors import MooringError
from mooring.record.process_mark import mark_of
from mooring.spec import TrainingJob

#: A service that is replaced by another version is back by then.
_COMES_BACK_S = 5.0
_FIRST_POLL_S = 0.01
_POLL_S = 0.1
_ASK_EVERY_S = 1.0
#: A machine with room admits the job before anything needs to be said.
_ASK_AFTER_S = 0.3


class EndedInQueue(MooringError):
    """Somebody stopped the job while it waited."""


@dataclass(frozen=True)
class WaitingPlace:
    """Where a job stands in the queue, and why it waits. `behind`: who is just ahead of it."""

    job_id: str
    position: int | None
    behind: str
    reason: str

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> WaitingPlace:
        ahead = line["ahead"]
        behind = str(ahead[-1]) if ahead else ""
        return cls(str(line["id"]), line["position"], behind, str(line["reason"]))


class Turn:
    """A job of this process in the queue, from its arrival until it runs or leaves."""

    def __init__(self, client: ServiceClient, job_id: str) -> None:
        self._client, self.job_id = client, job_id
        self._folder: JobFolder = client.home.job(job_id)
        self._name = SupervisorName(pid=os.getpid(), mark=mark_of(os.getpid()))

    @classmethod
    def ask(cls, client: ServiceClient, job: TrainingJob, folder: str, source: str) -> Turn:
        """Queue it. Raises BadInput for a job that the queue does not take; NoService or
        ServiceFailed."""
        pid = os.getpid()
        document = {
            "job": job.to_dict(),
            "folder": folder,
            "source": source,
            "foreground": {"pid": pid, "mark": mark_of(pid)},
        }
        return cls(client, str(client.post("/jobs", document)["id"]))

    def wait(self, waits: Callable[[WaitingPlace], None]) -> Admission | None:
        """What the queue gives it, once it does; None if the service is gone or does not know it
        any more, and the queue has been left. Raises EndedInQueue.

        `waits` is called again and again with where it stands.
        """
        heard_s = time.monotonic()
        ask_at_s, pause_s = heard_s + _ASK_AFTER_S, _FIRST_POLL_S
        while (admission := self._admission()) is None:
            now_s = time.monotonic()
            if now_s >= ask_at_s:
                ask_at_s = now_s + _ASK_EVERY_S
                if self._is_heard(waits):
                    heard_s = time.monotonic()
                elif now_s - heard_s > _COMES_BACK_S:
                    self.leave("it went on without the queue")
                    return None
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.2, _POLL_S)
        return admission

    def _admission(self) -> Admission | None:
        wanted = self._folder.wanted()
        return None if wanted is None else self._folder.admission(wanted.admission)

    def _is_heard(self, waits: Callable[[WaitingPlace], None]) -> bool:
        try:
            line = self._client.get(f"/jobs/{self.job_id}")
        except (NoService, NotFound, ServiceFailed):
            return False
        if line["state"] == "ended":
            raise EndedInQueue(f"{self.job_id} was stopped while it waited: {line['reason']}")
        if line["state"] == "queued":
            waits(WaitingPlace.of(line))
        return True

    def leave(self, reason: str) -> None:
        """Wait no more. A service that is not there now learns of it when it is."""
        with suppress(OSError):
            self._folder.write_left(reason)
        with suppress(MooringError):
            self._client.post(f"/jobs/{self.job_id}/stop", {"now": True})

    @contextmanager
    def supervises(self, admission: Admission, job: str) -> Iterator[WantedWatch]:
        """Take up what was given: the service counts it as this process's from here on."""
        with only_supervisor(self._folder):
            with suppress(OSError):
                # On a full disk the service knows us all the same, by what we told it first.
                self._folder.write_supervisor(admission.number, self._name)
            yield WantedWatch(self._folder, job, admission)

    def write_outcome(self, admission: Admission, outcome: Outcome) -> None:
        with suppress(OSError):
            self._folder.write_outcome(admission.number, outcome)
