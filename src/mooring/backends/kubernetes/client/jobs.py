"""Jobs of a cluster as a person asks for them: found by name, listed, stopped, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Object, text
from mooring.backends.kubernetes.api.errors import KubeError, NotFound
from mooring.backends.kubernetes.api.resources import POD, TRAINING_JOB
from mooring.backends.kubernetes.client.submit import (
    NOT_INSTALLED,
    JobProgress,
    follow,
    progress_of,
)
from mooring.backends.kubernetes.jobs.training_job import STOP, JobView, parse_view
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from mooring.model.errors import BadInput

_POLL_S = 0.5


@dataclass(frozen=True)
class JobRow:
    """A line of `moor ps`."""

    namespace: str
    name: str
    progress: JobProgress
    pool: str
    created_at_s: float


async def find_job(client: Client, name: str, namespace: str) -> JobView:
    """Raises BadInput, with the jobs that there are, if it is not there."""
    try:
        return parse_view(await client.get(TRAINING_JOB, name, namespace))
    except NotFound:
        known = [text(job, "metadata", "name") for job in await _listed(client, namespace)]
    listed = ", ".join(sorted(known)[:10]) or "none is there"
    raise BadInput.at(f"namespace {namespace}", "JOB", repr(name), f"a job of it: {listed}")


async def list_jobs(client: Client, namespace: str | None) -> list[JobRow]:
    """Oldest first; of all namespaces without one."""
    rows = map(_row, await _listed(client, namespace))
    return sorted(rows, key=lambda row: (row.created_at_s, row.namespace, row.name))


async def _listed(client: Client, namespace: str | None) -> tuple[Object, ...]:
    try:
        return await client.list(TRAINING_JOB, namespace)
    except NotFound:
        raise KubeError(NOT_INSTALLED) from None


def _row(obj: Object) -> JobRow:
    view = parse_view(obj)
    pool = text(obj, "status", "pool")
    return JobRow(view.namespace, view.name, progress_of(obj), pool, view.created_at_s)


async def pods_of(client: Client, view: JobView) -> list[PodView]:
    """The pods that belong to this very job."""
    return pods_of_job(await client.list(POD, view.namespace, f"{names.JOB}={view.name}"), view)


def pods_of_job(objects: Iterable[Object], view: JobView) -> list[PodView]:
    found = [parse_pod(obj) for obj in objects]
    return [pod for pod in found if pod.belongs_to(view.namespace, view.uid)]


async def stop_job(client: Client, view: JobView, *, now: bool) -> AsyncIterator[JobProgress]:
    """Ask for the job's end, and what then becomes of it. `now`: its pods get no grace."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    patch: Object = {"metadata": {"uid": view.uid, "annotations": {STOP: at}}}
    await client.merge(TRAINING_JOB, view.name, view.namespace, patch)
    if now:
        pods = await pods_of(client, view)
        await asyncio.gather(
            *(
                client.delete(POD, pod.name, pod.namespace, uid=pod.uid, grace_s=0)
                for pod in pods
                if not pod.over
            )
        )
    async for progress in follow(client, view.name, view.namespace):
        yield progress


async def delete_job(client: Client, view: JobView) -> None:
    """Remove the job; returns when nothing of it runs any more."""
    await client.delete(TRAINING_JOB, view.name, view.namespace, uid=view.uid)
    while await pods_of(client, view):
        await asyncio.sleep(_POLL_S)
