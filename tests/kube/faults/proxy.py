"""A reverse proxy between an operator and the API server, which breaks what it is told to break.

The operator speaks plain HTTP to it; it speaks to the server with the admin's certificate, or with
the token that the operator sent. What goes wrong is up to a `Rule`, asked once for every call.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from kube.cluster.bed import free_ports
from kube.cluster.control_plane import ControlPlane
from mooring.backends.kubernetes.api.codec import is_protobuf
from mooring.backends.kubernetes.api.streams import Frames, LineStream
from support.wire import event, message

SESSION = web.AppKey("session", aiohttp.ClientSession)
_HOP = ("host", "content-length", "transfer-encoding", "connection", "content-encoding")


@dataclass(frozen=True)
class Call:
    """One call of the operator. `number` counts all from 1, `write` those that change something
    (0 for the others). Leases do not count: they come by the clock."""

    number: int
    write: int
    method: str
    path: str
    watch: bool

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and not self.watch and self.path.rstrip("/").endswith("s")


@dataclass(frozen=True)
class Fault:
    """What becomes of a call. By default it is passed on."""

    status: int = 0
    """Answer this in the server's place; the server never hears of it."""
    reason: str = ""
    delay_s: float = 0.0
    hold: threading.Event | None = None
    """Passed on only once this is set."""
    before: Callable[[], None] | None = None
    """Done in place of passing the call on; the connection is then cut."""
    cut: bool = False
    """Passed on, and its answer lost."""
    after: Callable[[], None] | None = None
    """Done when the answer is on its way (or, with `cut`, lost)."""
    reset: bool = False
    """The connection is cut, and the server never hears of the call."""
    drop_event: Callable[[], bool] | None = None
    """Of a watch: asked for each event whether the operator does not get to see it."""
    end_watch_after: int | None = None
    """Of a watch: cut after so many events."""
    gone_watch: bool = False
    """Of a watch: one line that says 410."""
    stored: bytes | None = None
    """Of a list: this answer, of earlier, instead of the true one."""
    keep: Callable[[bytes], None] | None = None
    """Of a list: is given the answer."""


PASS = Fault()
Rule = Callable[[Call], Fault]


@dataclass
class Proxy:
    """`rule` may be replaced while it runs."""

    plane: ControlPlane
    kubeconfig: Path
    port: int
    rule: Rule = field(default=lambda call: PASS)
    calls: int = 0
    writes: int = 0
    faults: int = 0
    answered: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and status of what the server answered."""

    def pods_deleted(self) -> list[str]:
        """The pods whose deletion the operator asked for."""
        return [
            path for method, path, _ in self.answered if method == "DELETE" and "/pods/" in path
        ]

    def _next(self, request: web.Request) -> Call:
        self.calls += 1
        write = 0
        if request.method != "GET" and "/leases" not in request.path:
            self.writes += 1
            write = self.writes
        watch = request.query.get("watch") == "true"
        return Call(self.calls, write, request.method, request.path, watch)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        call = self._next(request)
        fault = self.rule(call)
        if fault is not PASS:
            self.faults += 1
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.hold is not None:
            await asyncio.to_thread(fault.hold.wait, 60)
        if fault.before is not None or fault.reset:
            if fault.before is not None:
                fault.before()
            return _cut(request)
        if fault.status:
            return _refusal(fault)
        try:
            return await self._pass_on(request, body, call, fault)
        except (aiohttp.ClientError, ConnectionError):
            return _cut(request)

    async def _pass_on(
        self, request: web.Request, body: bytes, call: Call, fault: Fault
    ) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        session = request.app[SESSION]
        url = self.plane.server + request.raw_path
        async with session.request(
            request.method, aiohttp.client.URL(url, encoded=True), data=body, headers=headers
        ) as upstream:
            if call.watch and upstream.status == 200:
                return await _stream(request, upstream, fault)
            answer = await upstream.read()
            self.answered.append((request.method, request.path, upstream.status))
            if fault.keep is not None:
                fault.keep(answer)
            if fault.stored is not None:
                answer = fault.stored
            if fault.cut:
                if fault.after is not None:
                    fault.after()
                return _cut(request)
            kept = {k: v for k, v in upstream.headers.items() if k.lower() not in _HOP}
            response = web.Response(status=upstream.status, body=answer, headers=kept)
            if fault.after is not None:
                await response.prepare(request)
                await response.write_eof()
                fault.after()
            return response


async def _stream(
    request: web.Request, upstream: aiohttp.ClientResponse, fault: Fault
) -> web.StreamResponse:
    media = upstream.headers["Content-Type"]
    framed = is_protobuf(media)
    response = web.StreamResponse(headers={"Content-Type": media})
    await response.prepare(request)
    if fault.gone_watch:
        await response.write(_gone(framed=framed))
        return response
    passed = 0
    async for part in _events(upstream, framed=framed):
        if fault.drop_event is not None and fault.drop_event():
            continue
        await response.write(part)
        passed += 1
        if fault.end_watch_after is not None and passed >= fault.end_watch_after:
            return _cut(request)
    return response


def _gone(*, framed: bool) -> bytes:
    """As a server says in a watch that it has forgotten where the watch begins."""
    if framed:
        return event("ERROR", "Status", message((3, "too old"), (4, "Expired"), (6, 410)))
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


async def _events(upstream: aiohttp.ClientResponse, *, framed: bool) -> AsyncIterator[bytes]:
    """Each as it came: with its length before it, or the end of its line behind it."""
    cutter = Frames() if framed else LineStream()
    async for chunk in upstream.content.iter_any():
        for part in cutter.whole(chunk):
            yield len(part).to_bytes(4, "big") + part if framed else part + b"\n"


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _refusal(fault: Fault) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": fault.status,
        "reason": fault.reason,
        "message": f"an injected {fault.status}",
    }
    headers = {"Retry-After": "0"} if fault.status == 429 else {}
    return web.json_response(status, status=fault.status, headers=headers)


@contextmanager
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    """A proxy in a thread of its own while the block runs."""
    [port] = free_ports(1)
    kubeconfig = plane.bed.folder / "kubeconfigs" / f"proxy-{port}.yaml"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "p", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "p", "context": {"cluster": "p"}}],
        "current-context": "p",
    }
    kubeconfig.write_text(yaml.safe_dump(document))
    made = Proxy(plane, kubeconfig, port)
    loop = asyncio.new_event_loop()
    up, stop = threading.Event(), asyncio.Event()

    def run() -> None:
        # Ends what is still under way. Otherwise it would complain when it is collected, and
        # CPython 3.11 fails when a traceback is formatted while source is being parsed.
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_serve(made, up, stop))

    thread = threading.Thread(target=run, name=f"proxy-{port}")
    thread.start()
    up.wait()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _serve(made: Proxy, up: threading.Event, stop: asyncio.Event) -> None:
    plane = made.plane
    pair = plane.authority.user("admin", ["system:masters"])
    context = ssl.create_default_context(cafile=str(plane.authority.pair.certificate))
    context.load_cert_chain(pair.certificate, pair.key)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=True
    ) as session:
        application = web.Application(client_max_size=2**26)
        application[SESSION] = session
        application.router.add_route("*", "/{path:.*}", made.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", made.port).start()
        up.set()
        await stop.wait()
        await runner.cleanup()
