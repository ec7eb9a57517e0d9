"""The garbage collector of a process that keeps a large cluster in memory.

What a server says is read into trees of objects that nothing else refers to: they are freed when
the last reference goes, without the collector. It is woken by their number, though, and would then
look through all nodes and pods that are kept, over and over.
"""

from __future__ import annotations

import gc

#: Objects made and not yet freed before the collector looks at them (Python: 700), and how often
#: younger generations are looked at before the next older one.
_THRESHOLDS = (50_000, 10, 10)


def calm() -> None:
    """Collect seldom: cycles are made by tasks and errors, not by what is read."""
    gc.set_threshold(*_THRESHOLDS)


def settle() -> None:
    """Never look again at what is there now; called when the caches have been filled. What was
    settled before, of an earlier time as the leader, is looked at once more."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
