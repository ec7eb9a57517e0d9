"""How busy the cards and the machine itself are while a run goes.

A card that is filled in turns, first in one direction and then in the other, looks half empty over
a second. So the counters are read many times a second, by a thread, and only their sums are kept.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Shorter than the exchange of a few hundred kilobytes on a slow card; at 40 reads a second of one
#: file of /proc the thread costs a third of a per cent of a CPU.
_INTERVAL_S = 0.025
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_STAT, _MEMORY = Path("/proc/stat"), Path("/proc/meminfo")
#: Places in the first line of /proc/stat; idle (3) and iowait (4) are no use.
_USED = (0, 1, 2, 5, 6, 7)
Counters = Callable[[], Mapping[str, tuple[int, int]]]


@dataclass(frozen=True)
class MachineCounters:
    """CPU time that all processes of the machine have used since it started, and its memory."""

    cpu_s: float
    cpus: int
    available_bytes: int
    memory_bytes: int


def machine_use() -> MachineCounters | None:
    """None where there is no /proc."""
    try:
        ticks = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:]]
        rows = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines() if ":" in line)
        sizes = {name: int(rest.split()[0]) * 1024 for name, rest in rows.items() if rest.split()}
        return MachineCounters(
            round(_TICK_S * sum(ticks[place] for place in _USED), 2),
            os.cpu_count() or 1,
            sizes["MemAvailable"],
            sizes["MemTotal"],
        )
    except (OSError, ValueError, KeyError, IndexError):
        return None


class CardMeter:
    """Adds up, for each node with a limit, how long its card was in use in either direction.

    In each short interval the fuller direction counts: bytes ÷ what the limit lets through.
    """

    def __init__(
        self,
        counters: Counters,
        limits_mbps: Mapping[str, int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters, self._clock = counters, clock
        self._bytes_per_s = {node: mbps * 125_000 for node, mbps in limits_mbps.items() if mbps}
        self._busy_s: dict[str, float] = dict.fromkeys(self._bytes_per_s, 0.0)
        self._last: Mapping[str, tuple[int, int]] = {}
        self._last_s: float | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Nothing to do without limits."""
        if self._bytes_per_s and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cards", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Once: what has gone through since the last look."""
        now_s, counted = self._clock(), self._counters()
        if self._last_s is not None and now_s > self._last_s:
            for node, most in self._bytes_per_s.items():
                if node in counted and node in self._last:
                    moved = max(
                        after - before
                        for after, before in zip(counted[node], self._last[node], strict=True)
                    )
                    # What a token bucket had saved up passes faster than the limit.
                    self._busy_s[node] += max(0.0, moved / most)
        self._last, self._last_s = counted, now_s

    def busy_s(self) -> dict[str, float]:
        """Node -> seconds for which its card was in use so far."""
        return {node: round(seconds, 4) for node, seconds in self._busy_s.items()}

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        # A look that fails (the nodes are gone) ends the looks, not the run.
        with suppress(Exception):
            while not self._ended.wait(_INTERVAL_S):
                self.look()
