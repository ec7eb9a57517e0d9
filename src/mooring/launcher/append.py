"""Appending whole lines to a file on a disk that may be full.

A line that only partly fitted is closed off before the next one, so that the two never read as
one; also where another launcher, of an earlier attempt, left it.
"""

from __future__ import annotations

import os

#: A few blocks of any file system; a disk that is nearly full is left to what is written now.
SPARE_BYTES = 16 * 1024
_ROOM_FOR_SPARE_BYTES = 16 * SPARE_BYTES


class AppendFile:
    """Takes data that ends with a newline, each piece in one write(2) where the disk allows."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._torn = os.fstat(self._fd).st_size > 0 and _ends_torn(path)

    def append(self, data: bytes) -> tuple[int, str]:
        """How many bytes of `data` were written, and why not the rest ('' = all were)."""
        closing = b"\n" if self._torn else b""
        rest = closing + data
        done = -len(closing)
        try:
            while rest:
                size = os.write(self._fd, rest)
                self._torn = rest[size - 1 : size] != b"\n"
                rest = rest[size:]
                done += size
        except OSError as error:
            return max(0, done), error.strerror or "write error"
        return done, ""


class Spare:
    """Room on the disk that is kept for a last word; without it, where the disk is already full."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            disk = os.statvfs(os.path.dirname(path) or ".")
            if disk.f_bavail * disk.f_frsize < _ROOM_FOR_SPARE_BYTES:
                return
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, bytes(SPARE_BYTES))
            finally:
                os.close(fd)
        except OSError:
            pass

    def give(self) -> None:
        """The room is free from here on: take it at once."""
        try:
            os.unlink(self._path)
        except OSError:
            pass


def _ends_torn(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False
