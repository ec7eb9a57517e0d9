"""Who is before whom: priority, and the time spent waiting.

Everybody gains points at the same rate, so the order of two gangs never changes while they wait:
a gang of priority p that arrives at t is overtaken only by gangs that arrive before
t + (their priority - p) / rate. Therefore nobody waits behind newcomers for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mooring.brain.queue.types import QueuedGang, QueuePolicy, RunningGang

#: Named priorities. At the usual rate of one point a minute a step of 60 is an hour of waiting.
CLASSES: Mapping[str, int] = MappingProxyType({"low": -60, "normal": 0, "high": 60, "urgent": 600})

Key = tuple[float, float, str]


def key(queued: QueuedGang, policy: QueuePolicy) -> Key:
    """Smaller is earlier. Ties: who arrived first, then by name."""
    turn = policy.ageing_per_s * queued.arrived_s - queued.priority
    return turn, queued.arrived_s, queued.job


def effective(queued: QueuedGang, policy: QueuePolicy, now_s: float) -> float:
    return queued.priority + policy.ageing_per_s * max(0.0, now_s - queued.arrived_s)


def standing(running: RunningGang, policy: QueuePolicy) -> float:
    """What a preemptor's own priority must exceed: all that it had reached when it started.

    A preemptor counts without its age. So whoever was preempted cannot preempt in turn, and a
    gang that has waited long enough is safe from every priority once it runs.
    """
    return effective(running.queued, policy, running.started_s)
