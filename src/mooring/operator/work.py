"""Which jobs are to be looked at, when, and by whom: never by two workers at the same time.

A key that is added while it is being worked on is worked on once more afterwards, so no change is
missed; one that is added often meanwhile is still worked on only once.
"""

from __future__ import annotations

import asyncio
import heapq
import time

from mooring.backends.kubernetes.api.document import Key

_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 60.0
_REST_S = 0.05
_MOST_REMEMBERED = 1024


class WorkQueue:
    """Keys in the order in which they are due."""

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._busy: set[Key] = set()
        self._again: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._ended_s: dict[Key, float] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due) + len(self._again)

    def add(self, key: Key, delay_s: float = 0.0) -> None:
        at_s = time.monotonic() + delay_s
        if key in self._busy:
            self._again[key] = min(at_s, self._again.get(key, at_s))
            return
        if self._due.get(key, float("inf")) <= at_s:
            return
        self._due[key] = at_s
        heapq.heappush(self._heap, (at_s, key))
        self._changed.set()

    def add_after_rest(self, key: Key) -> None:
        """At once, but for a key that has just been worked on: the pods of a large gang change one
        after the other, and looking at all of them each time would take the square of them."""
        if key in self._busy:
            self.add(key, _REST_S)
        else:
            self.add(key, max(0.0, self._ended_s.get(key, 0.0) + _REST_S - time.monotonic()))

    async def take(self) -> Key:
        """The next key that is due; the caller must call `done` for it."""
        while True:
            now_s = time.monotonic()
            while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
                heapq.heappop(self._heap)
            if self._heap and self._heap[0][0] <= now_s:
                _, key = heapq.heappop(self._heap)
                del self._due[key]
                self._busy.add(key)
                return key
            self._changed.clear()
            wait_s = self._heap[0][0] - now_s if self._heap else None
            try:
                await asyncio.wait_for(self._changed.wait(), wait_s)
            except TimeoutError:
                continue

    def done(self, key: Key, *, failed: bool = False) -> None:
        """Work on the key is over; after a failure it comes back, later each time."""
        self._busy.discard(key)
        now_s = time.monotonic()
        if len(self._ended_s) > _MOST_REMEMBERED:
            self._ended_s = {key: at for key, at in self._ended_s.items() if at > now_s - _REST_S}
        self._ended_s[key] = now_s
        again_s = self._again.pop(key, None)
        if failed:
            count = self._failures.get(key, 0)
            self._failures[key] = count + 1
            self.add(key, min(_FIRST_BACKOFF_S * 2**count, _LONGEST_BACKOFF_S))
            return
        self._failures.pop(key, None)
        if again_s is not None:
            self.add(key, max(0.0, again_s - time.monotonic()))
