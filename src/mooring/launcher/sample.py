"""One measurement of the whole subtree: CPU time, context switches, memory, threads, placement.

Totals never go back although processes and threads end. CPU time that a reaped process used is
found again in its parent's counters, and at the top in the launcher's own. Context switches are
counted by thread and known nowhere else, so the last value of a thread that vanished is kept.
"""

from __future__ import annotations

import os
import resource
import time

from . import cgroups, procfs
from .sockets import Traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_VOLUNTARY = b"\nvoluntary_ctxt_switches:"
_INVOLUNTARY = b"\nnonvoluntary_ctxt_switches:"
# Positions in stat_fields, which starts at field 3 of proc(5).
_UTIME, _STIME, _CUTIME, _CSTIME, _THREADS, _RSS, _LAST_CPU = 11, 12, 13, 14, 17, 21, 36

# Sampling may use this part of one CPU; beyond it the interval is stretched.
_SHARE = 0.01


class Sampler:
    """Takes samples of everything below the launcher."""

    def __init__(
        self,
        groups: Mapping[str, cgroups.Group],
        traffic: Traffic | None,
        interval_s: float,
        reaped_before: resource.struct_rusage,
    ) -> None:
        """`reaped_before`: what children used that are not the member's (the name resolver)."""
        self._cpu_group = groups.get("cpu")
        self._traffic = traffic
        self._least_interval_s = interval_s
        self.interval_s = interval_s
        self._base = reaped_before
        self._cpu_s = 0.0
        self._switches: dict[int, tuple[int, int]] = {}
        self._gone = [0, 0]
        self._total = [0, 0]

    def take(self) -> dict[str, Any]:
        began = time.process_time()
        sample = self._subtree() if procfs.SUPPORTED else self._reaped()
        throttled = cgroups.throttling(self._cpu_group) if self._cpu_group is not None else None
        sample["throttled_s"], sample["nr_throttled"] = throttled or (0.0, 0)
        sample["launcher_cpu_s"] = round(time.process_time(), 6)
        sample["interval_s"] = round(self.interval_s, 3)
        cost_s = time.process_time() - began
        self.interval_s = max(self._least_interval_s, cost_s / _SHARE)
        return sample

    def _subtree(self) -> dict[str, Any]:
        # Parents are read before their children: one that is reaped in between is then missing
        # once, which the next sample makes good, rather than counted twice.
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = reaped.ru_utime - self._base.ru_utime + reaped.ru_stime - self._base.ru_stime
        ticks = pages = threads = 0
        last_cpus: dict[str, int] = {}
        switches: dict[int, tuple[int, int]] = {}
        pids: list[int] = []
        level = procfs.children(os.getpid())
        while level:
            below: list[int] = []
            for pid in level:
                fields = procfs.stat_fields(procfs.read("/proc/%d/stat" % pid))
                if len(fields) <= _LAST_CPU:
                    continue
                ticks += sum(map(int, fields[_UTIME : _CSTIME + 1]))
                if fields[0] in (b"Z", b"X"):
                    continue
                pids.append(pid)
                pages += int(fields[_RSS])
                threads += int(fields[_THREADS])
                _threads(pid, last_cpus, switches, below)
            level = below
        if not procfs.HAS_CHILDREN:
            pids = procfs.descendants(os.getpid())
        self._cpu_s = max(self._cpu_s, cpu_s + ticks * _TICK_S)
        self._count_switches(switches, reaped)
        sample: dict[str, Any] = {
            "cpu_s": round(self._cpu_s, 4),
            "ctx_vol": self._total[0],
            "ctx_invol": self._total[1],
            "rss_bytes": pages * _PAGE_BYTES,
            "threads": threads,
            "processes": len(pids),
            "last_cpus": last_cpus,
        }
        if self._traffic is not None:
            sample.update(self._traffic.measure(pids))
        else:
            sample.update({"rx_bytes": 0, "tx_bytes": 0, "peers": {}})
        return sample

    def _count_switches(
        self, switches: dict[int, tuple[int, int]], reaped: resource.struct_rusage
    ) -> None:
        for tid, (voluntary, involuntary) in self._switches.items():
            # A thread number that counts from anew is another thread.
            if tid not in switches or switches[tid][0] < voluntary:
                self._gone[0] += voluntary
                self._gone[1] += involuntary
        self._switches = switches
        # Reaped processes leave exact totals, with the threads that came and went unseen.
        exact = (
            reaped.ru_nvcsw - self._base.ru_nvcsw,
            reaped.ru_nivcsw - self._base.ru_nivcsw,
        )
        for which in (0, 1):
            seen = self._gone[which] + sum(pair[which] for pair in switches.values())
            self._total[which] = max(self._total[which], seen, exact[which])

    def _reaped(self) -> dict[str, Any]:
        """Without /proc only what ended processes leave behind is known."""
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "cpu_s": round(reaped.ru_utime + reaped.ru_stime, 4),
            "ctx_vol": reaped.ru_nvcsw,
            "ctx_invol": reaped.ru_nivcsw,
            "rss_bytes": 0,
            "threads": 0,
            "processes": 0,
            "last_cpus": {},
            "rx_bytes": 0,
            "tx_bytes": 0,
            "peers": {},
        }


def _threads(
    pid: int,
    last_cpus: dict[str, int],
    switches: dict[int, tuple[int, int]],
    below: list[int],
) -> None:
    """Adds what each thread of `pid` tells: its last CPU, its switches, the processes it forked."""
    read = procfs.read
    for tid in procfs.names("/proc/%d/task" % pid):
        folder = "/proc/%d/task/%s" % (pid, tid)
        fields = procfs.stat_fields(read(folder + "/stat"))
        if len(fields) <= _LAST_CPU:
            continue
        cpu = fields[_LAST_CPU].decode("ascii")
        last_cpus[cpu] = last_cpus.get(cpu, 0) + 1
        below.extend(map(int, read(folder + "/children").split()))
        status = read(folder + "/status")
        at = status.rfind(_VOLUNTARY)
        if at >= 0:
            counts = status[at + len(_VOLUNTARY) :].split(None, 1)
            rest = status.rfind(_INVOLUNTARY)
            involuntary = status[rest + len(_INVOLUNTARY) :].split(None, 1)
            switches[int(tid)] = (int(counts[0]), int(involuntary[0]))
