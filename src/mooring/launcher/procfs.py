"""The processes below this one, as /proc shows them.

The launcher is the reaper of its whole subtree, so a process that lost its parent is found here
again as a child: nothing that it started escapes by daemonising.
"""

from __future__ import annotations

import os

# The position of the number of threads in stat_fields (field 20 of proc(5)).
THREADS = 17

SUPPORTED = os.path.isdir("/proc/self/task")
_HAS_CHILDREN = os.path.exists("/proc/self/task/%d/children" % os.getpid())


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


def read_long(path: str, most_bytes: int) -> bytes:
    """A file that the kernel gives in pieces of a page, however much is asked for at once."""
    try:
        with open(path, "rb", buffering=0) as file:
            parts, size = [file.read(65536)], 0
            while parts[-1] and size < most_bytes:
                size += len(parts[-1])
                parts.append(file.read(65536))
            return b"".join(parts)
    except OSError:
        return b""


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
    if not _HAS_CHILDREN:
        return _descendants_by_scan(pid)
    found: list[int] = []
    level = children(pid)
    while level:
        found.extend(level)
        level = [child for parent in level for child in children(parent)]
    return found


def first_level(pid: int) -> list[int]:
    """The children, from where a walk finds the rest by itself; all at once where it cannot."""
    return children(pid) if _HAS_CHILDREN else _descendants_by_scan(pid)


def is_dead(fields: list[bytes]) -> bool:
    """By its stat_fields. A main thread that ended before the others looks like a zombie too."""
    return len(fields) <= THREADS or (fields[0] in (b"Z", b"X") and int(fields[THREADS]) <= 1)


def is_zombie(pid: int) -> bool:
    return is_dead(stat_fields(read("/proc/%d/stat" % pid)))


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
