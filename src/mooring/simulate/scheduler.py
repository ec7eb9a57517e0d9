"""What the simulator needs of a scheduler, and nothing about how it decides.

The scheduler holds the queue and the cluster and carries its own decisions out on them; the
simulator learns what has changed and moves the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mooring.model.plan import Plan
from mooring.simulate.workload import WorkloadJob


@dataclass(frozen=True, slots=True)
class Started:
    """The job holds the plan's slots from now on."""

    job: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Preempted:
    """The job has lost all its slots and is back in the queue."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlanResized:
    """An elastic job holds this plan's slots instead of those that it held."""

    job: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Moved:
    """A group of nodes belongs to pool `target` from now on. Jobs stay where they are."""

    group: str
    source: str
    target: str
    reason: str


Change = Started | Preempted | PlanResized | Moved


class SimulatedScheduler(Protocol):
    def arrive(self, job: WorkloadJob, now_s: float) -> None:
        """The job has joined the queue."""
        ...

    def end(self, job: str, now_s: float) -> None:
        """A running job has ended; what it held is free."""
        ...

    def decide(self, now_s: float) -> Sequence[Change]:
        """What changes now, in the order in which it happens."""
        ...

    def wakes_s(self, now_s: float) -> float | None:
        """When to ask it again although nothing happens and nobody waits.

        None: whoever runs is no reason to ask it at all.
        """
        ...

    def waiting(self) -> Mapping[str, str]:
        """The jobs that wait, each with the sentence that says for what."""
        ...
