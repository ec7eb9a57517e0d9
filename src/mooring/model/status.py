"""What a run is doing: phases, member states, and how a run ended."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Of a job. The last three are final."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def final(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class MemberState(StrEnum):
    """Of one attempt of a member.

    `ended` is a member that Mooring told to end after the job's outcome was known; it is
    neither a success nor a failure of its own.
    """

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDED = "ended"

    @property
    def alive(self) -> bool:
        return self in (MemberState.STARTING, MemberState.RUNNING, MemberState.STOPPING)
