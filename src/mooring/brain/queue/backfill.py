"""The reservation of a gang that cannot start yet, and who may start before it.

It says which running gangs have to end first, in the order in which they are expected to (those
of unknown end last, the oldest first), and when the last of them does. A gang behind the head may
start now if it ends before that moment, or if the head still fits then with it beside. So when
expectations hold the head starts no later than without it; where an end is unknown the head
starts at the latest when the gangs of its reservation have ended, whoever came in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

from mooring.brain.queue.round_state import GangChange, RoundState
from mooring.brain.queue.types import Amount, QueuedGang, RunningGang


@dataclass(frozen=True)
class Outlook:
    """Who has to end, in this order, so that the head fits, and the state then; None: never."""

    ends: tuple[tuple[float, str], ...]
    shadow: RoundState | None


class Reservation:
    def __init__(self, head: QueuedGang) -> None:
        self.head = head
        self._shadow: RoundState | None = None
        self._start_s = inf
        #: Not even with the cluster to itself: nobody can delay that.
        self.hopeless = False

    @property
    def start_s(self) -> float | None:
        """When the head is expected to start; None if that is unknown."""
        return None if self._start_s == inf else self._start_s

    def forget(self) -> None:
        """The state has changed in a way that this does not follow: look again when asked."""
        self._shadow = None

    def look(self, round_state: RoundState) -> None:
        """Let gangs end one by one until the head fits."""
        if self._shadow is not None or self.hopeless:
            return
        outlook = self._outlook(round_state)
        self._start_s = outlook.ends[-1][0] if outlook.ends else round_state.now_s
        if outlook.shadow is None:
            self.hopeless = True
        else:
            self._shadow = outlook.shadow.copy()

    def _outlook(self, round_state: RoundState) -> Outlook:
        """As it was found before, if nobody has started or ended since, and time alone has not
        changed who is expected to end first."""
        if not round_state.untouched:
            return self._look(round_state)
        known = round_state.memory.outlooks.get(self.head.job)
        ending = round_state.queue_index.ending(round_state.now_s)
        if known is None or known.ends != tuple(
            (end_s, each.job) for end_s, each in islice(ending, len(known.ends))
        ):
            known = round_state.memory.outlooks[self.head.job] = self._look(round_state)
        return known

    def _look(self, round_state: RoundState) -> Outlook:
        shadow = round_state.copy()
        ends: list[tuple[float, str]] = []
        if self._fits(shadow):  # somebody has given way since it was tried
            return Outlook((), shadow)
        for end_s, each in round_state.queue_index.ending(round_state.now_s):
            shadow.stop(each.job)
            ends.append((end_s, each.job))
            if self._fits(shadow):
                return Outlook(tuple(ends), shadow)
        return Outlook(tuple(ends), None)

    def _fits(self, shadow: RoundState) -> bool:
        return shadow.has_room(self.head, self.head.least)

    def _in_time(self, queued: QueuedGang, now_s: float) -> bool:
        """Would it end before the head starts?"""
        return queued.expected_s is not None and now_s + queued.expected_s <= self._start_s < inf

    def forbids(self, round_state: RoundState, queued: QueuedGang, ask: Amount) -> bool:
        """Do the sums alone tell that this would delay the head, wherever it were placed?"""
        self.look(round_state)
        if self._shadow is None:
            return False
        if self._in_time(queued, round_state.now_s):
            return False
        _, head = self.head.sized(self.head.least)
        free = self._shadow.free
        return any(ask[k] > free[k] - head[k] for k in range(len(free)) if ask[k] and head[k])

    def crowded_out(self, round_state: RoundState, queued: QueuedGang, size: int) -> bool:
        """Is it plain that this has a place which delays the head, whichever it is?"""
        if self._shadow is None or self._in_time(queued, round_state.now_s):
            return False
        return self._shadow.crowded_out(self.head, queued, size, round_state)

    def allows(
        self, round_state: RoundState, candidate: RunningGang, changes: Sequence[GangChange] = ()
    ) -> bool:
        """May `candidate` start now (or take its new size), once `changes` have been made?

        `round_state` is as it was before both.
        """
        self.look(round_state)
        if self._shadow is None:
            return True
        shadow = self._shadow
        if candidate.job in round_state.running:
            # It grows. If the head waits for its end anyway, its size does not matter.
            before = shadow.running.get(candidate.job)
            if before is None:
                return True
            with shadow.supposing([GangChange(before, candidate)]):
                return self._fits(shadow)
        in_time = self._ends_in_time(candidate, round_state.now_s)
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
