"""What happens, as it happens: in the queue, and in one run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import Field

from mooring.backends.local.queue.service import QueueService
from mooring.http_api.answering import Query, Route, read_query
from mooring.http_api.event_models import Gap, QueueEvent, RunEvent, StreamEnd
from mooring.http_api.job_routes import SERVICE
from mooring.http_api.reading import READERS, Readers, find_run
from mooring.http_api.run_models import RunProgress
from mooring.http_api.streams import STREAMS, Stream, place_asked_for
from mooring.record import RunRecord
from mooring.record.journal import parse_line
from mooring.record.windows import Window, read_window
from mooring.report.progress import progress_of
from mooring.report.view import RunView

_AT_ONCE = 500
_MOST_PLACE = 1 << 62
_REST_S = 60.0
_RUN_LOOK_EVERY_S = 0.25
_PROGRESS_EVERY_S = 1.0

After = Annotated[int, Field(ge=0, le=_MOST_PLACE)]


class QueueEventsQuery(Query):
    after: After | None = Field(
        None, description="Events behind this place; 0: all that are kept. Not given: from now on."
    )
    job: str | None = Field(None, description="Only of this job of the queue.")


async def _queue_events(request: web.Request) -> web.StreamResponse:
    asked = read_query(request, QueueEventsQuery)
    service = request.app[SERVICE]
    place = place_asked_for(request, asked.after)
    if place is None:
        # Before the answer begins: whoever sees that has missed nothing.
        place = service.roster.store.last_place()
    news = service.roster.subscribe()
    try:
        async with request.app[STREAMS].stream(request) as stream:
            await _tell_queue(stream, service, place, asked.job, news)
        return stream.response
    finally:
        service.roster.unsubscribe(news)


async def _tell_queue(
    stream: Stream, service: QueueService, place: int, job: str | None, news: asyncio.Event
) -> None:
    while True:
        news.clear()
        # Another one than before, if its file was damaged; places begin anew then.
        store = service.roster.store
        if place > store.last_place() or place + 1 < store.first_place():
            await stream.send("gap", Gap(missed=f"what followed {place} is not kept any more"))
            place = store.first_place() - 1
        events = store.events(place, _AT_ONCE, job)
        for event in events:
            told = QueueEvent(
                place=event.place,
                at_s=event.at_s,
                kind=event.kind,
                job=event.job,
                fields=event.fields,
            )
            await stream.send(event.kind, told, event.place)
            place = event.place
        if not events and not await stream.rest(news, _REST_S):
            return


class RunEventsQuery(Query):
    after: After = Field(0, description="Lines behind this place of the run's journal.")
    progress: bool = Field(True, description="Also tell how far the run is, about once a second.")


async def _run_events(request: web.Request) -> web.StreamResponse:
    asked = read_query(request, RunEventsQuery)
    run = find_run(request.match_info["run"])
    place = place_asked_for(request, asked.after) or 0
    async with request.app[STREAMS].stream(request) as stream:
        watched = _WatchedRun(run, request.app[READERS], RunView(run) if asked.progress else None)
        await watched.tell(stream, place)
    return stream.response


@dataclass
class _WatchedRun:
    """One run for one stream."""

    run: RunRecord
    readers: Readers
    view: RunView | None
    _told: RunProgress | None = None
    _due_s: float = 0.0

    async def tell(self, stream: Stream, place: int) -> None:
        """From this place of its journal on, until the run holds nothing any more."""
        while True:
            over = not self.run.holds()
            window: Window = await self.readers.read(
                read_window, self.run.events_file, place, _AT_ONCE
            )
            for line in window.lines:
                record = parse_line(line.text)
                if record is not None:
                    kind = str(record.get("kind"))
                    event = RunEvent.model_validate(
                        {"place": line.next, "kind": kind, "fields": record}
                    )
                    await stream.send(kind, event, line.next)
            if window.lines:
                place = window.next
                continue
            await self._tell_progress(stream, over)
            if over:
                await stream.send("end", StreamEnd(reason="the run has ended"))
                return
            if not await stream.rest(None, _RUN_LOOK_EVERY_S):
                return

    async def _tell_progress(self, stream: Stream, over: bool) -> None:
        now_s = asyncio.get_running_loop().time()
        if self.view is None or not (over or now_s >= self._due_s):
            return
        self._due_s = now_s + _PROGRESS_EVERY_S
        progress = await self.readers.read(_progress, self.view)
        changed = self._told is None or progress != self._told.model_copy(
            update={"elapsed_s": progress.elapsed_s}
        )
        if changed or over:
            self._told = progress
            await stream.send("progress", progress)


def _progress(view: RunView) -> RunProgress:
    view.update()
    return RunProgress.model_validate(progress_of(view))


ROUTES = (
    Route(
        "GET",
        "/queue/events",
        _queue_events,
        "What happens in the queue, as server-sent events.",
        QueueEvent,
        QueueEventsQuery,
        streams=True,
    ),
    Route(
        "GET",
        "/runs/{run}/events",
        _run_events,
        "What happens in a run until its end, as server-sent events.",
        RunEvent,
        RunEventsQuery,
        streams=True,
    ),
)
