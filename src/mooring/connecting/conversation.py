"""What is asked of the service, in which order, and what the answers mean. No I/O: each talk is a
generator that yields questions and rests, is given answers or errors, and returns its result; those
that go on for a while yield what they have to tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter

from mooring.backends.local.queue.client import NoAnswer, NoService, NotFound
from mooring.connecting.values import JobResult, JobStatus
from mooring.http_api.run_models import RunFindings
from mooring.model.errors import BadInput
from mooring.report.figures import Report
from mooring.report.progress import Progress

REST_S = 0.2
#: A service that is replaced listens again by then.
_PATIENCE_S = 60.0
_AT_ONCE = 1000
_REPORT = TypeAdapter(Report)
_PROGRESS = TypeAdapter(Progress)
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Ask:
    """A question; with a `body` it is a POST."""

    path: str
    body: Any = None


@dataclass(frozen=True)
class Rest:
    """A pause."""

    seconds: float


@dataclass(frozen=True)
class Told(Generic[T]):
    """Something for whoever listens."""

    items: tuple[T, ...]


Answer = dict[str, Any]
#: Comes to a T after some questions.
Talk = Generator[Ask | Rest, Any, T]
#: Tells Ts as they come.
Live = Generator[Ask | Rest | Told[T], Any, None]


def ask(path: str, body: Any = None) -> Talk[Answer]:
    """One question."""
    answer: Answer = yield Ask(path, body)
    return answer


def patiently(talk: Callable[[], Talk[T]]) -> Talk[T]:
    """The same, begun again while the service is being replaced. Raises NoService in the end."""
    until_s: float | None = None
    while True:
        try:
            return (yield from talk())
        except (NoService, NoAnswer):
            now_s = time.monotonic()
            until_s = now_s + _PATIENCE_S if until_s is None else until_s
            if now_s >= until_s:
                raise
        yield Rest(REST_S)


@dataclass(frozen=True)
class Followed:
    """A job of the queue (`job`: its id), or a run that did not come from there (`run`)."""

    job: str = ""
    run: str = ""

    @classmethod
    def found(cls, name: str) -> Talk[Followed]:
        """By the id of a job or of a run. Raises NotFound."""
        quoted = quote(name, safe="")
        try:
            told = yield from ask(f"/jobs/{quoted}")
            return cls(job=told["id"])
        except NotFound:
            told = yield from ask(f"/runs/{quoted}")
            run = told["run"]
            return cls(job=run["queue_job"]) if run["queue_job"] else cls(run=run["run"])

    @property
    def id(self) -> str:
        return self.job or self.run

    def status(self) -> Talk[JobStatus]:
        if self.job:
            told = yield Ask(f"/jobs/{self.job}")
            ended, place = told["state"] == "ended", told["position"]
            return JobStatus(told["phase"], told["reason"], ended, told["run"], place)
        told = (yield Ask(f"/runs/{self.run}"))["run"]
        ended = told["ended"] or told["phase"] == "Lost"
        return JobStatus(told["phase"], told["reason"], ended, self.run)

    def _run_now(self) -> Talk[str]:
        """Raises NotFound if it has none."""
        if self.run:
            return self.run
        status = yield from self.status()
        if not status.run:
            raise NotFound(f"{self.job} has no run yet: {status.reason or status.phase}")
        return status.run

    def progress(self) -> Talk[Progress]:
        run = yield from self._run_now()
        told = yield Ask(f"/runs/{run}")
        return _PROGRESS.validate_python(told["progress"])

    def report(self) -> Talk[Report]:
        run = yield from self._run_now()
        return _REPORT.validate_python((yield Ask(f"/runs/{run}/report")))

    def doctor(self) -> Talk[RunFindings]:
        run = yield from self._run_now()
        return RunFindings.model_validate((yield Ask(f"/runs/{run}/findings")))

    def stop(self, now: bool) -> Talk[None]:
        if not self.job:
            found = "a run that did not come from the queue"
            raise BadInput.at("stop", self.run, found, "a job of the queue, or `moor stop`")
        yield Ask(f"/jobs/{self.job}/stop", {"now": now})

    def wait(self, timeout_s: float | None) -> Talk[JobResult]:
        """Raises TimeoutError."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not (status := (yield from patiently(self.status))).ended:
            if until_s is not None and time.monotonic() >= until_s:
                raise TimeoutError(f"{self.id} has not ended within {timeout_s} s")
            yield Rest(REST_S)
        try:
            detail = yield from patiently(partial(ask, f"/runs/{status.run}"))
            report = yield from patiently(partial(ask, f"/runs/{status.run}/report"))
        except NotFound:
            return JobResult(status.phase, status.reason)
        return JobResult(
            status.phase,
            status.reason,
            status.run,
            _REPORT.validate_python(report),
            Path(detail["run"]["directory"]),
        )


def list_runs(unfinished: bool, limit: int) -> Talk[tuple[Followed, ...]]:
    """Jobs that wait, then runs, the latest first."""
    at_once = min(limit, _AT_ONCE)
    found: list[Followed] = []
    after = ""
    while len(found) < limit:
        told = yield Ask(f"/jobs?state=queued&fields=id&limit={at_once}{after}")
        found += [Followed(job=one["id"]) for one in told["jobs"]]
        if told["next"] is None:
            break
        after = f"&next={told['next']}"
    after = ""
    while True:
        fields = "fields=run,queue_job"
        kind = "true" if unfinished else "false"
        told = yield Ask(f"/runs?{fields}&unfinished={kind}&limit={at_once}{after}")
        for one in told["runs"]:
            of = Followed(job=one["queue_job"]) if one["queue_job"] else Followed(run=one["run"])
            # A job that had to wait has several runs.
            if of not in found:
                found.append(of)
        if told["next"] is None or len(found) >= limit:
            return tuple(found[:limit])
        after = f"&next={told['next']}"
