"""The lease: never two who may act, whatever each has missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from mooring.operator.leader import Leader, LeaseSettings
from unit.kubeapi.answering import answering

SETTINGS = LeaseSettings("n", duration_s=0.6, renew_s=0.4, retry_s=0.05)


class Leases:
    """One lease, kept as an API server keeps it: a write over an older version is refused."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.asked = 0

    async def wait_asked(self, times: int) -> None:
        """Until this many more requests came."""
        until = self.asked + times
        async with asyncio.timeout(10):
            while self.asked < until:
                await asyncio.sleep(0)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.down:
            return _status(500, "InternalError")
        if request.method == "GET":
            return web.json_response(self.lease) if self.lease else _status(404, "NotFound")
        body = await request.json()
        if request.method == "POST" and self.lease:
            return _status(409, "AlreadyExists")
        known = body["metadata"].get("resourceVersion")
        if request.method == "PUT" and known != str(self.version):
            return _status(409, "Conflict")
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return web.json_response(body)


def _status(code: int, reason: str) -> web.Response:
    return web.json_response({"code": code, "reason": reason, "message": reason}, status=code)


@asynccontextmanager
async def replicas(count: int) -> AsyncIterator[tuple[Leases, list[Leader]]]:
    leases = Leases()
    async with answering(leases.handle) as client:
        yield leases, [Leader(client, f"replica-{i}", SETTINGS) for i in range(count)]


async def wait_leads(leader: Leader) -> None:
    async with asyncio.timeout(10):
        await leader.elected.wait()


def test_one_of_two_leads_and_the_other_follows_when_it_resigns() -> None:
    async def story() -> None:
        async with replicas(2) as (leases, (first, second)):
            one = asyncio.create_task(first.run())
            await wait_leads(first)
            two = asyncio.create_task(second.run())
            await leases.wait_asked(10)
            assert (first.leads, second.leads) == (True, False)
            one.cancel()
            await first.resign()
            assert not first.leads
            await wait_leads(second)
            assert leases.lease is not None
            assert leases.lease["spec"]["holderIdentity"] == "replica-1"
            assert leases.lease["spec"]["leaseTransitions"] == 2
            two.cancel()

    asyncio.run(story())


def test_a_leader_that_cannot_renew_lets_go_before_another_may_lead() -> None:
    async def story() -> None:
        async with replicas(2) as (_, (first, second)):
            one = asyncio.create_task(first.run())
            await wait_leads(first)
            two = asyncio.create_task(second.run())
            # Frozen: it renews no more, and asks nobody.
            one.cancel()
            async with asyncio.timeout(10):
                while not second.leads:
                    await asyncio.sleep(0.001)
                    assert not (first.leads and second.leads)
            assert not first.leads
            two.cancel()

    asyncio.run(story())


def test_a_server_that_fails_is_asked_again() -> None:
    async def story() -> None:
        async with replicas(1) as (leases, (only,)):
            leases.down = True
            task = asyncio.create_task(only.run())
            await leases.wait_asked(3)
            assert not only.leads
            leases.down = False
            await wait_leads(only)
            task.cancel()

    asyncio.run(story())


@pytest.mark.parametrize(("duration_s", "promised_s"), [(15.0, 15), (1.9, 2), (0.6, 1)])
def test_what_is_promised_is_never_shorter_than_what_is_used(
    duration_s: float, promised_s: int
) -> None:
    """A lease holds whole seconds. Rounded down, another could lead while we still act."""

    async def story() -> None:
        async with replicas(1) as (leases, (only,)):
            only._settings = LeaseSettings("n", duration_s=duration_s)  # type: ignore[attr-defined]
            task = asyncio.create_task(only.run())
            await wait_leads(only)
            assert leases.lease is not None
            assert leases.lease["spec"]["leaseDurationSeconds"] == promised_s
            task.cancel()

    asyncio.run(story())
