"""The machine around a member: its network card's bytes, what all CPUs do, pressure."""

from __future__ import annotations

import os
import time

from . import nics, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PRESSURES = ("cpu", "io", "memory")


class NetworkCard:
    """The card that the member's own address is on; counts are of this network namespace."""

    def __init__(self, addresses: Iterable[bytes]) -> None:
        """`addresses`: the member's own, packed."""
        names = nics.interfaces()
        found = [names[one] for one in addresses if one in names]
        self.name = found[0] if found else ""

    def read(self) -> tuple[float, int, int] | None:
        """(monotonic seconds, bytes received, bytes sent) since the card came up."""
        if not self.name:
            return None
        mark = (self.name + ":").encode("utf-8")
        for line in procfs.read("/proc/self/net/dev").splitlines():
            line = line.strip()
            if line.startswith(mark):
                fields = line[len(mark) :].split()
                if len(fields) > 8:
                    return time.monotonic(), int(fields[0]), int(fields[8])
        return None


class Machine:
    """Differences between calls."""

    def __init__(self) -> None:
        self._before = self._read()

    def changes(self) -> dict[str, Any]:
        """CPU seconds of everybody, and seconds in which somebody waited for cpu, io or memory
        (where the kernel keeps pressure), since the last call."""
        now = self._read()
        before, self._before = self._before, now
        grown = {name: round(max(0.0, now[name] - before.get(name, now[name])), 3) for name in now}
        return dict(grown, cpus=os.cpu_count() or 1)

    @staticmethod
    def _read() -> dict[str, float]:
        counts = {"span_s": time.monotonic()}
        first = procfs.read("/proc/stat").partition(b"\n")[0].split()
        if len(first) > 8:
            # user, nice, system, irq, softirq, steal; idle and iowait are no use.
            busy = sum(int(first[place]) for place in (1, 2, 3, 6, 7, 8))
            counts["busy_s"] = busy * _TICK_S
        for name in _PRESSURES:
            words = procfs.read("/proc/pressure/" + name).partition(b"\n")[0].split()
            total = [word for word in words if word.startswith(b"total=")]
            if words[:1] == [b"some"] and total:
                counts[name + "_pressure_s"] = int(total[0][6:]) / 1e6
        return counts
