"""A small HTTP server that answers lists and watches as a test says, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from mooring.kubeapi.client import Client
from unit.kubeapi.answering import answering


def thing(name: str, version: int, uid: str = "", **more: Any) -> dict[str, Any]:
    about = {"name": name, "namespace": "n", "uid": uid or f"uid-{name}"}
    return {"metadata": {**about, "resourceVersion": str(version)}, **more}


def status(code: int, reason: str = "") -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": f"said {code}"}


class FakeServer:
    """Answers from two scripts, one entry a call; when a script is at its end, a list is repeated
    and a watch stays open until the client goes."""

    def __init__(self) -> None:
        self.lists: list[tuple[int, dict[str, Any]]] = []
        self.watches: list[list[Any]] = []
        self.listed = 0
        self.watched_from: list[str] = []
        self.asked = asyncio.Event()
        self._end = asyncio.Event()

    def list(self, version: int, *things: dict[str, Any], more: str = "") -> None:
        about = {"resourceVersion": str(version), "continue": more}
        self.lists.append((200, {"metadata": about, "items": list(things)}))

    def refuse_list(self, code: int, reason: str = "") -> None:
        self.lists.append((code, status(code, reason)))

    def watch(self, *lines: Any) -> None:
        """Tuples are changes, texts are sent as they are; then the watch ends."""
        self.watches.append(list(lines))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") != "true":
            code, answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
            self.listed += 1
            return web.json_response(answer, status=code)
        self.watched_from.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if not self.watches:
            self.asked.set()
            await self._end.wait()
            return response
        for line in self.watches.pop(0):
            if isinstance(line, str):
                await response.write(line.encode() + b"\n")
            else:
                change = {"type": line[0], "object": line[1]}
                await response.write(json.dumps(change).encode() + b"\n")
        return response

    def end(self) -> None:
        self._end.set()


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[FakeServer, Client]]:
    server = FakeServer()
    async with answering(server.handle) as client:
        try:
            yield server, client
        finally:
            server.end()
