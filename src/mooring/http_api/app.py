"""The application: all routes under /api/v1."""

from __future__ import annotations

import time
from functools import cache

from aiohttp import web

from mooring.backends.local.queue.service import QueueService
from mooring.http_api import event_routes, file_routes, job_routes, machine_routes, run_routes
from mooring.http_api.answering import PREFIX, Query, Route, answer, errors, read_query
from mooring.http_api.guarding import Guard
from mooring.http_api.job_routes import SERVICE, STARTED_S, TCP_URL
from mooring.http_api.openapi import OpenApiDocument, document
from mooring.http_api.reading import readers_of
from mooring.http_api.streams import STREAMS, Streams, close_streams

#: A job with the largest environment that a kernel takes is below.
MOST_BODY_BYTES = 16 << 20


@cache
def _document() -> OpenApiDocument:
    return document(ROUTES)


async def _openapi(request: web.Request) -> web.Response:
    read_query(request, Query)
    return answer(_document())


ROUTES: tuple[Route, ...] = (
    *job_routes.ROUTES,
    *run_routes.ROUTES,
    *file_routes.ROUTES,
    *machine_routes.ROUTES,
    *event_routes.ROUTES,
    Route("GET", "/openapi.json", _openapi, "This document.", OpenApiDocument),
)


def make_app(
    service: QueueService, tcp_url: str | None = None, guard: Guard | None = None
) -> web.Application:
    """`tcp_url`: where the service listens beside its Unix socket; `guard`: for who comes there."""
    middlewares = [errors] if guard is None else [errors, guard.middleware()]
    app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=middlewares)
    app[TCP_URL] = tcp_url
    app[SERVICE] = service
    app[STARTED_S] = time.time()
    app.cleanup_ctx.append(readers_of)
    app[STREAMS] = Streams()
    app.on_shutdown.append(close_streams)
    for route in ROUTES:
        app.router.add_route(route.method, PREFIX + route.path, route.handler)
    return app
