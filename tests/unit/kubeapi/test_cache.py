"""The cache against a real HTTP server that lags, forgets and repeats itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.backends.kubernetes.api import cache as cache_module
from mooring.backends.kubernetes.api.cache import Cache
from mooring.backends.kubernetes.api.codec import JSON
from mooring.backends.kubernetes.api.document import Object, text
from mooring.backends.kubernetes.api.errors import Unreachable
from mooring.backends.kubernetes.api.protobuf import LEAN_PODS
from mooring.backends.kubernetes.api.resources import POD
from unit.kubeapi.fake_server import FakeServer, serving, status, thing
from unit.kubeapi.pages import pages


def parse(obj: Object) -> str:
    return f"{text(obj, 'metadata', 'uid')}@{text(obj, 'metadata', 'resourceVersion')}"


class Rig:
    """A cache, what it reported, and the server that it follows."""

    def __init__(self, server: FakeServer, cache: Cache[str], told: list[Any]) -> None:
        self.server, self.cache, self.told = server, cache, told
        self.troubles: list[str] = []

    @property
    def views(self) -> list[str]:
        return sorted(self.cache)

    async def follow(self) -> None:
        """Until the server's script of watches is at its end."""
        task = asyncio.create_task(self.cache.run())
        async with asyncio.timeout(10):
            await self.server.asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def play(story: Callable[[Rig], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with serving() as (server, client):
            told: list[Any] = []
            troubles: list[str] = []
            cache: Cache[str] = Cache(
                client,
                POD,
                parse,
                changed=lambda before, after: told.append((before, after)),
                trouble=troubles.append,
                **options,
            )
            rig = Rig(server, cache, told)
            rig.troubles = troubles
            await story(rig)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(cache_module, "_LONGEST_WAIT_S", 0.01)


both_forms = pytest.mark.parametrize("accept", [JSON, LEAN_PODS], ids=["JSON", "protobuf"])


@both_forms
def test_list_then_changes(accept: str) -> None:
    async def story(rig: Rig) -> None:
        rig.server.list(5, thing("a", 3), thing("b", 4))
        rig.server.watch(
            ("MODIFIED", thing("a", 6)), ("DELETED", thing("b", 7)), ("ADDED", thing("c", 8))
        )
        await rig.follow()
        assert rig.views == ["uid-a@6", "uid-c@8"]
        assert rig.told == [
            (None, "uid-a@3"),
            (None, "uid-b@4"),
            ("uid-a@3", "uid-a@6"),
            ("uid-b@4", None),
            (None, "uid-c@8"),
        ]
        # The next watch goes on where the last one ended.
        assert rig.server.watched_from == ["5", "8"]

    play(story, accept=accept)


@both_forms
def test_pages_are_one_list(accept: str) -> None:
    async def story(rig: Rig) -> None:
        rig.server.list(5, thing("a", 3), more="next")
        rig.server.list(5, thing("b", 4))
        await rig.follow()
        assert rig.views == ["uid-a@3", "uid-b@4"]

    play(story, accept=accept)


@both_forms
def test_bookmarks_move_the_watch_on_and_change_nothing(accept: str) -> None:
    async def story(rig: Rig) -> None:
        rig.server.list(5, thing("a", 3))
        rig.server.watch(("BOOKMARK", {"metadata": {"resourceVersion": "90"}}))
        await rig.follow()
        assert rig.views == ["uid-a@3"]
        assert rig.server.watched_from == ["5", "90"]

    play(story, accept=accept)


@both_forms
@pytest.mark.parametrize("how", ["line", "list"])
def test_a_server_that_has_forgotten_is_listed_again(how: str, accept: str) -> None:
    async def story(rig: Rig) -> None:
        if how == "list":
            rig.server.list(4, thing("a", 3), more="next")
            rig.server.refuse_list(410, "Expired")
        else:
            rig.server.list(5, thing("a", 3), thing("b", 4))
            rig.server.watch(("ERROR", status(410, "Expired")))
        rig.server.list(9, thing("a", 8))
        await rig.follow()
        assert rig.views == ["uid-a@8"]
        assert rig.server.watched_from[-1] == "9"

    play(story, accept=accept)


def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_one() -> None:
    """A proxy that shows a page of its own must not be the end of all jobs."""

    async def story(rig: Rig) -> None:
        rig.server.list(5, thing("a", 3))
        rig.server.watch(("ERROR", status(410, "Expired")))
        rig.server.lists.append((200, {"please": "log in"}))
        rig.server.list(9, thing("a", 3))
        await rig.follow()
        assert rig.told == [(None, "uid-a@3")]
        assert any("is not a list" in one for one in rig.troubles)

    play(story)


@pytest.mark.parametrize("said", ["<html>Please log in</html>", "[]", "null", '"OK"'])
def test_a_page_of_a_proxy_is_no_object(said: str) -> None:
    async def run() -> None:
        async with pages() as (laid_out, client):
            laid_out.text["/api/v1/pods"] = said
            with pytest.raises(Unreachable, match=r"text/plain.* is no object"):
                await client.list(POD)

    asyncio.run(run())


class Pauses:
    """Takes down how long the cache would have waited; at the eighth it is stopped."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []
        self.enough = asyncio.Event()

    async def __call__(self, longest_s: float) -> None:
        self.waited_s.append(longest_s)
        if len(self.waited_s) == 8:
            self.enough.set()
            await asyncio.Event().wait()

    async def watch(self, rig: Rig) -> None:
        task = asyncio.create_task(rig.cache.run())
        async with asyncio.timeout(10):
            await self.enough.wait()
        task.cancel()


# 0.2 s doubled each time, 10 s at most.
GROWING_S = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    monkeypatch.setattr(cache_module, "_FIRST_WAIT_S", 0.2)
    monkeypatch.setattr(cache_module, "_LONGEST_WAIT_S", 10.0)
    pauses = Pauses()
    monkeypatch.setattr(cache_module, "_pause", pauses)
    return pauses


def test_a_server_that_forgets_all_the_time_is_not_asked_all_the_time(pauses: Pauses) -> None:
    async def story(rig: Rig) -> None:
        rig.server.refuse_list(410, "Expired")
        await pauses.watch(rig)
        assert rig.server.listed == 8

    play(story)
    assert pauses.waited_s == pytest.approx(GROWING_S)


def test_watches_that_end_at_once_are_not_opened_all_the_time(pauses: Pauses) -> None:
    async def story(rig: Rig) -> None:
        rig.server.list(5)
        for _ in range(1000):
            rig.server.watch()
        await pauses.watch(rig)
        assert len(rig.server.watched_from) == 8

    play(story)
    assert pauses.waited_s == pytest.approx(GROWING_S)


@pytest.mark.parametrize("line", ['{"type": "ADDED", "obj', "[1]", '"text"', "null", "{}"])
def test_lines_that_are_no_changes_harm_nobody(line: str) -> None:
    async def story(rig: Rig) -> None:
        rig.server.list(5, thing("a", 3))
        rig.server.watch(line)
        await rig.follow()
        assert rig.views == ["uid-a@3"]

    play(story)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        # A list of version 4 knows nothing of what was written at 6: it stays.
        ((4, [thing("a", 3)]), ["uid-a@3", "uid-own@6"]),
        # One of version 7 does: it is gone.
        ((7, [thing("a", 3)]), ["uid-a@3"]),
        # Nor does an older version of the object itself win.
        ((4, [thing("own", 2)]), ["uid-own@6"]),
    ],
)
def test_a_list_that_lags_does_not_undo_our_own_write(
    listed: tuple[int, list[dict[str, Any]]], expected: list[str]
) -> None:
    async def story(rig: Rig) -> None:
        rig.cache.put(thing("own", 6))
        rig.server.list(listed[0], *listed[1])
        await rig.follow()
        assert rig.views == expected

    play(story)


def test_what_is_gone_does_not_come_back_from_a_list_that_lags() -> None:
    async def story(rig: Rig) -> None:
        rig.cache.put(thing("a", 3))
        rig.cache.remove(("n", "a"), "uid-a", 9)
        rig.server.list(5, thing("a", 3))
        await rig.follow()
        assert rig.views == []
        assert rig.told == [(None, "uid-a@3"), ("uid-a@3", None)]

    play(story)


def test_the_end_of_one_does_not_touch_the_next_of_the_same_name() -> None:
    async def story(rig: Rig) -> None:
        rig.cache.put(thing("a", 3, uid="old"))
        rig.cache.put(thing("a", 8, uid="new"))
        rig.cache.remove(("n", "a"), "old", 7)
        assert rig.views == ["new@8"]
        rig.cache.put(thing("a", 6, uid="old"))
        assert rig.views == ["new@8"]
        assert rig.told == [(None, "old@3"), ("old@3", "new@8")]

    play(story)


def test_what_is_known_already_is_not_told_again() -> None:
    async def story(rig: Rig) -> None:
        rig.cache.put(thing("a", 3))
        rig.cache.put(thing("a", 3))
        rig.cache.put(thing("a", 2))
        assert rig.told == [(None, "uid-a@3")]

    play(story)


@pytest.mark.parametrize(("code", "missing_ok", "synced"), [(404, True, True), (404, False, False)])
def test_a_kind_that_the_server_does_not_have(code: int, missing_ok: bool, synced: bool) -> None:
    async def story(rig: Rig) -> None:
        rig.server.refuse_list(code, "NotFound")
        task = asyncio.create_task(rig.cache.run())
        async with asyncio.timeout(10):
            while not (rig.server.listed and (rig.troubles or rig.cache.synced.is_set())):
                await asyncio.sleep(0)
        task.cancel()
        assert rig.cache.synced.is_set() is synced
        assert bool(rig.troubles) is not synced

    play(story, missing_ok=missing_ok)
