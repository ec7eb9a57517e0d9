"""Kill the operator at its nth write, and start another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum

from kube.faults.lanes import Lane
from kube.faults.proxy import PASS, Call, Fault

#: An operator that makes no further write for so long has done all that it does by itself.
_QUIET_S = 0.4


class Moment(StrEnum):
    """When, as seen from the write."""

    LOST = "applied, answer lost"
    ANSWERED = "answered, nothing written since"


class KillAt:
    """A rule for the proxy. `done` is set once the operator has been replaced."""

    def __init__(self, lane: Lane, write: int, moment: Moment) -> None:
        self._lane, self._write, self._moment = lane, write, moment
        self._armed = False
        self._lock = threading.Lock()
        self.done = threading.Event()

    def __call__(self, call: Call) -> Fault:
        if not call.write or self.done.is_set():
            return PASS
        if self._armed:
            # The next write of the one who heard the answer: it never leaves.
            return Fault(before=self._replace)
        if call.write < self._write:
            return PASS
        if self._moment is Moment.LOST:
            return Fault(cut=True, after=self._replace)
        return Fault(after=self._arm)

    def _arm(self) -> None:
        self._armed = True
        timer = threading.Timer(_QUIET_S, self._replace)
        timer.daemon = True
        timer.start()

    def _replace(self) -> None:
        with self._lock:
            if not self.done.is_set():
                self._lane.kill_and_start()
                self.done.set()


Story = Callable[[Lane], None]
