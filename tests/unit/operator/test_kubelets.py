"""Asking kubelets: who answers is known, who does not is not, and nobody is asked twice."""

from __future__ import annotations

import asyncio

from mooring.backends.kubernetes.jobs.kubelets import Kubelets, ask_kubelets
from mooring.model.cluster import CpuManager, KubeletPolicy
from unit.kubeapi.pages import pages

STATIC = {"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}}
KNOWN = KubeletPolicy(CpuManager.STATIC, reserved_cpus=frozenset({0}))


def configz(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/configz"


def test_what_can_be_had_is_known_and_asked_for_once() -> None:
    async def play() -> None:
        async with pages() as (server, client):
            names = [f"n{index}" for index in range(20)]
            for name in names[:-2]:
                server.json[configz(name)] = STATIC
            server.codes[configz("n19")] = 503
            told: list[str] = []
            kubelets = Kubelets(client, lambda: names, lambda: told.append("changed"))
            server.open.clear()
            looking = asyncio.create_task(kubelets.look())
            while server.busy < 8:
                await asyncio.sleep(0.01)
            server.open.set()
            await looking
            assert server.most_at_once == 8
            assert [kubelets.of(name) for name in names] == [KNOWN] * 18 + [None] * 2
            assert len(told) == 18
            assert len(server.calls) == 20
            await kubelets.look()
            assert len(server.calls) == 20

    asyncio.run(play())


def test_nodes_that_come_are_asked_and_those_that_go_are_forgotten() -> None:
    async def play() -> None:
        async with pages() as (server, client):
            names = ["a"]
            server.json |= {configz("a"): STATIC, configz("b"): STATIC}
            kubelets = Kubelets(client, lambda: names, lambda: None)
            await kubelets.look()
            names[:] = ["b"]
            await kubelets.look()
            assert (kubelets.of("a"), kubelets.of("b")) == (None, KNOWN)
            names[:] = ["a", "b"]
            await kubelets.look()
            assert [path for _, path in server.calls] == [
                configz("a"),
                configz("b"),
                configz("a"),
            ]

    asyncio.run(play())


def test_who_may_not_ask_does_not_go_on_asking() -> None:
    async def play() -> None:
        async with pages() as (server, client):
            names = [f"n{index}" for index in range(100)]
            server.codes |= {configz(name): 403 for name in names}
            kubelets = Kubelets(client, lambda: names, lambda: None)
            await kubelets.look()
            asked = len(server.calls)
            # Those that were under way when the first refusal came.
            assert asked <= 8
            await kubelets.look()
            assert len(server.calls) == asked

    asyncio.run(play())


def test_a_command_gets_what_there_is() -> None:
    async def play() -> None:
        async with pages() as (server, client):
            server.json[configz("a")] = STATIC
            assert await ask_kubelets(client, ["a", "b"]) == {"a": KNOWN}

    asyncio.run(play())
