"""`mooring.connect`: calls that wait for their answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from mooring.api import AnyJob
from mooring.backends.local.queue.client import NoService, ServiceClient
from mooring.backends.local.queue.folders import QueueHome, queue_home
from mooring.connecting import following
from mooring.connecting.conversation import Answer, Ask, Followed, Live, R, Rest, T, Talk, Told
from mooring.connecting.conversation import list_runs as _list_runs
from mooring.connecting.submission import submission
from mooring.connecting.values import JobResult, JobStatus, Step
from mooring.http_api.run_models import RunFindings
from mooring.record.logs import LogLine
from mooring.report.figures import Report
from mooring.report.progress import Progress


def connect(backend: str | Path | None = None) -> Connection:
    """The queue of this machine, which `moor serve` runs.

    `backend`: the state home of another service of yours. Not given: `$MOORING_HOME`, or the usual
    one. Raises mooring.NoService if none listens there.
    """
    return Connection(client_of(backend))


def client_of(backend: str | Path | None) -> ServiceClient:
    home = queue_home() if backend is None else QueueHome(Path(backend).absolute() / "queue")
    client = ServiceClient(home)
    if not client.is_there():
        raise NoService(f"no service listens at {home.socket}: start it with `moor serve`")
    return client


class Connection:
    """Made by `mooring.connect`. It holds nothing open: there is nothing to close."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    def submit(
        self, job: AnyJob, *, set: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> ConnectedRun:
        """Queue a job: a path, a mapping, or a `mooring.Job`. Does not wait for it.

        `set`: overrides for a job file, as `moor run --set`. `variables` are given to its members
        beside this process's own, and forgotten when it has ended. Raises mooring.BadInput or
        mooring.NotInstalled, and nothing is queued then.
        """
        body = submission(job, set, variables or {})
        told = self._client.post("/jobs", body)
        return ConnectedRun(self._client, Followed(job=told["id"]))

    def runs(self, *, unfinished: bool = False, limit: int = 1000) -> list[ConnectedRun]:
        """Jobs that wait, then runs, the latest first; also those that are not of the queue."""
        found = _carry_out(self._client, _list_runs(unfinished, limit))
        return [ConnectedRun(self._client, followed) for followed in found]

    def run(self, id: str) -> ConnectedRun:
        """A job of the queue or a run, by its id. Raises mooring.NotFound."""
        return ConnectedRun(self._client, _carry_out(self._client, Followed.found(id)))


class ConnectedRun:
    """A job of the queue, before, while and after it runs; or a run that came otherwise."""

    def __init__(self, client: ServiceClient, followed: Followed) -> None:
        self._client, self._followed = client, followed

    @property
    def id(self) -> str:
        """Its id in the queue, or that of its run if it is not of the queue."""
        return self._followed.id

    def status(self) -> JobStatus:
        """Its phase, why it waits or ended, and its run."""
        return _carry_out(self._client, self._followed.status())

    def progress(self) -> Progress:
        """How far it is. Raises mooring.NotFound before it has a run."""
        return _carry_out(self._client, self._followed.progress())

    def logs(
        self, member: str | None = None, *, follow: bool = False, last: int | None = None
    ) -> Iterator[LogLine]:
        """What members printed: `at` (UTC), `member`, `text`. What is read together is in the order
        of its time.

        `member` is the name of one or of a role; `last` lines of each; with `follow` until the
        job's end, beginning when it begins.
        """
        return _live(self._client, following.lines_of(self._followed, member, last, follow))

    def steps(self, member: str | None = None) -> Iterator[Step]:
        """Every step that members report, as they come, until the job's end."""
        return _live(self._client, following.steps_of(self._followed, member))

    def report(self) -> Report:
        """The figures as far as it has come. Raises mooring.NotFound before it has a run."""
        return _carry_out(self._client, self._followed.report())

    def doctor(self) -> RunFindings:
        """Why it is slow. Raises mooring.NotFound before it has a run."""
        return _carry_out(self._client, self._followed.doctor())

    def stop(self, *, now: bool = False) -> None:
        """Ask it to stop; `now`: without waiting for its members. Does not wait: `wait` does."""
        _carry_out(self._client, self._followed.stop(now))

    def wait(self, timeout_s: float | None = None) -> JobResult:
        """How it ended; a service that is replaced meanwhile is waited for. Raises TimeoutError."""
        return _carry_out(self._client, self._followed.wait(timeout_s))

    def __repr__(self) -> str:
        return f"<mooring.ConnectedRun {self.id}>"


def perform(client: ServiceClient, instruction: Ask) -> Answer:
    if instruction.body is None:
        return client.get(instruction.path)
    return client.post(instruction.path, instruction.body)


def _carry_out(client: ServiceClient, talk: Talk[R]) -> R:
    """What a talk comes to."""
    results: list[R] = []

    def to_its_end() -> Live[None]:
        results.append((yield from talk))

    for _ in _live(client, to_its_end()):
        raise AssertionError("a talk tells nothing before its end")
    return results[0]


def _live(client: ServiceClient, live: Live[T]) -> Iterator[T]:
    """Ask, rest, and hand on what is told."""
    answer: Answer | None = None
    error: Exception | None = None
    with closing(live):
        while True:
            try:
                instruction = live.send(answer) if error is None else live.throw(error)
            except StopIteration:
                return
            answer = error = None
            if isinstance(instruction, Told):
                yield from instruction.items
            elif isinstance(instruction, Rest):
                time.sleep(instruction.seconds)
            else:
                try:
                    answer = perform(client, instruction)
                except Exception as raised:
                    error = raised
