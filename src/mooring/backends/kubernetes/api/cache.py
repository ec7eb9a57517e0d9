"""What the API server holds of one kind, kept up to date by list and watch.

Objects are parsed to small frozen views at once: a cluster's pods as raw JSON would take a
hundred times the room. A cache never goes back: what it knows to be newer (from a watch, or from
the answer to our own write) survives a list that a lagging server answers.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.codec import JSON
from mooring.backends.kubernetes.api.document import Key, Object, key_of, text
from mooring.backends.kubernetes.api.errors import Expired, Forbidden, KubeError, NotFound
from mooring.backends.kubernetes.api.resources import ResourceKind

View = TypeVar("View")

_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 10.0
_WATCH_S = 300


@dataclass(frozen=True)
class CacheEntry(Generic[View]):
    """A view with what orders it in time."""

    uid: str
    version: int
    view: View


def version_of(obj: Object) -> int:
    """Resource versions are opaque on paper, and growing integers in every API server there is;
    where one is not, the last word heard counts."""
    raw = text(obj, "metadata", "resourceVersion")
    return int(raw) if raw.isdigit() else 0


class Following(Protocol):
    """A cache of whatever kind, to whoever runs it."""

    synced: asyncio.Event

    async def run(self) -> None: ...


class Cache(Generic[View]):
    """`changed(before, after)` is called for every object that appears, changes or goes.

    `missing_ok`: the kind may not exist on this server (an optional CRD), or not be for us to see;
    the cache is then empty, and `known` tells that from a kind without objects. `accept`: how
    objects are to be written.
    """

    def __init__(
        self,
        client: Client,
        kind: ResourceKind,
        parse: Callable[[Object], View],
        *,
        changed: Callable[[View | None, View | None], None],
        namespace: str | None = None,
        labels: str = "",
        resync_s: float = 600.0,
        missing_ok: bool = False,
        accept: str = JSON,
        trouble: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._client, self._kind, self._parse = client, kind, parse
        self._changed, self._namespace, self._labels = changed, namespace, labels
        self._accept = accept
        self._resync_s, self._missing_ok, self._trouble = resync_s, missing_ok, trouble
        self._entries: dict[Key, CacheEntry[View]] = {}
        self._gone: dict[str, int] = {}
        self.synced = asyncio.Event()
        self.known = False

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[View]:
        return iter([entry.view for entry in self._entries.values()])

    def get(self, namespace: str, name: str) -> View | None:
        entry = self._entries.get((namespace, name))
        return entry.view if entry else None

    def put(self, obj: Object) -> None:
        """Take in an object as the server has just answered it."""
        key, version = key_of(obj), version_of(obj)
        before = self._entries.get(key)
        uid = text(obj, "metadata", "uid")
        if version and version <= self._gone.get(uid, 0):
            return
        if before is not None and version and version < before.version:
            return
        if before is not None and version and version == before.version and before.uid == uid:
            return
        try:
            view = self._parse(obj)
        except Exception as error:
            # One object that cannot be read must not cost the others theirs.
            self._trouble(f"{self._kind.plural} {'/'.join(key)} cannot be read: {error!r:.200}")
            return
        self._entries[key] = CacheEntry(uid, version, view)
        self._changed(before.view if before else None, view)

    def remove(self, key: Key, uid: str, version: int = 0) -> None:
        """The object with this uid is gone; a new one of the same name stays."""
        before = self._entries.get(key)
        if version:
            self._gone[uid] = version
        if before is None or (uid and before.uid != uid):
            return
        del self._entries[key]
        self._changed(before.view, None)

    async def run(self) -> None:
        """Follow the server for ever; cancelled by its owner."""
        wait_s = _FIRST_WAIT_S
        while True:
            began_s = time.monotonic()
            try:
                version = await self._list()
                await self._follow(version)
                continue
            except Expired as error:
                # Normal now and then. A server that forgets at once is not asked all the time.
                if time.monotonic() > began_s + _LONGEST_WAIT_S:
                    continue
                self._trouble(str(error))
            except NotFound as error:
                if self._missing_ok:
                    self.synced.set()
                    wait_s = self._resync_s / 2
                else:
                    self._trouble(str(error))
            except Forbidden as error:
                if self._missing_ok:
                    self.synced.set()
                    wait_s = self._resync_s / 2
                self._trouble(str(error))
            except KubeError as error:
                self._trouble(str(error))
            if time.monotonic() > began_s + 2 * _LONGEST_WAIT_S:
                wait_s = _FIRST_WAIT_S
            # Spread over time: all watches of all replicas end when a server restarts.
            await _pause(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _list(self) -> str:
        seen: set[Key] = set()
        version = ""
        async for page in self._client.pages(
            self._kind, self._namespace, self._labels, self._accept
        ):
            version = page.version
            for obj in page.objects:
                seen.add(key_of(obj))
                self.put(obj)
        listed = int(version) if version.isdigit() else 0
        for key, entry in list(self._entries.items()):
            if key not in seen and (not listed or entry.version <= listed):
                self.remove(key, entry.uid)
        self._gone = {uid: at for uid, at in self._gone.items() if at > listed}
        self.known = True
        self.synced.set()
        return version

    async def _follow(self, version: str) -> None:
        """Watch until it is time to list again."""
        list_again_s = time.monotonic() + self._resync_s * random.uniform(0.9, 1.1)
        wait_s = _FIRST_WAIT_S
        while (left_s := list_again_s - time.monotonic()) > 0:
            watch_s = max(1, int(min(_WATCH_S, left_s)))
            began_s = time.monotonic()
            try:
                async for change in self._client.watch(
                    self._kind, self._namespace, version, self._labels, watch_s, self._accept
                ):
                    wait_s = _FIRST_WAIT_S
                    version = text(change.object, "metadata", "resourceVersion") or version
                    self._take(change.kind, change.object)
                if time.monotonic() > began_s + watch_s / 2:
                    wait_s = _FIRST_WAIT_S
                    continue
            except (Expired, NotFound, Forbidden):
                raise
            except KubeError as error:
                self._trouble(str(error))
            # Ended early: by a fault, or by a server or proxy that ends watches at once.
            await _pause(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    def _take(self, change: str, obj: Object) -> None:
        if change in ("ADDED", "MODIFIED"):
            self.put(obj)
        elif change == "DELETED":
            self.remove(key_of(obj), text(obj, "metadata", "uid"), version_of(obj))


async def _pause(longest_s: float) -> None:
    """Half of it at least: caches that failed together do not come back together."""
    await asyncio.sleep(longest_s * random.uniform(0.5, 1.0))
