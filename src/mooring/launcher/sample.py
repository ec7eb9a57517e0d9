"""One measurement of the whole subtree: CPU time, waits for a CPU, context switches, memory,
threads, placement.

Totals never go back although processes and threads end. CPU time that a reaped process used is
found again in its parent's counters, and at the top in the launcher's own. Context switches are
counted by thread and known nowhere else, so the last value of a thread that vanished is kept.
"""

from __future__ import annotations

import os
import resource
import sys
import time

from . import cgroups, procfs
from .cells import Cells
from .threads import ThreadMeter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from . import gpus
    from .sockets import PeerTraffic

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
# macOS counts bytes, the others thousands of them.
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Positions in stat_fields, which starts at field 3 of proc(5).
_UTIME, _CSTIME, _RSS = 11, 14, 21

# Sampling may use this part of one CPU; beyond it the interval is stretched.
_SHARE = 0.01


class Sampler:
    """Takes samples of everything below the launcher."""

    def __init__(
        self,
        groups: Mapping[str, cgroups.ControlGroup],
        traffic: PeerTraffic | None,
        interval_s: float,
        reaped_before: resource.struct_rusage,
        cards: gpus.Gpus | None = None,
    ) -> None:
        """`reaped_before`: what children used that are not the member's (the name resolver)."""
        self._cpu_group = groups.get("cpu")
        self._traffic = traffic
        self._cards = cards
        self._cells = Cells(groups.get("memory"), time.monotonic())
        self._pids: list[int] = []
        self._least_interval_s = interval_s
        self.interval_s = interval_s
        self._base = reaped_before
        self._cpu_s = 0.0
        self._switches = [0, 0]
        self._threads = ThreadMeter()

    @property
    def device_error(self) -> str:
        """Why the driver of the member's cards does not answer any more, if it did before."""
        return self._cards.lost if self._cards is not None else ""

    def take(self) -> dict[str, Any]:
        began = time.process_time()
        sample = self._subtree() if procfs.SUPPORTED else self._reaped()
        throttled = cgroups.throttling(self._cpu_group) if self._cpu_group is not None else None
        sample["throttled_s"], sample["nr_throttled"], sample["nr_periods"] = throttled or (
            0.0,
            0,
            0,
        )
        sample["shm_used_bytes"], sample["shm_bytes"] = shared_memory()
        if self._cards is not None:
            sample["gpus"] = self._cards.measure()
            if self._cards.error:
                sample["gpu_error"] = self._cards.error
        sample["launcher_cpu_s"] = round(time.process_time(), 6)
        sample["interval_s"] = round(self.interval_s, 3)
        cost_s = time.process_time() - began
        self.interval_s = max(self._least_interval_s, cost_s / _SHARE)
        cells = self._cells.measure(self._pids, sample["rss_bytes"], time.monotonic())
        if cells is not None:
            sample["cells"] = cells
        return sample

    def _subtree(self) -> dict[str, Any]:
        # Parents are read before their children: one that is reaped in between is then missing
        # once, which the next sample makes good, rather than counted twice.
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = reaped.ru_utime - self._base.ru_utime + reaped.ru_stime - self._base.ru_stime
        ticks = pages = threads = 0
        pids: list[int] = []
        self._threads.begin()
        level = procfs.first_level(os.getpid())
        while level:
            below: list[int] = []
            for pid in level:
                fields = procfs.stat_fields(procfs.read("/proc/%d/stat" % pid))
                if len(fields) <= _RSS:
                    continue
                ticks += sum(map(int, fields[_UTIME : _CSTIME + 1]))
                if procfs.is_dead(fields):
                    continue
                pids.append(pid)
                pages += int(fields[_RSS])
                threads += int(fields[procfs.THREADS])
                below.extend(self._threads.visit(pid))
            level = below
        self._cpu_s = max(self._cpu_s, cpu_s + ticks * _TICK_S)
        peak_bytes = largest_ended(reaped)
        self._count_switches(self._threads.end(), reaped)
        self._threads.forget(pids)
        self._pids = pids
        sample: dict[str, Any] = {
            "cpu_s": round(self._cpu_s, 4),
            "ctx_vol": self._switches[0],
            "ctx_invol": self._switches[1],
            "rss_bytes": pages * _PAGE_BYTES,
            "threads": threads,
            "processes": len(pids),
            "wait_s": round(self._threads.waited_s(), 4),
            "last_cpus": self._threads.last_cpus(),
            "cpus": allowed_cpus(pids),
        }
        if peak_bytes is not None:
            sample["peak_rss_bytes"] = peak_bytes
        if self._traffic is not None:
            sample.update(self._traffic.measure(pids))
        else:
            sample.update({"rx_bytes": 0, "tx_bytes": 0, "peers": {}})
        return sample

    def _count_switches(self, seen: tuple[int, int], reaped: resource.struct_rusage) -> None:
        # Reaped processes leave exact totals, with the threads that came and went unseen.
        exact = (
            reaped.ru_nvcsw - self._base.ru_nvcsw,
            reaped.ru_nivcsw - self._base.ru_nivcsw,
        )
        for which in (0, 1):
            self._switches[which] = max(self._switches[which], seen[which], exact[which])

    def _reaped(self) -> dict[str, Any]:
        """Without /proc only what ended processes leave behind is known."""
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak_bytes = largest_ended(reaped)
        peak = {} if peak_bytes is None else {"peak_rss_bytes": peak_bytes}
        return {
            **peak,
            "cpu_s": round(reaped.ru_utime + reaped.ru_stime, 4),
            "ctx_vol": reaped.ru_nvcsw,
            "ctx_invol": reaped.ru_nivcsw,
            "rss_bytes": 0,
            "threads": 0,
            "processes": 0,
            "wait_s": 0.0,
            "last_cpus": {},
            "cpus": [],
            "rx_bytes": 0,
            "tx_bytes": 0,
            "peers": {},
        }


def largest_ended(reaped: resource.struct_rusage) -> int | None:
    """Bytes that the largest of the ended processes had in memory at once, as the kernel counted.

    The kernel counts for a child what its parent had at the fork, too: a program that stayed below
    the launcher's own size is not known.
    """
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return reaped.ru_maxrss * _MAXRSS_UNIT if reaped.ru_maxrss > own else None


def allowed_cpus(pids: list[int]) -> list[int]:
    """The CPUs that any of these processes may run on: a program can narrow what it was given."""
    allowed: set[int] = set()
    for pid in pids:
        try:
            allowed |= os.sched_getaffinity(pid)
        except (OSError, AttributeError):
            continue
    return sorted(allowed)


def shared_memory(path: str = "/dev/shm") -> tuple[int, int]:
    """(used, size) in bytes of what processes of one machine or container share memory through."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0, 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_blocks * found.f_frsize
