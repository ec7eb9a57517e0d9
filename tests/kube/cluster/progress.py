"""How far a compilation is, also one that goes on after an interruption."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Self

TERMINAL_PAUSE_S = 0.2
FILE_PAUSE_S = 20.0


class Progress:
    """One line that counts up on a terminal; a line every so often elsewhere.

    Go names only the packages that it compiles now; those of before are remembered in a file.
    """

    def __init__(self, total: int, remembered: Path) -> None:
        self._total = total
        self._done = set(remembered.read_text().split()) if remembered.exists() else set()
        self._file = remembered.open("a")
        self._started_s = self._said_s = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def step(self, line: str) -> bool:
        """Whether this line of `go build -v` names a package."""
        if not re.fullmatch(r"[\w./~-]+", line.strip()):
            return False
        self._done.add(line.strip())
        self._file.write(line)
        now_s = time.monotonic()
        if now_s - self._said_s >= (TERMINAL_PAUSE_S if self._terminal else FILE_PAUSE_S):
            self._said_s = now_s
            self._file.flush()
            self._show("\r" if self._terminal else "\n")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._show("\n")

    def _show(self, ending: str) -> None:
        elapsed_s = time.monotonic() - self._started_s
        text = f"compiled {len(self._done)} of {self._total} packages, {elapsed_s:.0f} s"
        print(f"kubernetes: {text}", end=ending, file=sys.stderr, flush=True)
