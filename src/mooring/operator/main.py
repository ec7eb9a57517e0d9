"""The operator as a process: what `moor operator` runs, in a pod or on a laptop.

A replica that does not lead keeps nothing running but its pages; when it is elected it fills its
caches first and acts then. One that loses the lease drops everything and starts over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess
from mooring.operator import garbage
from mooring.operator.controller import Controller, OperatorSettings
from mooring.operator.leader import Leader, LeaseSettings
from mooring.operator.metrics import Metrics
from mooring.operator.server import status_pages

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplicaOptions:
    """How this replica runs. Without a lease it acts at once: there must be no other then."""

    settings: OperatorSettings
    lease: LeaseSettings | None = None
    metrics_port: int | None = 9090


async def run_operator(access: ClusterAccess, process: ReplicaOptions) -> None:
    """Until SIGTERM or SIGINT."""
    garbage.calm()
    metrics = Metrics()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(access, metrics.call))
        replica = _Replica(client, process, metrics)
        if process.metrics_port is not None:
            runner = web.AppRunner(status_pages(metrics, replica.ready), access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, None, process.metrics_port).start()
        work = asyncio.create_task(replica.run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((work, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (work, stopping):
            if not task.done():
                task.cancel()
        results = await asyncio.gather(work, stopping, return_exceptions=True)
        await replica.resign()
        for result in results:
            if isinstance(result, Exception):
                raise result


class _Replica:
    """Leads when it is elected, waits otherwise."""

    def __init__(self, client: Client, process: ReplicaOptions, metrics: Metrics) -> None:
        self._client, self._process, self._metrics = client, process, metrics
        self._controller: Controller | None = None
        self._leader: Leader | None = None
        if process.lease is not None:
            host = os.environ.get("POD_NAME") or socket.gethostname()
            identity = f"{host}-{uuid.uuid4().hex[:8]}"
            self._leader = Leader(client, identity, process.lease, metrics.leads)

    def ready(self) -> bool:
        """A replica that waits for its turn is ready too."""
        return self._controller is None or self._controller.synced

    async def run(self) -> None:
        if self._leader is None:
            await self._act(lambda: True)
            return
        # Together: a replica whose election has died must not wait for its turn for ever.
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._leader.run())
            tasks.create_task(self._act_while_leading(self._leader))

    async def _act_while_leading(self, leader: Leader) -> None:
        while True:
            await leader.elected.wait()
            acting = asyncio.create_task(self._act(lambda: leader.leads))
            try:
                while leader.leads and not acting.done():
                    await asyncio.wait((acting,), timeout=0.2)
            finally:
                acting.cancel()
            result = (await asyncio.gather(acting, return_exceptions=True))[0]
            self._controller = None
            if isinstance(result, Exception):
                log.error("the controller stopped: %s", result, exc_info=result)
                await asyncio.sleep(1.0)

    async def resign(self) -> None:
        if self._leader is not None:
            await self._leader.resign()

    async def _act(self, allowed: Callable[[], bool]) -> None:
        controller = Controller(self._client, self._process.settings, self._metrics, allowed)
        self._controller = controller
        await controller.run(garbage.settle)
