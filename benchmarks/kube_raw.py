"""A client that does nothing but send: what the API server itself takes for the same objects.

Every body is text before the clock starts, answers are read and thrown away, and so many
connections are busy at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from mooring.backends.kubernetes.api.credentials import tls_context
from mooring.backends.kubernetes.api.kubeconfig import load_access

CONNECTIONS = 32
_CALL_TIMEOUT_S = 60.0
_JSON = {"Content-Type": "application/json"}
_TRIES = 5


@dataclass(frozen=True)
class Body:
    """Something to be made: where, and the bytes to send."""

    path: str
    data: bytes


def body(path: str, manifest: Mapping[str, Any]) -> Body:
    return Body(path, json.dumps(manifest, separators=(",", ":")).encode())


def send(kubeconfig: Path, first: Sequence[Body], then: Sequence[Body]) -> None:
    """Make `first` one after the other, then all the others at once."""
    asyncio.run(_send(kubeconfig, first, then))


async def _send(kubeconfig: Path, first: Sequence[Body], then: Sequence[Body]) -> None:
    access = load_access(None, kubeconfig)
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls_context(access))
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_CALL_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def make(one: Body) -> None:
            url = access.server + one.path
            for _ in range(_TRIES):
                async with session.post(url, data=one.data, headers=_JSON) as response:
                    answer = await response.read()
                    if response.status == 429:
                        await asyncio.sleep(1.0)
                        continue
                    if response.status >= 300:
                        raise RuntimeError(f"{response.status} {one.path}: {answer[:300]!r}")
                    return
            raise RuntimeError(f"{one.path}: the server is overloaded")

        for one in first:
            await make(one)
        waiting = iter(then)

        async def work() -> None:
            for one in waiting:
                await make(one)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(work())
