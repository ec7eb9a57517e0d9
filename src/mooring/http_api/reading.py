"""Reading files of runs: in few threads of its own, so that the queue never waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from aiohttp import web

from mooring.record import RunRecord, runs_dir
from mooring.record.runs import is_id, open_run

_THREADS = 2
_MOST_WAITING = 64
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Readers:
    """Threads that read. A request beyond those that may wait for them is refused."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="reading")
        self._asked = 0

    async def read(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """What the function answers. Raises HTTPServiceUnavailable."""
        if self._asked >= _THREADS + _MOST_WAITING:
            text = "too many requests are being answered: try again"
            raise web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "1"})
        self._asked += 1
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
        # Counted until it has really ended, whether or not somebody still waits for it.
        asked.add_done_callback(self._done)
        return await asyncio.shield(asked)

    def _done(self, asked: asyncio.Future[_T]) -> None:
        self._asked -= 1
        if not asked.cancelled():
            asked.exception()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


READERS = web.AppKey("readers", Readers)


async def readers_of(app: web.Application) -> AsyncIterator[None]:
    """For the life of an application."""
    app[READERS] = Readers()
    yield
    app[READERS].close()


def find_run(run_id: str) -> RunRecord:
    """Raises HTTPNotFound."""
    run = open_run(runs_dir() / run_id) if is_id(run_id) else None
    if run is None:
        raise web.HTTPNotFound(text=f"no run {run_id!r}")
    return run
