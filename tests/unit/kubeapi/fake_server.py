"""A small HTTP server that answers lists and watches as a test says, over real sockets: in protobuf
if it is asked for that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.codec import PROTOBUF
from support.wire import envelope, event, message
from unit.kubeapi.answering import answering


def thing(name: str, version: int, uid: str = "", **more: Any) -> dict[str, Any]:
    about = {"name": name, "namespace": "n", "uid": uid or f"uid-{name}"}
    return {"metadata": {**about, "resourceVersion": str(version)}, **more}


def status(code: int, reason: str = "") -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": f"said {code}"}


def pod_bytes(pod: dict[str, Any]) -> bytes:
    numbers = {"name": 1, "namespace": 3, "uid": 5, "resourceVersion": 6}
    about = pod["metadata"].items()
    return message((1, message(*((numbers[key], value) for key, value in about))))


def status_bytes(told: dict[str, Any]) -> bytes:
    return message((3, told["message"]), (4, told["reason"]), (6, told["code"]))


def event_bytes(change: str, obj: dict[str, Any]) -> bytes:
    if change == "ERROR":
        return event(change, "Status", status_bytes(obj))
    return event(change, "Pod", pod_bytes(obj))


def answer_bytes(answer: dict[str, Any]) -> bytes:
    if "code" in answer:
        return envelope("Status", status_bytes(answer))
    about = answer["metadata"]
    head = message((2, about["resourceVersion"]), (3, about["continue"]))
    pods = ((2, pod_bytes(one)) for one in answer["items"])
    return envelope("PodList", message((1, head), *pods))


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
            if _wants_protobuf(request):
                raw = answer_bytes(answer)
                return web.Response(body=raw, status=code, content_type=PROTOBUF)
            return web.json_response(answer, status=code)
        self.watched_from.append(request.query["resourceVersion"])
        framed = _wants_protobuf(request)
        media = f"{PROTOBUF};stream=watch" if framed else "application/json"
        response = web.StreamResponse(headers={"Content-Type": media})
        await response.prepare(request)
        if not self.watches:
            self.asked.set()
            await self._end.wait()
            return response
        for line in self.watches.pop(0):
            if isinstance(line, str):
                await response.write(line.encode() + b"\n")
            elif framed:
                await response.write(event_bytes(*line))
            else:
                change = {"type": line[0], "object": line[1]}
                await response.write(json.dumps(change).encode() + b"\n")
        return response

    def end(self) -> None:
        self._end.set()


def _wants_protobuf(request: web.Request) -> bool:
    return request.headers["Accept"].startswith(PROTOBUF)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[FakeServer, Client]]:
    server = FakeServer()
    async with answering(server.handle) as client:
        try:
            yield server, client
        finally:
            server.end()
