"""What an open file of a process is: a connection to a member, a pipe, a file on which storage."""

from __future__ import annotations

import os

from . import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

PIPE, LOCAL, EVENT, DEVICE, OTHER = "pipe", "local", "event", "device", "other"
FILE, PEER = "file:", "peer:"
_MOST_NAMED = 4
_MOST_MOUNTS_BYTES = 1 << 20
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel")


class Files:
    """Names of what files are; `peers` (socket's inode -> member) is kept up to date by others."""

    def __init__(self) -> None:
        self.peers: Mapping[int, str] = {}
        self._mounts: dict[int, list[tuple[str, str]]] = {}

    def of(self, pid: int, numbers: list[int]) -> list[str]:
        """What a call that waits at these files waits for: members first, no more than a few."""
        kinds: dict[str, None] = {}
        for number in numbers:
            kind = self._kind(pid, number)
            if kind:
                kinds[kind] = None
        peers = sorted(kind for kind in kinds if kind.startswith(PEER))
        return peers[:_MOST_NAMED] or [kind for kind in kinds if kind != EVENT][:1]

    def _kind(self, pid: int, number: int) -> str:
        try:
            target = os.readlink("/proc/%d/fd/%d" % (pid, number))
        except OSError:
            return ""
        if target.startswith("socket:["):
            member = self.peers.get(int(target[8:-1]))
            return PEER + member if member is not None else LOCAL
        if target.startswith("pipe:["):
            return PIPE
        if target.startswith("anon_inode:"):
            return EVENT
        if target.startswith(_DEVICES):
            return DEVICE
        if target.startswith("/dev/"):
            return OTHER
        return FILE + self.file_system(pid, target) if target.startswith("/") else OTHER

    def file_system(self, pid: int, path: str) -> str:
        """The kind of file system that a path of the process is on."""
        if pid not in self._mounts:
            if len(self._mounts) > 64:
                self._mounts.clear()
            self._mounts[pid] = _mounts(pid)
        best, kind = -1, ""
        for point, name in self._mounts[pid]:
            inside = point == "/" or path == point or path.startswith(point + "/")
            if inside and len(point) >= best:
                best, kind = len(point), name
        return kind


def _mounts(pid: int) -> list[tuple[str, str]]:
    found = []
    data = procfs.read_long("/proc/%d/mountinfo" % pid, _MOST_MOUNTS_BYTES)
    for line in data.decode("utf-8", "replace").splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) > 4 and after.split():
            found.append((words[4].replace("\\040", " "), after.split()[0][:32]))
    return found
