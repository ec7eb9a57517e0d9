"""Reading what a local process writes, seldom enough not to disturb its training.

The launcher runs on the CPUs that the training holds. Waking for every line would interrupt it at
every step that it reports; so a stream that was just read rests a while, unless it writes so much
that the pipe could fill up meanwhile and make the writer wait.
"""

from __future__ import annotations

import os
import time

from .logs import LineCutter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .loop import Loop

_REST_S = 0.1
# A pipe holds 64 KiB: at this rate a rest fills less than half of it.
_CALM_BYTES_PER_S = 256 * 1024


class OutputStream:
    """Standard output or error of one local process, handed over in whole lines."""

    def __init__(self, loop: Loop, fd: int, deliver: Callable[[list[bytes]], None]) -> None:
        self.closed = False
        #: The other stream of the same process.
        self.sibling: OutputStream | None = None
        self._loop = loop
        self._fd = fd
        self._lines = LineCutter(deliver)
        self._may_rest = True
        self._resting = False
        self._read_s = 0.0
        loop.watch(fd, self._readable)

    def hurry(self) -> None:
        """No rests from here on: the process has ended, and what it wrote last is waited for."""
        self._may_rest = False
        self._wake()

    def _wake(self) -> None:
        if self._resting:
            self._resting = False
            self._loop.watch(self._fd, self._readable)

    def _readable(self) -> None:
        # What the sibling wrote while it rested came before this: a traceback belongs after the
        # lines that led to it.
        if self.sibling is not None and self.sibling._resting:
            self.sibling._take()
        self._take()

    def _take(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        if not data:
            self._close()
            return
        self._lines.feed(data)
        now = time.monotonic()
        calm = len(data) < _CALM_BYTES_PER_S * (now - self._read_s)
        self._read_s = now
        if calm and self._may_rest and not self._resting:
            self._resting = True
            self._loop.watch(self._fd, None)
            self._loop.at(now + _REST_S, self._wake)

    def _close(self) -> None:
        self.closed = True
        self._resting = False
        self._loop.watch(self._fd, None)
        os.close(self._fd)
        self._lines.close()
