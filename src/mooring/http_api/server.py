"""`moor serve`: the one service of a state home, until it is told to end. Jobs go on after that."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from mooring.backends.local.queue.folders import QueueHome
from mooring.backends.local.queue.machine_watch import MachineWatch
from mooring.backends.local.queue.pools_file import PoolsWatch
from mooring.backends.local.queue.retention import keep_within
from mooring.backends.local.queue.roster import Roster
from mooring.backends.local.queue.service import QueueService
from mooring.http_api.app import make_app
from mooring.http_api.guarding import Guard
from mooring.http_api.listening import TcpAddress, served_by, tcp_listener, unix_listener
from mooring.http_api.token_file import read_or_make_token
from mooring.model.errors import BadInput, RunFailed
from mooring.model.resources import Resources
from mooring.record.retention import KeptRuns

log = logging.getLogger(__name__)
_CLOSE_S = 1.0


@dataclass(frozen=True)
class ServeOptions:
    """What `moor serve` is told."""

    virtual_nodes: int = 0
    nic_mbps: int | None = None
    pools_file: Path | None = None
    """None: `pools.yaml` in the state home, if it is there."""
    kept: KeptRuns = KeptRuns()
    listen: TcpAddress | None = None
    """Beside the Unix socket."""


def serve(home: QueueHome, options: ServeOptions) -> None:
    """Until SIGINT or SIGTERM. Raises BadInput if a service of this state home runs already."""
    try:
        home.make()
    except OSError as error:
        raise RunFailed(f"cannot keep a queue in {home.root}: {error.strerror}") from error
    with _only_service(home):
        machine = MachineWatch(options.virtual_nodes, options.nic_mbps)
        capacity = sum((node.capacity for node in machine.cut().nodes), Resources())
        pools = PoolsWatch(
            options.pools_file or home.pools_file,
            home.kept_pools_file,
            capacity,
            required=options.pools_file is not None,
        )
        if pools.refused:
            log.error("%s", pools.refused)
        with _tcp_door(home, options.listen) as door:
            asyncio.run(_serve(home, options, machine, pools, door))


@dataclass(frozen=True)
class _TcpDoor:
    listener: socket.socket
    address: TcpAddress
    guard: Guard


@contextmanager
def _tcp_door(home: QueueHome, wanted: TcpAddress | None) -> Iterator[_TcpDoor | None]:
    """Raises BadInput or RunFailed."""
    if wanted is None:
        yield None
        return
    token = read_or_make_token(home.token_file)
    with tcp_listener(wanted) as (listener, address):
        yield _TcpDoor(listener, address, Guard(address.hosts, token))


@contextmanager
def _only_service(home: QueueHome) -> Iterator[None]:
    fd = os.open(home.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.read(fd, 32).decode(errors="replace").strip()
            found = f"a service that runs already (process {pid or 'unknown'})"
            raise BadInput.at("moor serve", str(home.root), found, "one service a home") from error
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(fd)


async def _serve(
    home: QueueHome,
    options: ServeOptions,
    machine: MachineWatch,
    pools: PoolsWatch,
    door: _TcpDoor | None,
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    roster = Roster.opened(home, time.time)
    service = QueueService(roster, machine, pools)
    working = asyncio.ensure_future(service.run())
    stopping = asyncio.ensure_future(ended.wait())
    cleaning = asyncio.ensure_future(keep_within(roster, options.kept))
    try:
        async with AsyncExitStack() as stack:
            listener = stack.enter_context(unix_listener(home.socket))
            url = None if door is None else door.address.url
            runner = await stack.enter_async_context(_running(make_app(service, url)))
            await web.SockSite(runner, listener).start()
            log.info("listening on %s", home.socket)
            if door is not None:
                app = make_app(service, url, door.guard)
                runner = await stack.enter_async_context(_running(app))
                await stack.enter_async_context(served_by(runner, door.listener))
                log.info("listening on %s, with the token in %s", url, home.token_file)
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stopping, cleaning, working):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
        roster.store.close()
    running = sum(each.entry.state.supervised for each in roster)
    if running:
        log.info("%d running jobs go on; `moor serve` takes them up again", running)


@asynccontextmanager
async def _running(app: web.Application) -> AsyncIterator[web.AppRunner]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_S)
    await runner.setup()
    try:
        yield runner
    finally:
        await runner.cleanup()
