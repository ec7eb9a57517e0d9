"""Several namespaces as one cache."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from mooring.backends.kubernetes.api.cache import Cache
from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Object, text
from mooring.backends.kubernetes.api.joined import Joined
from mooring.backends.kubernetes.api.resources import POD
from unit.kubeapi.pages import pages


def pod(namespace: str, name: str) -> dict[str, Any]:
    about = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "2"}
    return {"metadata": about}


def parse(obj: Object) -> str:
    return text(obj, "metadata", "name")


def follow(client: Client, told: list[str], namespace: str | None) -> Cache[str]:
    def changed(before: str | None, after: str | None) -> None:
        told.append(after or f"no {before}")

    return Cache(client, POD, parse, changed=changed, namespace=namespace)


@pytest.mark.parametrize(
    ("namespaces", "asked", "seen"),
    [
        ((), {"/api/v1/pods"}, ["x", "y", "z"]),
        (("a",), {"/api/v1/namespaces/a/pods"}, ["x"]),
        (
            ("a", "b", "a"),
            {"/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"},
            ["x", "y"],
        ),
    ],
)
def test_what_is_listed_and_what_is_seen(
    namespaces: tuple[str, ...], asked: set[str], seen: list[str]
) -> None:
    async def play() -> None:
        async with pages() as (server, client):
            everything = [pod("a", "x"), pod("b", "y"), pod("c", "z")]
            server.items("/api/v1/pods", *everything)
            for one in everything:
                where = one["metadata"]["namespace"]
                server.items(f"/api/v1/namespaces/{where}/pods", one)
            told: list[str] = []
            joined = Joined(partial(follow, client, told), namespaces)
            running = asyncio.create_task(joined.run())
            await joined.synced.wait()
            assert {path for _, path in server.calls} == asked
            assert sorted(joined) == sorted(told) == seen
            assert len(joined) == len(seen)
            assert joined.get("a", "x") == "x"
            assert joined.get("c", "z") == ("z" if "z" in seen else None)
            joined.put(pod("c", "new"))
            assert joined.get("c", "new") == ("new" if "z" in seen else None)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(play())
