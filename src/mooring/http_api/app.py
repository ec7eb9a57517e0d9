"""The routes under /api/v1, and how errors become answers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from mooring.backends.local.queue.entry import EntryState
from mooring.backends.local.queue.live_explain import explain_live
from mooring.backends.local.queue.service import QueueService
from mooring.backends.local.queue.store import Damaged, StoreFull
from mooring.http_api import jobs
from mooring.http_api.models import (
    ErrorAnswer,
    JobExplanation,
    JobLine,
    JobList,
    NewJob,
    ProblemLine,
    Queue,
    ServiceInfo,
    StopRequest,
    Verdict,
)
from mooring.model.errors import BadInput, MooringError, Problem
from mooring.version import VERSION

log = logging.getLogger(__name__)

PREFIX = "/api/v1"
#: A job with the largest environment that a kernel takes is below.
MOST_BODY_BYTES = 16 << 20
MOST_JOBS = 5000
SERVICE = web.AppKey("service", QueueService)
STARTED_S = web.AppKey("started_s", float)
_Model = TypeVar("_Model", bound=BaseModel)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(service: QueueService) -> web.Application:
    app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[_errors])
    app[SERVICE] = service
    app[STARTED_S] = time.time()
    app.router.add_get(f"{PREFIX}/service", _service_info)
    app.router.add_get(f"{PREFIX}/jobs", _list_jobs)
    app.router.add_post(f"{PREFIX}/jobs", _submit)
    app.router.add_get(f"{PREFIX}/jobs/{{id}}", _get_job)
    app.router.add_post(f"{PREFIX}/jobs/{{id}}/stop", _stop)
    app.router.add_get(f"{PREFIX}/jobs/{{id}}/explanation", _explain)
    app.router.add_get(f"{PREFIX}/queue", _queue)
    return app


def answer(model: BaseModel, status: int = 200) -> web.Response:
    return web.Response(
        body=model.model_dump_json().encode(), status=status, content_type="application/json"
    )


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal is an `ErrorAnswer`; a defect is one, too, and is in the log."""
    try:
        return await handler(request)
    except BadInput as error:
        problems = tuple(
            ProblemLine(path=one.path, found=one.found, accepted=one.accepted, line=one.line)
            for one in error.problems
        )
        said = ErrorAnswer(error=str(error), source=error.source, problems=problems)
        return answer(said, 422)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return answer(ErrorAnswer(error=error.text or error.reason), error.status)
    except StoreFull as error:
        return answer(ErrorAnswer(error=str(error)), 507)
    except (Damaged, MooringError) as error:
        return answer(ErrorAnswer(error=str(error)), 500)
    except ConnectionResetError:
        raise
    except Exception as error:
        log.exception("%s %s", request.method, request.path)
        return answer(ErrorAnswer(error=f"a defect: {type(error).__name__}"), 500)


async def read_body(request: web.Request, model: type[_Model]) -> _Model:
    """The request's body as a model. Raises BadInput."""
    text = await request.read()
    try:
        return model.model_validate(json.loads(text or b"{}"))
    except ValidationError as error:
        problems = [
            Problem(".".join(map(str, one["loc"])) or "body", repr(one["input"])[:200], one["msg"])
            for one in error.errors(include_url=False)[:50]
        ]
        raise BadInput("request", problems) from error
    except (ValueError, RecursionError) as error:
        raise BadInput.at("request", "body", f"no JSON: {error}", "a JSON document") from error


async def _service_info(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    states = [each.entry.state.supervised for each in service.roster]
    info = ServiceInfo(
        version=VERSION,
        pid=os.getpid(),
        started_s=request.app[STARTED_S],
        virtual_nodes=service.machine.virtual_nodes,
        nic_mbps=service.machine.nic_mbps,
        queued=states.count(False),
        running=states.count(True),
        notes=service.notes,
    )
    return answer(info)


async def _submit(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    candidate = await jobs.submit(service, await read_body(request, NewJob))
    return answer(jobs.JobLines(service).of(candidate), 201)


async def _list_jobs(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    lines = jobs.JobLines(service)
    asked = {name: request.query.get(name) for name in ("id", "run", "name")}
    found = [
        lines.of(each)
        for each in service.roster
        if asked["id"] in (None, each.entry.id)
        and asked["run"] in (None, each.entry.run_id)
        and asked["name"] in (None, each.entry.name)
    ]
    return answer(JobList(jobs=tuple(found[:MOST_JOBS]), next=None))


async def _get_job(request: web.Request) -> web.Response:
    return answer(_job_line(request))


def _job_line(request: web.Request) -> JobLine:
    service, job_id = request.app[SERVICE], request.match_info["id"]
    lines = jobs.JobLines(service)
    candidate = service.roster.get(job_id)
    if candidate is not None:
        return lines.of(candidate)
    entry = service.roster.store.find(job_id)
    if entry is None:
        raise web.HTTPNotFound(text=f"no job {job_id!r}")
    return lines.of_ended(entry)


async def _stop(request: web.Request) -> web.Response:
    service, job_id = request.app[SERVICE], request.match_info["id"]
    wish = await read_body(request, StopRequest)
    if job_id in service.roster:
        service.stop(job_id, "asked to stop", now=wish.now)
    return answer(_job_line(request))


async def _queue(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    lines = jobs.JobLines(service)
    without_run = (EntryState.QUEUED, EntryState.STARTING)
    found = [lines.of(each) for each in service.roster if each.entry.state in without_run]
    found.sort(key=lambda line: (line.pool, line.position or 0, line.submitted_s))
    return answer(Queue(jobs=tuple(found[:MOST_JOBS]), notes=service.notes))


async def _explain(request: web.Request) -> web.Response:
    service, job_id = request.app[SERVICE], request.match_info["id"]
    candidate = service.roster.get(job_id)
    if candidate is None:
        raise web.HTTPNotFound(text=f"no job {job_id!r} that waits or runs")
    sentence = service.sentences().get(job_id, candidate.entry.reason)
    found = await asyncio.to_thread(
        explain_live,
        candidate,
        service.round(),
        sentence,
        request.query.get("member"),
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
