"""Lines of users' programs: functions in C leave no frame, only the line that called them."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mooring.stacks.classify import Frame, Stack

_LARGEST_BYTES = 4 << 20


@dataclass
class ProgramSources:
    """`folder`: what a program's relative names are relative to."""

    folder: str
    _files: dict[str, list[str]] = field(default_factory=dict)

    def line(self, file: str, number: int) -> str:
        """Empty where there is no such line, or no such file any more."""
        if file not in self._files:
            self._files[file] = self._read(Path(self.folder) / file)
        lines = self._files[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _read(self, path: Path) -> list[str]:
        with suppress(OSError):
            found = path.stat()
            if stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST_BYTES:
                return path.read_text(encoding="utf-8", errors="replace").splitlines()
        return []


def with_text(stack: Stack, source: Callable[[str, int], str]) -> Stack:
    """Only the innermost line is asked for: those above it are calls that have a frame."""
    last = stack[-1]
    if not last.own:
        return stack
    return (*stack[:-1], Frame(last.function, last.file, last.line, source(last.file, last.line)))
