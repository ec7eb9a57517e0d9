"""The supervising processes of jobs: starting them, and hearing of their end.

A supervisor may have been started by an earlier service, so it need not be our child: its end is
heard of through a descriptor of the process (pidfd) where the kernel has them, else by looking.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from mooring.backends.local.queue.documents import SupervisorName
from mooring.backends.local.queue.folders import JobFolder
from mooring.record.private import open_file
from mooring.record.process_mark import is_alive, mark_of

_MODULE = "mooring.supervise"
_LOOK_EVERY_S = 0.5


def start_supervisor(folder: JobFolder, admission: int) -> subprocess.Popen[bytes]:
    """In a session of its own, holding nothing of ours. Raises OSError."""
    with open_file(folder.log_file, append=True) as log:
        return subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(folder.root), str(admission)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )


@contextmanager
def no_supervisor(folder: JobFolder) -> Iterator[bool]:
    """Whether nobody supervises the job now; while this lasts nobody can begin to."""
    fd = os.open(folder.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


class ProcessWatch:
    """Tells when processes end, whoever started them. Lives in one event loop."""

    def __init__(self) -> None:
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._watched: dict[str, tuple[SupervisorName, int | None, Callable[[], None]]] = {}
        self._looking: asyncio.Task[None] | None = None

    def own(self, child: subprocess.Popen[bytes]) -> SupervisorName | None:
        """The name of a child, which is reaped when its end is told; None if it is gone already."""
        mark = mark_of(child.pid)
        self._children[child.pid] = child
        if not mark:
            self._reap(child.pid)
            return None
        return SupervisorName(pid=child.pid, mark=mark)

    def watch(self, key: str, name: SupervisorName, ended: Callable[[], None]) -> None:
        """Call `ended` once when the process is gone, at the earliest in the next turn."""
        self.forget(key)
        fd = _open(name)
        loop = asyncio.get_running_loop()
        self._watched[key] = (name, fd, ended)
        if fd is not None:
            loop.add_reader(fd, self._tell, key)
        if fd is None or not is_alive(name.pid, name.mark):
            # Opened too late: the number may be somebody else's by now.
            if not is_alive(name.pid, name.mark):
                loop.call_soon(self._tell, key)
            elif self._looking is None:
                self._looking = loop.create_task(self._look())

    def __contains__(self, key: object) -> bool:
        return key in self._watched

    def forget(self, key: str) -> None:
        _, fd, _ = self._watched.pop(key, (None, None, None))
        if fd is not None:
            with suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)

    def close(self) -> None:
        for key in list(self._watched):
            self.forget(key)
        if self._looking is not None:
            self._looking.cancel()

    def _tell(self, key: str) -> None:
        if key not in self._watched:
            return
        name, _, ended = self._watched[key]
        self._reap(name.pid)
        self.forget(key)
        ended()

    def _reap(self, pid: int) -> None:
        child = self._children.pop(pid, None)
        if child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=1)

    async def _look(self) -> None:
        """Where the kernel has no descriptors of processes."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            for pid in [pid for pid, child in self._children.items() if child.poll() is not None]:
                self._children.pop(pid)
            for key, (name, fd, _) in list(self._watched.items()):
                if fd is None and not is_alive(name.pid, name.mark):
                    self._tell(key)


def _open(name: SupervisorName) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(name.pid)
    except OSError:
        return None
