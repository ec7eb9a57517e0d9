"""On which NUMA cells the memory of the member's processes is.

A page stays on the cell of the thread that touched it first, and a process that is moved, or whose
loader ran elsewhere, leaves its data behind: every access then crosses the socket. Only anonymous
and shared memory counts; pages of files belong to whoever read the file first.

The kernel answers by walking page tables (some 13 ms for each GiB of small pages, with the
process's memory map locked against changes), so it is asked rarely, and large processes only where
their control group has counted already.
"""

from __future__ import annotations

import os
import time

from . import cgroups, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

_ONLINE = "/sys/devices/system/node/online"
# After the first sample, early enough for a probe; each further pause is twice as long, up to the
# last.
_FIRST_S, _LAST_S = 1.0, 60.0
# Looking may use this part of one CPU, beside the other figures of a sample.
_SHARE = 0.002
# Some 200 ms of walking, in which no output of the member is read.
_MOST_BYTES = 16 << 30
# Mapped as files, and memory nevertheless (shmem, memfd, System V, huge pages).
_SHARED = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage", "/dev/hugepages/")


class Cells:
    """Looks now and then; `online` is which cells the machine has."""

    def __init__(
        self, group: cgroups.ControlGroup | None, began_s: float, online: str = _ONLINE
    ) -> None:
        self._group = group
        self._pause_s = _FIRST_S
        self._due_s = began_s + _FIRST_S
        try:
            with open(online, encoding="ascii") as file:
                self._several = len(cgroups.parse_list(file.read())) > 1
        except (OSError, ValueError):
            self._several = False

    def measure(self, pids: list[int], resident_bytes: int, now_s: float) -> dict[str, int] | None:
        """Cell -> bytes; None when it is not yet time, or there is but one cell."""
        if not self._several or not pids or now_s < self._due_s:
            return None
        began_s = time.process_time()
        found = own_group(self._group, pids)
        if found is None and resident_bytes <= _MOST_BYTES:
            found = of_processes(pids)
        cost_s = time.process_time() - began_s
        self._due_s = now_s + max(self._pause_s, cost_s / _SHARE)
        self._pause_s = min(_LAST_S, 2 * self._pause_s)
        return found


def of_processes(pids: Iterable[int], proc: str = "/proc") -> dict[str, int]:
    """Memory that several processes share counts once for each."""
    total: dict[str, int] = {}
    for pid in pids:
        for cell, amount in parse_maps(procfs.read("%s/%d/numa_maps" % (proc, pid))).items():
            total[cell] = total.get(cell, 0) + amount
    return total


def parse_maps(data: bytes) -> dict[str, int]:
    """Cell -> bytes of a numa_maps file (proc(5)): `N0=12` pages of `kernelpagesize_kB`."""
    total: dict[str, int] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        pages: dict[str, int] = {}
        size, counts = 0, True
        for word in line.split()[2:]:
            key, _, value = word.partition("=")
            if key == "file":
                counts = value.startswith(_SHARED)
            elif key == "kernelpagesize_kB" and value.isdigit():
                size = int(value) << 10
            elif key[:1] == "N" and key[1:].isdigit() and value.isdigit():
                pages[key[1:]] = int(value)
        if counts:
            for cell, amount in pages.items():
                total[cell] = total.get(cell, 0) + amount * size
    return total


def own_group(group: cgroups.ControlGroup | None, pids: Iterable[int]) -> dict[str, int] | None:
    """What the control group (version 2) has counted, if nobody else is in it."""
    if group is None or group.version != 2:
        return None
    try:
        with open(group.path + "/cgroup.procs", "rb") as file:
            inside = {int(word) for word in file.read().split()}
        # Processes of other groups would be missing, those of strangers counted.
        if inside - {os.getpid()} != set(pids):
            return None
        with open(group.path + "/memory.numa_stat", encoding="ascii") as file:
            return parse_stat(file.read())
    except (OSError, ValueError):
        return None


def parse_stat(text: str) -> dict[str, int] | None:
    """Cell -> bytes of a memory.numa_stat file: `anon N0=4096 N1=0`."""
    total: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name in ("anon", "shmem"):
            for word in rest.split():
                cell, _, value = word.partition("=")
                if cell[:1] == "N" and value.isdigit():
                    total[cell[1:]] = total.get(cell[1:], 0) + int(value)
    return total or None
