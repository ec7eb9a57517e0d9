"""What the members of a job printed, read from their pods and merged by time.

The kubelet keeps the log of a container and of the one before it, as long as the pod is there;
what was printed before that, or by pods that are gone, cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import text
from mooring.backends.kubernetes.api.errors import ApiError, KubeError, NotFound
from mooring.backends.kubernetes.api.resources import TRAINING_JOB
from mooring.backends.kubernetes.client.jobs import pods_of
from mooring.backends.kubernetes.client.submit import progress_of
from mooring.backends.kubernetes.jobs.training_job import JobView
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pods import PodView

_POLL_S = 1.0
#: Members whose logs are read at the same time.
_PARALLEL = 16


@dataclass(frozen=True, order=True)
class Line:
    """`at` is the time as the container runtime wrote it: texts of one length sort by time."""

    at: str
    member: str = field(compare=False)
    text: str = field(compare=False)


def parse_line(raw: bytes, member: str) -> Line:
    """`2026-11-16T00:00:01.5Z said`; times are brought to one length."""
    at, _, said = raw.decode(errors="replace").partition(" ")
    whole, _, fraction = at.removesuffix("Z").partition(".")
    return Line(f"{whole}.{fraction:0<9}Z", member, said.rstrip("\r"))


@dataclass(frozen=True)
class LogLines:
    """Lines in the order of their times, what is missing in sentences, and which containers they
    came from: member -> (uid of the pod, restarts)."""

    lines: tuple[Line, ...]
    missing: tuple[str, ...]
    starts: Mapping[str, tuple[str, int]]


async def read_logs(
    client: Client, view: JobView, members: Sequence[str], tail: int | None
) -> LogLines:
    """All that can be read now."""
    pods = {pod.mark.member.name: pod for pod in await pods_of(client, view) if pod.mark}
    slots = asyncio.Semaphore(_PARALLEL)

    async def of_member(member: str) -> tuple[list[Line], str]:
        pod = pods.get(member)
        if pod is None:
            return [], f"{member}: its pod is not there, and its log went with it"
        async with slots:
            return await _whole(client, pod, member, tail)

    answers = await asyncio.gather(*map(of_member, members))
    return LogLines(
        tuple(sorted(line for found, _ in answers for line in found)),
        tuple(missing for _, missing in answers if missing),
        {
            member: (pod.uid, pod.container.restarts)
            for member, pod in pods.items()
            if pod.container is not None and pod.container.started
        },
    )


async def _whole(
    client: Client, pod: PodView, member: str, tail: int | None
) -> tuple[list[Line], str]:
    if pod.container is None or not pod.container.started:
        return [], f"{member}: has not started yet{_why(pod)}"
    lines: list[Line] = []
    missing = ""
    try:
        if pod.container.restarts:
            try:
                async for line in _stream(client, pod, member, previous=True):
                    lines.append(line)
            except ApiError:
                missing = f"{member}: the log from before its last restart is gone"
            if pod.container.restarts > 1:
                missing = f"{member}: only the last 2 of {pod.container.restarts + 1} starts"
        async for line in _stream(client, pod, member):
            lines.append(line)
    except ApiError as error:
        missing = f"{member}: {error.message or error}"
    return lines if tail is None else lines[len(lines) - min(tail, len(lines)) :], missing


def _why(pod: PodView) -> str:
    said = pod.container.waiting if pod.container else ""
    said = said or pod.message or pod.reason
    return f": {said}" if said else ""


async def _stream(
    client: Client,
    pod: PodView,
    member: str,
    *,
    previous: bool = False,
    follow: bool = False,
    since: str = "",
) -> AsyncIterator[Line]:
    params = {"container": names.CONTAINER, "timestamps": "true"}
    if previous:
        params["previous"] = "true"
    if follow:
        params["follow"] = "true"
    if since:
        params["sinceTime"] = since
    async for raw in client.pod_log(pod.name, pod.namespace, params):
        yield parse_line(raw, member)


class _Follower:
    """One member: its containers one after the other, each from where it was last read."""

    def __init__(self, client: Client, member: str, show: Callable[[Line], None]) -> None:
        self._client, self._member, self._show = client, member, show
        self.start: tuple[str, int] | None = None
        self.last = ""
        self._complete = False
        self._task: asyncio.Task[None] | None = None

    @property
    def reading(self) -> asyncio.Task[None] | None:
        return self._task if self._task is not None and not self._task.done() else None

    def look(self, pod: PodView | None) -> None:
        """Read on if there is something that has not been read."""
        if self.reading or pod is None or pod.container is None or not pod.container.started:
            return
        start = (pod.uid, pod.container.restarts)
        if start != self.start:
            # Another container, perhaps on another node with another clock: all of it is new.
            self.start, self.last, self._complete = start, "", False
        if not self._complete:
            self._task = asyncio.create_task(self._read(pod))

    async def _read(self, pod: PodView) -> None:
        since = self.last
        try:
            async for line in _stream(self._client, pod, self._member, follow=True, since=since):
                # `sinceTime` counts whole seconds, so some lines come again.
                if line.at > since:
                    self.last = line.at
                    self._show(line)
        except KubeError:
            # The pod or the connection is gone; the next look tells which.
            return
        self._complete = True

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def follow_logs(
    client: Client,
    view: JobView,
    members: Sequence[str],
    tail: int | None,
    show: Callable[[Line], None],
    tell: Callable[[str], None],
) -> None:
    """Until the job is over: lines as they come, over restarts of containers and of pods."""
    known = await read_logs(client, view, members, tail)
    followers = {member: _Follower(client, member, show) for member in members}
    for line in known.lines:
        show(line)
        followers[line.member].last = line.at
    for sentence in known.missing:
        tell(sentence)
    for member, start in known.starts.items():
        if member in followers:
            followers[member].start = start
    over = False
    try:
        while True:
            pods = {pod.mark.member.name: pod for pod in await pods_of(client, view) if pod.mark}
            for member, follower in followers.items():
                follower.look(pods.get(member))
            reading = [task for one in followers.values() if (task := one.reading)]
            if over and not reading:
                return
            if reading:
                await asyncio.wait(reading, timeout=_POLL_S)
            elif not over:
                await asyncio.sleep(_POLL_S)
            # Asked before the next look at the pods: what ended in between is still read.
            over = await _is_over(client, view)
    finally:
        for follower in followers.values():
            follower.cancel()


async def _is_over(client: Client, view: JobView) -> bool:
    try:
        found = await client.get(TRAINING_JOB, view.name, view.namespace)
    except NotFound:
        return True
    same = text(found, "metadata", "uid") == view.uid
    return not same or progress_of(found).final
