"""A small API server whose objects a test lays out by path; it notes every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from mooring.backends.kubernetes.api.client import Client
from mooring.launcher import proof
from unit.kubeapi.answering import answering


class Pages:
    """`json`: path -> what it answers; `codes`: path -> a refusal; `text`: path -> plain text, with
    `?previous=true` after it the log of the container before.

    A path that was not laid out is not there. Watches stay open and say nothing.
    """

    def __init__(self) -> None:
        self.json: dict[str, Any] = {}
        self.text: dict[str, str] = {}
        self.codes: dict[str, int] = {}
        self.tokens: dict[str, str] = {}
        """Path of a launcher's answer -> the token that it shows to hold."""
        self.calls: list[tuple[str, str]] = []
        self.queries: list[dict[str, str]] = []
        self.busy = 0
        self.most_at_once = 0
        self.open = asyncio.Event()
        """Cleared by a test that wants to see who waits for an answer."""
        self.open.set()

    def items(self, path: str, *objects: Any) -> None:
        self.json[path] = {"metadata": {"resourceVersion": "1"}, "items": list(objects)}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append((request.method, request.path))
        self.queries.append(dict(request.query))
        self.busy += 1
        self.most_at_once = max(self.most_at_once, self.busy)
        try:
            await request.read()
            await self.open.wait()
            answer = self._answer(request.path, previous="previous" in request.query)
            token = self.tokens.get(request.path)
            if token is not None and isinstance(answer.body, bytes):
                nonce = bytes.fromhex(request.query["nonce"])
                shown = proof.prove(token, proof.ANSWER, nonce, answer.body)
                answer.headers["Mooring-Proof"] = shown.hex()
            return answer
        finally:
            self.busy -= 1

    def _answer(self, path: str, *, previous: bool) -> web.Response:
        said = self.text.get(f"{path}?previous=true" if previous else path)
        if said is not None:
            return web.Response(text=said)
        code = self.codes.get(path, 200 if path in self.json else 404)
        if code >= 400:
            refusal = {"kind": "Status", "code": code, "message": f"said {code}"}
            return web.json_response(refusal, status=code)
        return web.json_response(self.json[path])


@asynccontextmanager
async def pages() -> AsyncIterator[tuple[Pages, Client]]:
    laid_out = Pages()
    async with answering(laid_out.handle) as client:
        yield laid_out, client
