"""The objects of several namespaces as one cache: a role of one namespace allows no wider list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Generic

from mooring.backends.kubernetes.api.cache import Cache, View
from mooring.backends.kubernetes.api.document import Object, text


class Joined(Generic[View]):
    """One cache a namespace; none named is one cache of all."""

    def __init__(
        self, make: Callable[[str | None], Cache[View]], namespaces: Sequence[str]
    ) -> None:
        wanted: list[str | None] = list(dict.fromkeys(namespaces)) or [None]
        self._caches = {namespace: make(namespace) for namespace in wanted}
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._caches.values()))

    def __iter__(self) -> Iterator[View]:
        return chain.from_iterable(self._caches.values())

    @property
    def known(self) -> bool:
        return all(cache.known for cache in self._caches.values())

    def get(self, namespace: str, name: str) -> View | None:
        cache = self._of(namespace)
        return cache.get(namespace, name) if cache is not None else None

    def put(self, obj: Object) -> None:
        cache = self._of(text(obj, "metadata", "namespace"))
        if cache is not None:
            cache.put(obj)

    async def run(self) -> None:
        """Follow the server for ever; cancelled by its owner."""
        async with asyncio.TaskGroup() as tasks:
            for cache in self._caches.values():
                tasks.create_task(cache.run())
            await asyncio.gather(*(cache.synced.wait() for cache in self._caches.values()))
            self.synced.set()

    def _of(self, namespace: str) -> Cache[View] | None:
        # An empty cache counts as false.
        everywhere = self._caches.get(None)
        return self._caches.get(namespace) if everywhere is None else everywhere
