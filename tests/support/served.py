"""The HTTP API in this process: a queue that starts nothing, in a thread with its own loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from mooring.backends.local.queue.client import ServiceClient
from mooring.backends.local.queue.folders import QueueHome
from mooring.backends.local.queue.machine_watch import MachineWatch
from mooring.backends.local.queue.pools_file import PoolsWatch
from mooring.backends.local.queue.roster import Roster
from mooring.backends.local.queue.service import QueueService
from mooring.backends.local.queue.store import Store
from mooring.http_api.app import make_app
from mooring.http_api.guarding import Guard
from mooring.http_api.listening import TcpAddress, served_by, tcp_listener, unix_listener
from mooring.model.resources import Resources

T = TypeVar("T")
TOKEN = b"a-token-of-more-than-32-letters-and-signs"


@dataclass(frozen=True)
class Served:
    """`home` is MOORING_HOME; `service` must be touched through `do` alone."""

    home: Path
    loop: asyncio.AbstractEventLoop
    service: QueueService
    tcp: TcpAddress
    """Beside the Unix socket, for who shows TOKEN."""

    @property
    def client(self) -> ServiceClient:
        return ServiceClient(QueueHome(self.home / "queue"))

    def do(self, act: Callable[[QueueService], T]) -> T:
        """In the service's thread."""
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(act(self.service))
            except BaseException as error:
                done.set_exception(error)

        self.loop.call_soon_threadsafe(call)
        return done.result(30)

    def submit(self, name: str, **spec: Any) -> str:
        """The id of a job that stays in the queue."""
        return str(self.client.post("/jobs", new_job(self.home, name, **spec))["id"])


def new_job(folder: Path, name: str, **spec: Any) -> dict[str, Any]:
    """The body of a submission."""
    settings = {
        "framework": "indexed",
        "command": ["python", "-c", "pass"],
        "roles": {"worker": {"replicas": 1, "resources": {"cpu": 1}}},
    }
    header = {"apiVersion": "mooring.dev/v1", "kind": "TrainingJob", "metadata": {"name": name}}
    return {"job": {**header, "spec": {**settings, **spec}}, "folder": str(folder)}


@contextmanager
def served(home: Path, pools: str = "") -> Iterator[Served]:
    """A service of this state home, which must be MOORING_HOME. `pools`: of its pools file."""
    queue = QueueHome(home / "queue")
    queue.make()
    if pools:
        queue.pools_file.write_text(pools)
    begun: Future[Served] = Future()
    ending: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def work() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        ending.append((loop, ended))
        store = Store(queue.database)
        machine = MachineWatch()
        capacity = sum((node.capacity for node in machine.cut().nodes), Resources())
        watch = PoolsWatch(queue.pools_file, queue.kept_pools_file, capacity, required=False)
        service = QueueService(Roster(queue, store, time.time), machine, watch)
        try:
            async with AsyncExitStack() as stack:
                listener = stack.enter_context(unix_listener(queue.socket))
                wanted = TcpAddress("127.0.0.1", 0)
                tcp, address = stack.enter_context(tcp_listener(wanted))
                runner = web.AppRunner(make_app(service), access_log=None, shutdown_timeout=0.2)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.SockSite(runner, listener).start()
                app = make_app(service, address.url, Guard(address.hosts, TOKEN))
                guarded = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
                await guarded.setup()
                stack.push_async_callback(guarded.cleanup)
                await stack.enter_async_context(served_by(guarded, tcp))
                begun.set_result(Served(home, loop, service, address))
                await ended.wait()
        finally:
            store.close()

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            if not begun.done():
                begun.set_exception(error)
            raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield begun.result(30)
    finally:
        for loop, ended in ending:
            loop.call_soon_threadsafe(ended.set)
        thread.join(30)
