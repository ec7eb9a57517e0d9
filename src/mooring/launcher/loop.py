"""The launcher's one loop: readable files, timers and signals, all on one thread.

One thread is what makes fork safe here, and the parent-death signal of the children exact: the
kernel ties that signal to the thread that forked.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


_READ = select.POLLIN | select.POLLHUP | select.POLLERR
_WRITE = select.POLLOUT


class Loop:
    """Calls back what became due; `turn` is one round of it."""

    def __init__(self) -> None:
        # Unlike epoll, poll takes any file: stdin may be one.
        self._poll = select.poll()
        self._calls: dict[int, tuple[Callable[[], None] | None, Callable[[], None] | None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._on_signal: dict[int, Callable[[int], None]] = {}
        self._wakeup, write_end = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        self.watch(self._wakeup, self._signals_arrived)

    def watch(
        self,
        fd: int,
        on_read: Callable[[], None] | None,
        on_write: Callable[[], None] | None = None,
    ) -> None:
        """Calls back while `fd` is ready, in place of what was set before; neither = forgotten."""
        if on_read is None and on_write is None:
            if self._calls.pop(fd, None) is not None:
                self._poll.unregister(fd)
            return
        self._calls[fd] = (on_read, on_write)
        self._poll.register(fd, (_READ if on_read else 0) | (_WRITE if on_write else 0))

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Calls once when the monotonic clock has reached `when`."""
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, call))

    def on_signal(self, number: int, call: Callable[[int], None]) -> None:
        self._on_signal[number] = call
        signal.signal(number, _ignore)

    def turn(self, until: float | None = None) -> None:
        """Waits for the next event, timer or `until`, and calls back everything that is due."""
        if self._timers and (until is None or self._timers[0][0] < until):
            until = self._timers[0][0]
        # Rounded up: waking a little early would spin until the timer is due.
        wait_ms = None if until is None else max(0, int((until - time.monotonic()) * 1000) + 1)
        for fd, events in self._poll.poll(wait_ms):
            if events & ~_WRITE:
                self._call(fd, 0)
            if events & ~_READ:
                self._call(fd, 1)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def _call(self, fd: int, which: int) -> None:
        # An earlier callback of this round may have let go of the file.
        call = self._calls.get(fd, (None, None))[which]
        if call is not None:
            call()

    def _signals_arrived(self) -> None:
        try:
            numbers = os.read(self._wakeup, 512)
        except BlockingIOError:
            return
        for number in dict.fromkeys(numbers):
            call = self._on_signal.get(number)
            if call is not None:
                call(number)


def _ignore(number: int, frame: Any) -> None:
    """The wake-up file tells the loop; a handler must merely exist for it to be written."""
