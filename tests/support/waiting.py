"""Waiting for a condition of the real world, with a deadline instead of a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, deadline_s: float = 20.0) -> T:
    """The condition's first truthy value; fails with `what` was waited for."""
    give_up = time.monotonic() + deadline_s
    pause_s = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {deadline_s:g} s in vain: {what}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)
