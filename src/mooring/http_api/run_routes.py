"""Runs: listed, looked at, planned, reported, diagnosed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from aiohttp import web
from pydantic import Field, ValidationError

from mooring.doctor import diagnose_run
from mooring.doctor.read_run import read_job_text, read_run
from mooring.doctor.remedies import patches
from mooring.http_api.answering import Query, Route, answer, read_query
from mooring.http_api.paging import Page, answer_list, part_of
from mooring.http_api.reading import READERS, find_run
from mooring.http_api.run_models import (
    PlannedMember,
    RunDetail,
    RunFindings,
    RunList,
    RunMember,
    RunPlan,
    RunProgress,
    RunReport,
    RunSummary,
)
from mooring.model.errors import BadInput
from mooring.record import RunRecord, list_runs
from mooring.report.finish import read_report
from mooring.report.listing import line_of
from mooring.report.progress import progress_of
from mooring.report.view import RunView

#: Runs whose files are looked at for one page; a page that is not full goes on after them.
_MOST_LOOKED_AT = 2000
_MOST_PLAN_BYTES = 64 << 20


class RunsQuery(Page):
    """Which runs, the latest first."""

    job: str | None = Field(None, description="Runs of jobs with this name.")
    queue_job: str | None = Field(None, description="Runs of this job of the queue.")
    phase: str | None = Field(None, description="Runs in this phase, such as Failed.")
    unfinished: bool = Field(False, description="Only runs that have not ended.")


async def _list_runs(request: web.Request) -> web.Response:
    asked = read_query(request, RunsQuery)
    before = _before(asked.next)
    listed = await request.app[READERS].read(_page, asked, before)
    return answer_list(listed, "runs", asked.fields)


def _page(asked: RunsQuery, before: tuple[float, str] | None) -> RunList:
    found: list[RunSummary] = []
    last: RunRecord | None = None
    for looked_at, run in enumerate(_candidates(asked, before)):
        if len(found) == asked.limit or looked_at == _MOST_LOOKED_AT:
            assert last is not None
            place = f"{last.info.created_s!r}:{last.info.id}"
            return RunList(runs=tuple(found), next=place)
        last = run
        # A run may be removed at any moment.
        with suppress(OSError):
            summary = summary_of(run)
            if asked.phase in (None, summary.phase) and not (asked.unfinished and summary.ended):
                found.append(summary)
    return RunList(runs=tuple(found), next=None)


def _candidates(asked: RunsQuery, before: tuple[float, str] | None) -> Iterator[RunRecord]:
    for run in reversed(list_runs()):
        info = run.info
        if (
            (before is None or (info.created_s, info.id) < before)
            and asked.job in (None, info.job)
            and asked.queue_job in (None, info.queue_job)
        ):
            yield run


def _before(cursor: str) -> tuple[float, str] | None:
    if not cursor:
        return None
    created_s, _, run_id = cursor.partition(":")
    try:
        return float(created_s), run_id
    except ValueError as error:
        accepted = "`next` of the answer before"
        raise BadInput.at("request", "next", repr(cursor), accepted) from error


def summary_of(run: RunRecord) -> RunSummary:
    line = line_of(run)
    return RunSummary(
        run=line.run,
        job=run.info.job,
        queue_job=line.queue_job,
        phase=line.phase,
        reason=line.reason,
        ended=line.ended,
        running=line.running,
        members=line.members,
        nodes=line.nodes,
        started_s=line.started_s,
        took_s=line.took_s,
        examples_per_s=line.examples_per_s,
        pinned=run.pinned,
        directory=line.directory,
    )


async def _get_run(request: web.Request) -> web.Response:
    read_query(request, Query)
    run = find_run(request.match_info["run"])
    return answer(await request.app[READERS].read(_detail, run))


def _detail(run: RunRecord) -> RunDetail:
    view = RunView(run)
    view.update()
    members = tuple(
        RunMember(
            member=each.name,
            role=each.role,
            node=each.node,
            cpus=each.cpus,
            exclusive=each.exclusive,
            gpus=each.gpus,
            state=each.state.value,
            attempt=each.attempt,
            exit_code=each.exit_code,
            reason=each.reason,
            steps=each.done_steps,
            loss=each.last_loss,
            rss_bytes=each.rss_bytes,
        )
        for each in view.members.values()
    )
    progress = RunProgress.model_validate(progress_of(view))
    return RunDetail(run=summary_of(run), progress=progress, members=members)


async def _plan(request: web.Request) -> web.Response:
    asked = read_query(request, Page)
    run = find_run(request.match_info["run"])
    plan = await request.app[READERS].read(read_run_plan, run)
    begin, end, after = part_of(asked, len(plan.members))
    part = plan.model_copy(update={"members": plan.members[begin:end], "next": after})
    return answer_list(part, "members", asked.fields)


def read_run_plan(run: RunRecord) -> RunPlan:
    """Raises HTTPNotFound if the run has none that can be read."""
    try:
        with run.plan_file.open("rb") as file:
            return RunPlan.model_validate_json(file.read(_MOST_PLAN_BYTES))
    except (OSError, ValidationError) as error:
        raise web.HTTPNotFound(text=f"{run.info.id} has no plan yet") from error


class MemberQuery(Query):
    member: str | None = Field(
        None, description="This member, such as worker-0. Not given: the first."
    )


async def _explanation(request: web.Request) -> web.Response:
    asked = read_query(request, MemberQuery)
    run = find_run(request.match_info["run"])
    plan = await request.app[READERS].read(read_run_plan, run)
    for each in plan.members:
        if asked.member in (None, each.member):
            return answer(each)
    known = ", ".join(each.member for each in plan.members[:10])
    raise BadInput.at("request", "member", repr(asked.member), f"one of {known}")


async def _report(request: web.Request) -> web.Response:
    read_query(request, Query)
    run = find_run(request.match_info["run"])
    return answer(RunReport(await request.app[READERS].read(read_report, run)))


class FindingsQuery(Query):
    last_s: float | None = Field(
        None, gt=0, le=1e9, description="Only of the last seconds. Not given: of the whole run."
    )


async def _findings(request: web.Request) -> web.Response:
    asked = read_query(request, FindingsQuery)
    run = find_run(request.match_info["run"])
    return answer(await request.app[READERS].read(_diagnosed, run, asked.last_s))


def _diagnosed(run: RunRecord, last_s: float | None) -> RunFindings:
    found = diagnose_run(read_run(run, last_s))
    diffs: tuple[str, ...] = ()
    # Without a job file that can be read there are findings, and no diffs.
    with suppress(OSError, BadInput):
        text, path = read_job_text(run)
        diffs = patches(found, text, str(path))
    return RunFindings.model_validate(found.document(diffs))


ROUTES = (
    Route("GET", "/runs", _list_runs, "Runs, the latest first.", RunList, RunsQuery, listed="runs"),
    Route("GET", "/runs/{run}", _get_run, "A run, how far it is, and its members.", RunDetail),
    Route("GET", "/runs/{run}/plan", _plan, "Where members are.", RunPlan, Page, listed="members"),
    Route(
        "GET",
        "/runs/{run}/explanation",
        _explanation,
        "Why a member is where it is.",
        PlannedMember,
        MemberQuery,
    ),
    Route("GET", "/runs/{run}/report", _report, "The figures of a run.", RunReport),
    Route(
        "GET",
        "/runs/{run}/findings",
        _findings,
        "Why a run is slow, and what to do about it.",
        RunFindings,
        FindingsQuery,
    ),
)
