"""Locks between the runs of one user: numbered places in one file, freed by the kernel.

A numbered place is one byte of the file under an open-file-description lock, so that two runs
in one process exclude each other too, nothing is left on disk, and a killed holder lets go.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NumberedLocks:
    """Holds any of the numbers 0..2^31 of one lock file until released."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.held: set[int] = set()

    def take(self, number: int) -> bool:
        if number in self.held or not _lock(self._fd, number):
            return False
        self.held.add(number)
        return True

    def release(self, number: int) -> None:
        if number in self.held:
            _unlock(self._fd, number)
            self.held.discard(number)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self.held.clear()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """One holder at a time, others wait: for the moment between looking and taking.

    The file's time tells when somebody last let go of it: what was taken can be seen from then on.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.utime(fd)
    finally:
        os.close(fd)


if hasattr(fcntl, "F_OFD_SETLK"):

    def _lock(fd: int, number: int) -> bool:
        return _set(fd, fcntl.F_WRLCK, number)

    def _unlock(fd: int, number: int) -> None:
        _set(fd, fcntl.F_UNLCK, number)

    def _set(fd: int, kind: int, number: int) -> bool:
        # struct flock on Linux: l_type, l_whence, l_start, l_len, l_pid (0 for OFD locks)
        request = struct.pack("hhqqi", kind, os.SEEK_SET, number, 1, 0)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
        except OSError:
            return False
        return True

else:

    def _lock(fd: int, number: int) -> bool:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            return False
        return True

    def _unlock(fd: int, number: int) -> None:
        fcntl.lockf(fd, fcntl.LOCK_UN, 1, number)
