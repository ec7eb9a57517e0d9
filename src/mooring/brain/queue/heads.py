"""Those that could not start in this round, by queue: the first of each holds a reservation."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.brain.queue.backfill import Reservation
from mooring.brain.queue.round_state import RoundState
from mooring.brain.queue.types import QueuedGang, RunningGang


class Heads:
    def __init__(self, round_state: RoundState) -> None:
        self._round_state = round_state
        self._blocked: dict[str, list[Reservation]] = {}

    def __bool__(self) -> bool:
        return bool(self._blocked)

    def blocked(self, name: str) -> int:
        """How many of this queue could not start."""
        return len(self._blocked.get(name, ()))

    def foremost(self, name: str) -> QueuedGang | None:
        """The first of this queue that could not start."""
        heads = self._blocked.get(name)
        return heads[0].head if heads else None

    def add(self, name: str, queued: QueuedGang) -> None:
        self._blocked.setdefault(name, []).append(Reservation(queued))

    def remove(self, name: str, job: str) -> None:
        left = [head for head in self._blocked.pop(name, ()) if head.head.job != job]
        if left:
            self._blocked[name] = left

    def all(self, only: str | None = None) -> list[Reservation]:
        """Of each queue, or of one, the first that is not hopeless: none of them may be delayed."""
        names = self._blocked if only is None else [only] * (only in self._blocked)
        return [head for name in names if (head := self._first(name)) is not None]

    def _first(self, name: str) -> Reservation | None:
        for each in self._blocked[name]:
            each.look(self._round_state)
            if not each.hopeless:
                return each
        return None

    def started(self, running: RunningGang, followed: Sequence[Reservation]) -> None:
        """The reservations in `followed` allow for it; the others have to be looked at anew."""
        for heads in self._blocked.values():
            for head in heads:
                if head in followed:
                    head.started(running, self._round_state.now_s)
                else:
                    head.forget()

    def forget(self) -> None:
        for heads in self._blocked.values():
            for head in heads:
                head.forget()
