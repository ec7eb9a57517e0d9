"""What each thread of a process tells: its last CPU, its context switches, how long it waited
for a CPU, what it forked.

Most threads of a training process sleep in pools most of the time. One short file tells how often
a thread has been put on a CPU; if that did not change, nothing else about it did, and its longer
files need not be read. This makes the difference between a sample that shows and one that does not.
"""

from __future__ import annotations

from . import procfs

_VOLUNTARY = b"\nvoluntary_ctxt_switches:"
_INVOLUNTARY = b"\nnonvoluntary_ctxt_switches:"
# The position of the processor in stat_fields (field 39 of proc(5)).
_LAST_CPU = 36


class Thread:
    """One thread as it was when it last ran."""

    __slots__ = ("children", "cpu", "involuntary", "runs", "voluntary", "waited_ns")

    def __init__(self, runs: bytes) -> None:
        self.runs = runs
        self.cpu = ""
        self.voluntary = 0
        self.involuntary = 0
        self.waited_ns = 0
        self.children: list[int] = []


class ThreadMeter:
    """All threads of the subtree, remembered from one sample to the next."""

    def __init__(self) -> None:
        self._known: dict[int, Thread] = {}
        self._members: dict[int, set[int]] = {}
        self._gone = [0, 0]
        self._gone_waited_ns = 0
        self._seen: dict[int, Thread] = {}

    def begin(self) -> None:
        self._seen = {}

    def visit(self, pid: int) -> list[int]:
        """Reads the threads of one process; returns the processes that they forked."""
        tids = set(map(int, procfs.names("/proc/%d/task" % pid)))
        # A thread that ends hands its children to another, which need not run for that.
        afresh = not self._members.get(pid, tids) <= tids
        self._members[pid] = tids
        forked: list[int] = []
        for tid in tids:
            thread = self._read(pid, tid, afresh)
            if thread is not None:
                self._seen[tid] = thread
                forked.extend(thread.children)
        return forked

    def end(self) -> tuple[int, int]:
        """(voluntary, involuntary) switches of all threads seen so far, ended ones included."""
        for tid, thread in self._known.items():
            now = self._seen.get(tid)
            # A number that counts from anew is another thread.
            if now is None or now.voluntary < thread.voluntary:
                self._gone[0] += thread.voluntary
                self._gone[1] += thread.involuntary
                self._gone_waited_ns += thread.waited_ns
        self._known = self._seen
        seen = self._known.values()
        return (
            self._gone[0] + sum(thread.voluntary for thread in seen),
            self._gone[1] + sum(thread.involuntary for thread in seen),
        )

    def waited_s(self) -> float:
        """Seconds that threads were ready to run while no CPU took them, summed over threads."""
        waited_ns = sum(thread.waited_ns for thread in self._known.values())
        return (self._gone_waited_ns + waited_ns) / 1e9

    def last_cpus(self) -> dict[str, int]:
        """CPU -> how many threads ran there last."""
        count: dict[str, int] = {}
        for thread in self._known.values():
            count[thread.cpu] = count.get(thread.cpu, 0) + 1
        return count

    def forget(self, pids: list[int]) -> None:
        """Keeps only what belongs to the live processes `pids`."""
        self._members = {pid: self._members[pid] for pid in pids if pid in self._members}

    def _read(self, pid: int, tid: int, afresh: bool) -> Thread | None:
        folder = "/proc/%d/task/%d" % (pid, tid)
        # Nanoseconds on a CPU, nanoseconds ready and waiting for one, times put on one
        # (sched-stats.rst of the kernel). Read first, so that what changes while the rest is read
        # is read again the next time.
        times, _, runs = procfs.read(folder + "/schedstat").rpartition(b" ")
        known = self._known.get(tid)
        if known is not None and runs and known.runs == runs:
            # A thread that never leaves its CPU can still fork; the main thread does it most.
            if afresh or tid == pid:
                known.children = _children(folder)
            return known
        fields = procfs.stat_fields(procfs.read(folder + "/stat"))
        if len(fields) <= _LAST_CPU:
            return None
        thread = Thread(runs)
        thread.waited_ns = int(times.rpartition(b" ")[2] or 0)
        thread.cpu = fields[_LAST_CPU].decode("ascii")
        thread.children = _children(folder)
        status = procfs.read(folder + "/status")
        thread.voluntary = _count(status, _VOLUNTARY)
        thread.involuntary = _count(status, _INVOLUNTARY)
        return thread


def _children(folder: str) -> list[int]:
    return list(map(int, procfs.read(folder + "/children").split()))


def _count(status: bytes, name: bytes) -> int:
    at = status.rfind(name)
    return int(status[at + len(name) :].split(None, 1)[0]) if at >= 0 else 0
