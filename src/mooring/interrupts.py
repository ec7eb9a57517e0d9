"""Signals as data: caught by a handler that only notes them, taken by the loop when it is ready."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopSignals:
    """Ctrl-C, SIGTERM and SIGHUP become requests to stop, for as long as a run lasts.

    The handlers stay while a run cleans up, so that a further Ctrl-C cannot cut that off. Where
    SIGHUP is ignored (`nohup`), it stays ignored: that run is to outlive its terminal.
    """

    _WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._caught: list[int] = []
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> StopSignals:
        # Python delivers signals to the main thread only; elsewhere the caller keeps its own.
        if threading.current_thread() is threading.main_thread():
            ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            watched = [each for each in self._WATCHED if not (ignored and each is signal.SIGHUP)]
            self._before = {each: signal.signal(each, self._catch) for each in watched}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            # None: set by other than Python code, which cannot be put back.
            signal.signal(each, signal.SIG_DFL if handler is None else handler)

    def take(self) -> list[str]:
        taken, self._reasons = self._reasons, []
        return taken

    @property
    def caught(self) -> tuple[int, ...]:
        return tuple(self._caught)

    def _catch(self, signum: int, frame: FrameType | None) -> None:
        self._caught.append(signum)
        name = signal.Signals(signum).name
        self._reasons.append("interrupted" if name == "SIGINT" else f"asked to stop ({name})")
