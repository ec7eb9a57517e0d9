"""How an attempt ended: one exit code and one sentence out of those of its local processes."""

from __future__ import annotations

import signal

TERMINATED = 128 + signal.SIGTERM
KILLED = 128 + signal.SIGKILL


def stopped(why: str, codes: list[int], killed: bool) -> tuple[int, str]:
    """A process that was asked to stop may end with a code of its own; ours is not its failure."""
    reason = "stopped: %s" % why
    if killed:
        reason += "; killed after the grace period"
    for code in codes:
        if code not in (0, TERMINATED, KILLED):
            return code, reason
    return (TERMINATED if any(codes) else 0), reason


def failed(
    rank: int | None, over_memory: bool, limit_bytes: int | None, peak_bytes: int | None = None
) -> str:
    """What the exit code does not say by itself.

    `rank` is None where the member has one process and needs no telling apart. `peak_bytes` is what
    its largest process had when it was killed.
    """
    if over_memory:
        limit = "" if limit_bytes is None else " of " + size(limit_bytes)
        what = "over its memory limit" + limit
        if peak_bytes is not None:
            what += " (its largest process had %s)" % size(peak_bytes)
        return what if rank is None else "local rank %d: %s" % (rank, what)
    return "" if rank is None else "local rank %d failed" % rank


def size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return "%.4g %s" % (count / float(unit), name)
    return "%d bytes" % count
