"""Jobs of the queue: listed, submitted, stopped, explained; and the service itself."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

from aiohttp import web
from pydantic import Field

from mooring.backends.local.queue.entry import EntryState, QueueEntry
from mooring.backends.local.queue.live_explain import explain_live
from mooring.backends.local.queue.service import QueueService
from mooring.http_api import jobs
from mooring.http_api.answering import Query, Route, answer, read_body, read_query
from mooring.http_api.models import (
    JobExplanation,
    JobLine,
    JobList,
    NewJob,
    Queue,
    ServiceInfo,
    StopRequest,
    Verdict,
)
from mooring.http_api.paging import Page, answer_list, part_of, place_after
from mooring.record.runs import is_id
from mooring.version import VERSION

SERVICE = web.AppKey("service", QueueService)
STARTED_S = web.AppKey("started_s", float)
TCP_URL: web.AppKey[str | None] = web.AppKey("tcp_url")
_ENDED_AT_ONCE = 200


class JobsQuery(Page):
    """Which jobs, the latest first."""

    id: str | None = Field(None, description="The job with this id.")
    run: str | None = Field(None, description="The job of this run.")
    name: str | None = Field(None, description="Jobs with this name.")
    state: EntryState | None = Field(None, description="Jobs in this state.")
    phase: str | None = Field(None, description="Jobs in this phase, such as Failed.")
    pool: str | None = Field(None, description="Jobs of this pool.")
    unfinished: bool = Field(False, description="Only jobs that have not ended.")


class ExplanationQuery(Query):
    member: str | None = Field(None, description="Told by this member. Not given: the first.")


async def _service_info(request: web.Request) -> web.Response:
    read_query(request, Query)
    service = request.app[SERVICE]
    states = [each.entry.state.supervised for each in service.roster]
    info = ServiceInfo(
        version=VERSION,
        pid=os.getpid(),
        started_s=request.app[STARTED_S],
        now_s=time.time(),
        virtual_nodes=service.machine.virtual_nodes,
        nic_mbps=service.machine.nic_mbps,
        queued=states.count(False),
        running=states.count(True),
        last_event=service.roster.store.last_place(),
        tcp_url=request.app[TCP_URL],
        notes=service.notes,
    )
    return answer(info)


async def _submit(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    candidate = await jobs.submit(service, await read_body(request, NewJob))
    return answer(jobs.JobLines(service).of(candidate), 201)


async def _list_jobs(request: web.Request) -> web.Response:
    service, asked = request.app[SERVICE], read_query(request, JobsQuery)
    lines = jobs.JobLines(service)
    found: list[JobLine] = []
    last: int | None = None
    for entry in _entries(service, asked):
        if len(found) == asked.limit:
            return answer_list(JobList(jobs=tuple(found), next=str(last)), "jobs", asked.fields)
        candidate = service.roster.get(entry.id)
        found.append(lines.of_ended(entry) if candidate is None else lines.of(candidate))
        last = entry.number
    return answer_list(JobList(jobs=tuple(found), next=None), "jobs", asked.fields)


def _entries(service: QueueService, asked: JobsQuery) -> Iterator[QueueEntry]:
    """Those that are asked for, the latest first."""
    before = place_after(asked.next) or None
    unfinished = sorted((each.entry for each in service.roster), key=lambda one: -one.number)
    ended = iter(()) if asked.unfinished else _ended(service, asked, before)
    behind = next(ended, None)
    for entry in unfinished:
        while behind is not None and behind.number > entry.number:
            yield behind
            behind = next(ended, None)
        if (before is None or entry.number < before) and _is_asked_for(service, entry, asked):
            yield entry
    while behind is not None:
        yield behind
        behind = next(ended, None)


def _ended(service: QueueService, asked: JobsQuery, before: int | None) -> Iterator[QueueEntry]:
    while True:
        some = service.roster.store.ended(
            before=before, limit=_ENDED_AT_ONCE, phase=asked.phase, name=asked.name
        )
        yield from (entry for entry in some if _is_asked_for(service, entry, asked))
        if len(some) < _ENDED_AT_ONCE:
            return
        before = some[-1].number


def _is_asked_for(service: QueueService, entry: QueueEntry, asked: JobsQuery) -> bool:
    return (
        asked.id in (None, entry.id)
        and asked.run in (None, entry.run_id)
        and asked.name in (None, entry.name)
        and asked.state in (None, entry.state)
        and asked.phase in (None, jobs.phase_of(entry))
        and asked.pool in (None, service.sharing.pool_of(entry))
    )


async def _get_job(request: web.Request) -> web.Response:
    read_query(request, Query)
    return answer(job_line(request.app[SERVICE], request.match_info["id"]))


def job_line(service: QueueService, job_id: str) -> JobLine:
    """A job, whether or not it has ended. Raises HTTPNotFound."""
    lines = jobs.JobLines(service)
    candidate = service.roster.get(job_id)
    if candidate is not None:
        return lines.of(candidate)
    entry = service.roster.store.find(job_id) if is_id(job_id) else None
    if entry is None:
        raise web.HTTPNotFound(text=f"no job {job_id!r}")
    return lines.of_ended(entry)


async def _stop(request: web.Request) -> web.Response:
    service, job_id = request.app[SERVICE], request.match_info["id"]
    wish = await read_body(request, StopRequest)
    if job_id in service.roster:
        service.stop(job_id, "asked to stop", now=wish.now)
    return answer(job_line(service, job_id))


class QueueQuery(Page):
    """Which part of the queue."""

    name: str | None = Field(None, description="Jobs with this name.")
    pool: str | None = Field(None, description="Jobs of this pool.")


async def _queue(request: web.Request) -> web.Response:
    service, asked = request.app[SERVICE], read_query(request, QueueQuery)
    lines = jobs.JobLines(service)
    without_run = (EntryState.QUEUED, EntryState.STARTING)
    found = [
        lines.of(each)
        for each in service.roster
        if each.entry.state in without_run
        and asked.name in (None, each.entry.name)
        and asked.pool in (None, service.sharing.pool_of(each.entry))
    ]
    found.sort(key=lambda line: (line.pool, line.position or 0, line.submitted_s))
    begin, end, after = part_of(asked, len(found))
    told = Queue(jobs=tuple(found[begin:end]), next=after, notes=service.notes)
    return answer_list(told, "jobs", asked.fields)


async def _explain(request: web.Request) -> web.Response:
    service, job_id = request.app[SERVICE], request.match_info["id"]
    asked = read_query(request, ExplanationQuery)
    candidate = service.roster.get(job_id)
    if candidate is None:
        raise web.HTTPNotFound(text=f"no job {job_id!r} that waits or runs")
    sentence = service.sentences().get(job_id, candidate.entry.reason)
    found = await asyncio.to_thread(
        explain_live,
        candidate,
        service.round(),
        sentence,
        asked.member,
        service.roster.now(),
    )
    return answer(
        JobExplanation(
            job=found.job,
            member=found.member.name,
            node=found.node,
            refused=found.refused,
            queued=found.queued,
            note=found.note,
            nodes=tuple(
                Verdict(node=one.node, refused=one.reasons, scores=dict(one.scores))
                for one in found.verdicts
            ),
            changes=found.changes,
        )
    )


ROUTES = (
    Route("GET", "/service", _service_info, "The service itself.", ServiceInfo),
    Route("GET", "/jobs", _list_jobs, "Jobs of the queue.", JobList, JobsQuery, listed="jobs"),
    Route("POST", "/jobs", _submit, "Queue a job.", JobLine, body=NewJob, status=201),
    Route("GET", "/jobs/{id}", _get_job, "One job of the queue.", JobLine),
    Route("POST", "/jobs/{id}/stop", _stop, "Stop a job.", JobLine, body=StopRequest),
    Route(
        "GET",
        "/jobs/{id}/explanation",
        _explain,
        "Why a job waits, or is where it is.",
        JobExplanation,
        ExplanationQuery,
    ),
    Route(
        "GET", "/queue", _queue, "The jobs that have no run now.", Queue, QueueQuery, listed="jobs"
    ),
)
