"""A client whose every request one function of the test answers, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess


@asynccontextmanager
async def answering(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[Client]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with Client(ClusterAccess(f"http://{host}:{port}")) as client:
            yield client
    finally:
        await runner.cleanup()
