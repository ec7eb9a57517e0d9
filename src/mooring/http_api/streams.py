"""Server-sent events: a bounded number of streams, each of which can be taken up where it ended.

Each stream has a task of its own, which waits for its client alone; a client that reads nothing for
a while loses its stream, and goes on from its last event when it comes back.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiohttp import web
from pydantic import BaseModel

from mooring.model.errors import BadInput

log = logging.getLogger(__name__)

_BEAT_S = 15.0
_PATIENCE_S = 30.0
_NAME = re.compile(r"[a-z][a-z-]{0,30}")
_PLACE = re.compile(r"[0-9]{1,18}")
_LAST_ID = "Last-Event-ID"


@dataclass
class Streams:
    """All streams of a service. `most`: how many there may be at once."""

    most: int = 64
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    open: int = 0

    @asynccontextmanager
    async def stream(self, request: web.Request) -> AsyncIterator[Stream]:
        """A stream to who asked. Raises HTTPServiceUnavailable if there are too many."""
        if self.open >= self.most:
            text = f"{self.open} streams are open, which is as many as there may be"
            raise web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "5"})
        self.open += 1
        try:
            async with Stream(request, self.closing) as stream:
                try:
                    yield stream
                except (ConnectionError, TimeoutError, web.HTTPServiceUnavailable):
                    # Its client has gone or is too slow, or we are: it comes back by itself.
                    pass
                except Exception:
                    # Too late for another answer.
                    log.exception("a stream ended: %s", request.path)
        finally:
            self.open -= 1


STREAMS = web.AppKey("streams", Streams)


async def close_streams(app: web.Application) -> None:
    """Before an application waits for its requests to end."""
    app[STREAMS].closing.set()


class Stream:
    """One answer that goes on. Writing raises ConnectionError or TimeoutError."""

    def __init__(self, request: web.Request, closing: asyncio.Event) -> None:
        self._request, self._closing = request, closing
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        self.response = web.StreamResponse(headers=headers)
        self._beat_s = 0.0

    async def __aenter__(self) -> Self:
        await self.response.prepare(self._request)
        await self._write("retry: 1000\n\n")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1):
                await self.response.write_eof()

    async def send(self, name: str, data: BaseModel, place: int | None = None) -> None:
        """An event; one without a place is not told again to who comes back."""
        name = name if _NAME.fullmatch(name) else "other"
        id_line = "" if place is None else f"id: {place}\n"
        await self._write(f"{id_line}event: {name}\ndata: {data.model_dump_json()}\n\n")

    async def rest(self, news: asyncio.Event | None, at_most_s: float) -> bool:
        """Wait for news, or so long; False if the stream is to end."""
        waits = [asyncio.ensure_future(self._closing.wait())]
        if news is not None:
            waits.append(asyncio.ensure_future(news.wait()))
        until_beat_s = max(0.0, self._beat_s - asyncio.get_running_loop().time())
        try:
            await asyncio.wait(
                waits,
                timeout=min(at_most_s, until_beat_s),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for each in waits:
                each.cancel()
        if asyncio.get_running_loop().time() >= self._beat_s:
            await self._write(": beat\n\n")
        return not self._closing.is_set()

    async def _write(self, text: str) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            await self.response.write(text.encode(errors="replace"))
        self._beat_s = asyncio.get_running_loop().time() + _BEAT_S


def place_asked_for(request: web.Request, after: int | None) -> int | None:
    """Where to go on: what a client that comes back says, or else `after`. Raises BadInput."""
    text = request.headers.get(_LAST_ID)
    if text is None:
        return after
    if not _PLACE.fullmatch(text):
        raise BadInput.at("request", _LAST_ID, repr(text), "the id of an event of this stream")
    return int(text)
