"""The processes below this one, as /proc shows them.

The launcher is the reaper of its whole subtree, so a process that lost its parent is found here
again as a child: nothing that it started escapes by daemonising.
"""

from __future__ import annotations

import os

SUPPORTED = os.path.isdir("/proc/self/task")
HAS_CHILDREN = os.path.exists("/proc/self/task/%d/children" % os.getpid())


def read(path: str) -> bytes:
    """A whole small file of /proc, or nothing if it (or its process) is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = os.read(fd, 8192)
        if len(data) < 8192:
            return data
        parts = [data]
        while parts[-1]:
            parts.append(os.read(fd, 65536))
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)


def names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def stat_fields(data: bytes) -> list[bytes]:
    """The fields of a `stat` file from the third (state) on: the second may hold any character."""
    return data[data.rfind(b")") + 2 :].split()


def children(pid: int) -> list[int]:
    found: list[int] = []
    for tid in names("/proc/%d/task" % pid):
        found.extend(map(int, read("/proc/%d/task/%s/children" % (pid, tid)).split()))
    return found


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents before their children; zombies included."""
    if not HAS_CHILDREN:
        return _descendants_by_scan(pid)
    found: list[int] = []
    level = children(pid)
    while level:
        found.extend(level)
        level = [child for parent in level for child in children(parent)]
    return found


def is_zombie(pid: int) -> bool:
    fields = stat_fields(read("/proc/%d/stat" % pid))
    return not fields or fields[0] in (b"Z", b"X")


def _descendants_by_scan(pid: int) -> list[int]:
    """For kernels built without the `children` files: the whole process table, by parent."""
    below: dict[int, list[int]] = {}
    for name in names("/proc"):
        if name.isdigit():
            fields = stat_fields(read("/proc/%s/stat" % name))
            if len(fields) > 1:
                below.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    level = below.get(pid, [])
    while level:
        found.extend(level)
        level = [child for parent in level for child in below.get(parent, [])]
    return found
