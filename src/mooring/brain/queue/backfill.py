"""The reservation of a gang that cannot start yet, and who may start before it.

It says which running gangs have to end first, in the order in which they are expected to (those
of unknown end last, the oldest first), and when the last of them does. A gang behind the head may
start now if it ends before that moment, or if the head still fits then with it beside. So when
expectations hold the head starts no later than without it; where an end is unknown the head
starts at the latest when the gangs of its reservation have ended, whoever came in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from mooring.brain.queue.scene import Change, Scene
from mooring.brain.queue.types import Amount, QueuedGang, RunningGang
from mooring.model.plan import Plan


class Reservation:
    def __init__(self, head: QueuedGang) -> None:
        self.head = head
        self._shadow: Scene | None = None
        self._start_s = inf
        #: Not even with the cluster to itself: nobody can delay that.
        self.hopeless = False

    @property
    def start_s(self) -> float | None:
        """When the head is expected to start; None if that is unknown."""
        return None if self._start_s == inf else self._start_s

    def forget(self) -> None:
        """The scene has changed in a way that this does not follow: look again when asked."""
        self._shadow = None

    def look(self, scene: Scene) -> None:
        """Let gangs end one by one until the head fits."""
        if self._shadow is not None or self.hopeless:
            return
        shadow = scene.copy()
        self._start_s = scene.now_s
        if self._fits(shadow):  # somebody has given way since it was tried
            self._shadow = shadow
            return
        for end_s, each in scene.books.ending(scene.now_s):
            shadow.stop(each.job)
            self._start_s = end_s
            if self._fits(shadow):
                self._shadow = shadow
                return
        self.hopeless = True

    def _fits(self, shadow: Scene) -> bool:
        return isinstance(shadow.fits(self.head, self.head.least), Plan)

    def forbids(self, scene: Scene, queued: QueuedGang, ask: Amount) -> bool:
        """Do the sums alone tell that this would delay the head, wherever it were placed?"""
        self.look(scene)
        if self._shadow is None:
            return False
        if queued.expected_s is not None and scene.now_s + queued.expected_s <= self._start_s < inf:
            return False
        _, head = self.head.sized(self.head.least)
        free = self._shadow.free
        return any(ask[k] > free[k] - head[k] for k in range(len(free)) if ask[k] and head[k])

    def allows(self, scene: Scene, candidate: RunningGang, changes: Sequence[Change] = ()) -> bool:
        """May `candidate` start now (or take its new size), once `changes` have been made?

        `scene` is as it was before both.
        """
        self.look(scene)
        if self._shadow is None:
            return True
        shadow = self._shadow
        if candidate.job in scene.running:
            # It grows. If the head waits for its end anyway, its size does not matter.
            before = shadow.running.get(candidate.job)
            if before is None:
                return True
            with shadow.supposing([Change(before, candidate)]):
                return self._fits(shadow)
        in_time = self._ends_in_time(candidate, scene.now_s)
        if in_time and not changes:
            return True
        still = [change for change in changes if change.before.job in shadow.running]
        with shadow.supposing(still):
            if in_time:
                return self._fits(shadow)
            shadow.start(candidate)
            try:
                return self._fits(shadow)
            finally:
                shadow.stop(candidate.job)

    def _ends_in_time(self, candidate: RunningGang, now_s: float) -> bool:
        end_s = candidate.end_s(now_s)
        return end_s is not None and self._start_s < inf and end_s <= self._start_s

    def started(self, candidate: RunningGang, now_s: float) -> None:
        """`candidate`, which was allowed, has started."""
        if self._shadow is not None and not self._ends_in_time(candidate, now_s):
            self._shadow.start(candidate)
