"""What of this machine is held by whom, looked at again only when something has changed.

Runs say so by the time of the planning lock; one that is killed says nothing, so that the
processes of those that held something last are looked at, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from mooring.backends.local.machine import this_machine
from mooring.backends.local.occupancy import LiveRun, NodeCut, live_runs
from mooring.record import plan_lock

#: Devices may be added or break, and asking for them takes a while.
_HARDWARE_EVERY_S = 60.0


@dataclass
class MachineWatch:
    """The live runs of this user, and the machine as the queue's nodes."""

    virtual_nodes: int = 0
    nic_mbps: int | None = None
    runs: tuple[LiveRun, ...] = ()
    _stamp: int | None = None
    _cut: NodeCut | None = field(default=None)
    _hardware_due_s: float = 0.0

    def look(self) -> bool:
        """Whether anything has changed since the last look."""
        try:
            stamp = plan_lock().stat().st_mtime_ns
        except FileNotFoundError:
            stamp = 0
        died = any(not live.run.alive() for live in self.runs)
        if stamp == self._stamp and not died:
            return False
        # A change while we read has a later time, and is seen the next time.
        self._stamp = stamp
        self.runs = tuple(live_runs())
        return True

    def cut(self) -> NodeCut:
        now_s = time.monotonic()
        if self._cut is None or now_s >= self._hardware_due_s:
            self._hardware_due_s = now_s + _HARDWARE_EVERY_S
            fresh = NodeCut(this_machine(), self.virtual_nodes, self.nic_mbps)
            # The very same object lets the brain use again what it worked out of it.
            self._cut = self._cut if self._cut == fresh else fresh
        return self._cut
