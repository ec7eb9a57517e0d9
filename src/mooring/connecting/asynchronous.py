"""`mooring.connect_async`: the same for programs with an event loop, asked in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from mooring.api import AnyJob
from mooring.backends.local.queue.client import ServiceClient
from mooring.connecting import following
from mooring.connecting.conversation import Answer, Followed, Live, R, Rest, T, Talk, Told
from mooring.connecting.conversation import list_runs as _list_runs
from mooring.connecting.plain import client_of, perform
from mooring.connecting.submission import submission
from mooring.connecting.values import JobResult, JobStatus, Step
from mooring.http_api.run_models import RunFindings
from mooring.record.logs import LogLine
from mooring.report.figures import Report
from mooring.report.progress import Progress


def connect_async(backend: str | Path | None = None) -> AsyncConnection:
    """As `mooring.connect`, with calls to be awaited. It does not wait itself."""
    return AsyncConnection(client_of(backend))


class AsyncConnection:
    """Made by `mooring.connect_async`: a `Connection` whose calls are awaited."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def submit(
        self, job: AnyJob, *, set: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> AsyncConnectedRun:
        """As `Connection.submit`."""
        body = await asyncio.to_thread(submission, job, set, variables or {})
        told = await asyncio.to_thread(self._client.post, "/jobs", body)
        return AsyncConnectedRun(self._client, Followed(job=told["id"]))

    async def runs(self, *, unfinished: bool = False, limit: int = 1000) -> list[AsyncConnectedRun]:
        """As `Connection.runs`."""
        found = await _carry_out(self._client, _list_runs(unfinished, limit))
        return [AsyncConnectedRun(self._client, followed) for followed in found]

    async def run(self, id: str) -> AsyncConnectedRun:
        """As `Connection.run`."""
        return AsyncConnectedRun(self._client, await _carry_out(self._client, Followed.found(id)))


class AsyncConnectedRun:
    """A `ConnectedRun` whose calls are awaited, and whose iterators are read by `async for`."""

    def __init__(self, client: ServiceClient, followed: Followed) -> None:
        self._client, self._followed = client, followed

    @property
    def id(self) -> str:
        """Its id in the queue, or that of its run if it is not of the queue."""
        return self._followed.id

    async def status(self) -> JobStatus:
        """As `ConnectedRun.status`."""
        return await _carry_out(self._client, self._followed.status())

    async def progress(self) -> Progress:
        """As `ConnectedRun.progress`."""
        return await _carry_out(self._client, self._followed.progress())

    def logs(
        self, member: str | None = None, *, follow: bool = False, last: int | None = None
    ) -> AsyncIterator[LogLine]:
        """As `ConnectedRun.logs`."""
        return _live(self._client, following.lines_of(self._followed, member, last, follow))

    def steps(self, member: str | None = None) -> AsyncIterator[Step]:
        """As `ConnectedRun.steps`."""
        return _live(self._client, following.steps_of(self._followed, member))

    async def report(self) -> Report:
        """As `ConnectedRun.report`."""
        return await _carry_out(self._client, self._followed.report())

    async def doctor(self) -> RunFindings:
        """As `ConnectedRun.doctor`."""
        return await _carry_out(self._client, self._followed.doctor())

    async def stop(self, *, now: bool = False) -> None:
        """As `ConnectedRun.stop`."""
        await _carry_out(self._client, self._followed.stop(now))

    async def wait(self, timeout_s: float | None = None) -> JobResult:
        """As `ConnectedRun.wait`."""
        return await _carry_out(self._client, self._followed.wait(timeout_s))

    def __repr__(self) -> str:
        return f"<mooring.AsyncConnectedRun {self.id}>"


async def _carry_out(client: ServiceClient, talk: Talk[R]) -> R:
    """What a talk comes to."""
    results: list[R] = []

    def to_its_end() -> Live[None]:
        results.append((yield from talk))

    async for _ in _live(client, to_its_end()):
        raise AssertionError("a talk tells nothing before its end")
    return results[0]


async def _live(client: ServiceClient, live: Live[T]) -> AsyncGenerator[T, None]:
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
                for item in instruction.items:
                    yield item
            elif isinstance(instruction, Rest):
                await asyncio.sleep(instruction.seconds)
            else:
                try:
                    answer = await asyncio.to_thread(perform, client, instruction)
                except Exception as raised:
                    error = raised
