"""How an attempt ended: one exit code, a cause and a sentence, out of those of its local processes.

The fields are those of the journal's last record (`Exit` of `mooring.wire`).
"""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TERMINATED = 128 + signal.SIGTERM
KILLED = 128 + signal.SIGKILL
SUPERVISOR_GONE = "supervisor-gone"


def done() -> dict[str, Any]:
    return {"code": 0, "cause": "done", "reason": ""}


def stopped(by: str, codes: list[int], killed: bool) -> dict[str, Any]:
    """`by`: the name of a signal, or SUPERVISOR_GONE; `killed`: after the grace period.

    A process that was asked to stop may end with a code of its own; ours is not its failure.
    """
    reason = "stopped: %s" % _who(by)
    if killed:
        reason += "; killed after the grace period"
    own = [code for code in codes if code not in (0, TERMINATED, KILLED)]
    code = own[0] if own else (TERMINATED if any(codes) else 0)
    return {
        "code": code,
        "cause": "stopped",
        "stopped_by": by,
        "killed": killed,
        "reason": reason,
    }


def not_started(by: str) -> dict[str, Any]:
    """It was stopped before its processes were started."""
    reason = "stopped before it started: %s" % _who(by)
    return {"code": TERMINATED, "cause": "stopped", "stopped_by": by, "reason": reason}


def out_of_memory(
    code: int, rank: int, alone: bool, limit_bytes: int | None, peak_bytes: int | None
) -> dict[str, Any]:
    """`alone`: the member has one process; `peak_bytes`: what its largest one had."""
    what = "over its memory limit"
    if limit_bytes is not None:
        what += " of " + size(limit_bytes)
    if peak_bytes is not None:
        what += " (its largest process had %s)" % size(peak_bytes)
    return {
        "code": code,
        "cause": "out-of-memory",
        "rank": rank,
        "memory_limit_bytes": limit_bytes,
        "peak_bytes": peak_bytes,
        "reason": what if alone else "local rank %d: %s" % (rank, what),
    }


def failed(code: int, rank: int, alone: bool, device_error: str) -> dict[str, Any]:
    """`device_error`: why the driver of its cards no longer answers, if so."""
    cause = "killed" if code in (TERMINATED, KILLED) else "failed"
    reason = "" if alone else "local rank %d failed" % rank
    if device_error:
        cause = "device-lost"
        reason = (reason + "; " if reason else "") + "its cards do not answer: " + device_error
    return {"code": code, "cause": cause, "rank": rank, "reason": reason}


def _who(by: str) -> str:
    return "its supervisor is gone" if by == SUPERVISOR_GONE else by


def size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return "%.4g %s" % (count / float(unit), name)
    return "%d bytes" % count
