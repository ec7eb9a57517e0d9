"""Lines of the user's program: functions in C leave no frame, only the line that called them."""

from __future__ import annotations

import os
import re
import stat

_LARGEST_BYTES = 1 << 20
_MOST_FILES = 64
_MOST_CALLS = 4
_CALL = re.compile(r"(\.?[A-Za-z_][\w.]*)\s*\(")
_NOT_CALLS = frozenset(["if", "while", "for", "return", "and", "or", "not", "in", "print", "def"])


class SourceLines:
    """Of processes that see the same files."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def calls(self, folder: str, file: str, number: int) -> list[str]:
        """Names of functions that a line calls, as its text has them (`c.Allreduce`); `folder` is
        the program's."""
        path = os.path.join(folder, file)
        if path not in self._files:
            if len(self._files) >= _MOST_FILES:
                self._files.clear()
            self._files[path] = _read(path)
        lines = self._files[path]
        text = lines[number - 1] if 0 < number <= len(lines) else ""
        names = [name for name in _CALL.findall(text[:400]) if name not in _NOT_CALLS]
        return [name[:40] for name in names[:_MOST_CALLS]]


def _read(path: str) -> list[str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_BYTES:
            return []
        return os.read(fd, _LARGEST_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    finally:
        os.close(fd)
