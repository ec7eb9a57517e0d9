"""Waiting for a condition of the real world, with a deadline instead of a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, deadline_s: float = 20.0) -> T:
    """The condition's first truthy value; fails with `what` was waited for.

    Looks again after a tenth of the time waited so far, and after as long as it takes to look: what
    is waited for needs the CPUs, too.
    """
    begun_s = time.monotonic()
    while True:
        looked_s = time.monotonic()
        value = condition()
        if value:
            return value
        now_s = time.monotonic()
        if now_s - begun_s > deadline_s:
            raise AssertionError(f"waited {deadline_s:g} s in vain: {what}")
        time.sleep(max(0.002, now_s - looked_s, min(0.1 * (now_s - begun_s), 0.2)))
