"""What a trainer and its helpers read: bytes and calls, and the file systems of what is open.

From /proc. `rchar` counts every read(2), from pipes and sockets too; `read_bytes` only what came
from a disk (or a network file system), not from the page cache. Names of data files are counted,
not kept.
"""

from __future__ import annotations

import os

from . import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .waited_files import Files

#: Files that programs consist of, and what is no storage.
_NOT_DATA = ("/dev/", "/proc/", "/sys/", "/usr/", "/memfd:", "/run/")
_CODE = (".so", ".py", ".pyc", ".pyz", ".jsonl", ".log")
_MOST_NAMES, _MOST_OPEN = 1000, 256
_WANTED = (b"rchar:", b"syscr:", b"read_bytes:")


class FileReads:
    """Since it was made; counts are differences from the first look at each process."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._first: dict[int, list[float]] = {}
        self._last: dict[int, list[float]] = {}
        self._names: set[str] = set()
        self._kinds: dict[str, int] = {}
        self._turn = 0

    def count(self, pids: list[int]) -> None:
        """`pids`: the trainer, then its helpers. Who has gone keeps what was last seen of it."""
        for pid in pids:
            counts = _counts(pid)
            if counts:
                self._first.setdefault(pid, counts)
                self._last[pid] = counts

    def glance(self, pids: list[int]) -> None:
        """At the open files of one of them in turn: a small file is open for a moment."""
        if not pids:
            return
        self._turn = (self._turn + 1) % len(pids)
        pid = pids[self._turn]
        folder = "/proc/%d/fd/" % pid
        for name in procfs.names(folder)[:_MOST_OPEN]:
            try:
                path = os.readlink(folder + name)
            except OSError:
                continue
            data = path.startswith("/") and not path.startswith(_NOT_DATA)
            new = path not in self._names and len(self._names) < _MOST_NAMES
            if data and new and not path.endswith(_CODE):
                self._names.add(path)
                kind = self._files.file_system(pid, path)
                self._kinds[kind] = self._kinds.get(kind, 0) + 1

    def document(self, trainer: int) -> dict[str, Any]:
        sums = [0.0, 0.0, 0.0, 0.0]
        for pid, last in self._last.items():
            grown = [max(0.0, b - a) for a, b in zip(self._first[pid], last)]
            for place in range(3):
                sums[place] += grown[place]
            if pid != trainer:
                sums[3] += grown[3]
        return {
            "asked_bytes": int(sums[0]),
            "calls": int(sums[1]),
            "fetched_bytes": int(sums[2]),
            "helper_cpu_s": round(sums[3], 2),
            "files": len(self._names),
            "kinds": self._kinds,
        }


def _counts(pid: int) -> list[float]:
    """Bytes asked for, calls, bytes fetched, and the CPU time that its main thread used or waited
    for; empty where it may not be read."""
    values = {}
    for line in procfs.read("/proc/%d/io" % pid).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in _WANTED:
            values[words[0]] = float(words[1])
    clock = procfs.read("/proc/%d/task/%d/schedstat" % (pid, pid)).split()
    if len(values) < len(_WANTED) or len(clock) < 2:
        return []
    return [*(values[name] for name in _WANTED), (int(clock[0]) + int(clock[1])) / 1e9]
