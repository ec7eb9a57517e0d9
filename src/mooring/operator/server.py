"""What the operator answers over HTTP: is it alive, is it ready, how is it doing."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from mooring.operator.metrics import Metrics


def status_pages(metrics: Metrics, ready: Callable[[], bool]) -> web.Application:
    """/healthz, /readyz and /metrics."""

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok\n")
        return web.Response(text="caches are being filled\n", status=503)

    async def figures(request: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), content_type="text/plain")

    pages = web.Application()
    pages.router.add_get("/healthz", healthz)
    pages.router.add_get("/readyz", readyz)
    pages.router.add_get("/metrics", figures)
    return pages
