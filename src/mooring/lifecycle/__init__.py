"""The life of one job as a pure state machine: events in, instructions out.

It touches neither clock nor processes: whoever drives it passes the time along and carries the
instructions out. So tests can walk it by hand, and every runtime lives by the same rules.
"""

from mooring.lifecycle.events import (
    Event,
    Finish,
    Instruction,
    MemberExited,
    MemberReady,
    MemberRunning,
    OpenGate,
    Placed,
    Resized,
    Stalled,
    StartFailed,
    StartMembers,
    StopMembers,
    StopRequested,
    Tick,
)
from mooring.lifecycle.machine import begin, handle, next_wakeup_s
from mooring.lifecycle.state import Backoff, JobOutcome, JobState, MemberStatus, Policy

__all__ = [
    "Backoff",
    "Event",
    "Finish",
    "Instruction",
    "JobOutcome",
    "JobState",
    "MemberExited",
    "MemberReady",
    "MemberRunning",
    "MemberStatus",
    "OpenGate",
    "Placed",
    "Policy",
    "Resized",
    "Stalled",
    "StartFailed",
    "StartMembers",
    "StopMembers",
    "StopRequested",
    "Tick",
    "begin",
    "handle",
    "next_wakeup_s",
]
