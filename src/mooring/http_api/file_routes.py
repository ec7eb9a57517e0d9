"""What members printed, and what their launchers measured: parts of files, by place."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from pydantic import Field

from mooring.http_api.answering import Query, Route, answer, read_query
from mooring.http_api.paging import answer_list
from mooring.http_api.reading import READERS, find_run
from mooring.http_api.run_models import LogEntry, LogPart, SamplePart
from mooring.model.errors import BadInput
from mooring.record import RunRecord
from mooring.record.journal import Line, parse_line
from mooring.record.logs import parse_log_line
from mooring.record.plan_file import is_member
from mooring.record.windows import Window, read_last, read_window

_MOST_LINES = 5000
_DEFAULT_LINES = 500
#: No file is as long as this.
_MOST_OFFSET = 1 << 62


class PartQuery(Query):
    """Which part of a member's file."""

    member: str = Field(description="The member, such as worker-0.")
    offset: Annotated[int, Field(ge=0, le=_MOST_OFFSET)] | None = Field(
        None, description="From this place on: 0, or `next` of the answer before."
    )
    tail: Annotated[int, Field(ge=0, le=_MOST_LINES)] | None = Field(
        None, description="The last so many instead; without `offset` and `tail`: the beginning."
    )
    limit: Annotated[int, Field(ge=1, le=_MOST_LINES)] = Field(
        _DEFAULT_LINES, description="How many at most. An answer is also limited to a megabyte."
    )
    fields: Annotated[str, Field(max_length=1000)] = Field(
        "", description="Only these fields of each, such as `at,text`. Not given: all."
    )


class SampleQuery(PartQuery):
    kind: str | None = Field(None, description="Only records of this kind, such as step.")


def _check(asked: PartQuery, run: RunRecord) -> None:
    if not is_member(asked.member) or not (
        run.log_file(asked.member).exists() or run.sample_file(asked.member).exists()
    ):
        known = sorted(path.stem for path in (run.root / "samples").glob("*.jsonl"))[:10]
        accepted = f"one of {', '.join(known)}" if known else "a member; none has begun yet"
        raise BadInput.at("request", "member", repr(asked.member), accepted)
    if asked.tail is not None and asked.offset is not None:
        raise BadInput.at("request", "tail", "`offset` as well", "one of the two")


async def _logs(request: web.Request) -> web.Response:
    asked = read_query(request, PartQuery)
    run = find_run(request.match_info["run"])
    part = await request.app[READERS].read(_log_part, run, asked)
    return answer_list(part, "lines", asked.fields)


def _log_part(run: RunRecord, asked: PartQuery) -> LogPart:
    _check(asked, run)
    path = run.log_file(asked.member)
    if asked.tail is not None:
        window = read_last(path, asked.tail)
    else:
        window = read_window(path, asked.offset or 0, asked.limit)
    lines = (parse_log_line(line.text, asked.member) for line in window.lines)
    return LogPart(
        member=asked.member,
        lines=tuple(
            LogEntry(at=line.at, stream=line.stream, rank=line.rank, text=line.text)
            for line in lines
        ),
        begin=window.begin,
        next=window.next,
        size=window.size,
    )


async def _samples(request: web.Request) -> web.Response:
    asked = read_query(request, SampleQuery)
    run = find_run(request.match_info["run"])
    return answer(await request.app[READERS].read(_sample_part, run, asked))


def _sample_part(run: RunRecord, asked: SampleQuery) -> SamplePart:
    _check(asked, run)
    path = run.sample_file(asked.member)
    window: Window
    if asked.tail is not None:
        # Which of them are of the kind is seen only when they are read.
        window = read_last(path, asked.tail if asked.kind is None else _MOST_LINES)
    else:
        window = read_window(path, asked.offset or 0, asked.limit)
    names = {name.strip() for name in asked.fields.split(",")} - {""}
    records = [
        _chosen(record, names)
        for line in window.lines
        if (record := parse_line(line.text)) is not None
        and asked.kind in (None, record.get("kind"))
    ]
    if asked.tail is not None:
        records = records[len(records) - min(asked.tail, len(records)) :]
    return SamplePart.model_validate(
        {
            "member": asked.member,
            "samples": records,
            "begin": window.begin,
            "next": window.next,
            "size": window.size,
        }
    )


def _chosen(record: Line, names: set[str]) -> Line:
    return {name: value for name, value in record.items() if name in names} if names else record


ROUTES = (
    Route(
        "GET",
        "/runs/{run}/logs",
        _logs,
        "What a member printed.",
        LogPart,
        PartQuery,
        listed="lines",
    ),
    Route(
        "GET",
        "/runs/{run}/samples",
        _samples,
        "What a member's launcher measured.",
        SamplePart,
        SampleQuery,
        listed="samples",
    ),
)
