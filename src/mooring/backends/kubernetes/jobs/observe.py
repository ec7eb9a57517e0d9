"""From the pods of a job to the events that its lifecycle has not been told of.

Events are made by comparing what is with what the state says, so it does not matter how many
changes were missed in between, or whether they are seen twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.backends.kubernetes.objects.pods import ContainerView, PodView
from mooring.lifecycle import Event, JobState, MemberExited, MemberReady, MemberRunning
from mooring.lifecycle.state import MemberStatus
from mooring.model.member import MemberId
from mooring.model.status import MemberState, Phase

#: As a shell sees a process that was killed: what we say of a pod that vanished.
_KILLED = 137
_TERMINATED = 143


def current(pod: PodView, job_uid: str, epoch: int) -> bool:
    """Is the pod of this very job and epoch?"""
    return pod.mark is not None and pod.mark.job_uid == job_uid and pod.mark.epoch == epoch


def events(
    state: JobState, pods: Mapping[MemberId, PodView], job_uid: str, *, all_seen: bool
) -> Iterator[Event]:
    """What has happened to each member. `all_seen`: every pod of the epoch was there once."""
    for member, status in state.members.items():
        if not status.state.alive:
            continue
        pod = _pod_of(member, state, pods, job_uid)
        if pod is None:
            if _vanished(state, status, all_seen):
                yield MemberExited(
                    member,
                    state.epoch,
                    status.attempt,
                    _TERMINATED if status.state is MemberState.STOPPING else _KILLED,
                    "" if status.state is MemberState.STOPPING else "its pod was deleted",
                )
            continue
        yield from _of_pod(member, status, state.epoch, pod)


def missing(
    state: JobState, pods: Mapping[MemberId, PodView], job_uid: str, *, all_seen: bool
) -> bool:
    """Is there a member that nobody stopped, and whose pod was there once and is no more?"""
    return any(
        status.state.alive
        and status.state is not MemberState.STOPPING
        and _pod_of(member, state, pods, job_uid) is None
        and _vanished(state, status, all_seen)
        for member, status in state.members.items()
    )


def _pod_of(
    member: MemberId, state: JobState, pods: Mapping[MemberId, PodView], job_uid: str
) -> PodView | None:
    pod = pods.get(member)
    return pod if pod is not None and current(pod, job_uid, state.epoch) else None


def _vanished(state: JobState, status: MemberStatus, all_seen: bool) -> bool:
    """Has a pod that is not there been there before?

    A member that is starting has no pod until one is made, unless the record says that the gang
    has been seen running.
    """
    if status.state is MemberState.STOPPING:
        return True
    if status.state is MemberState.RUNNING:
        return True
    return all_seen and status.attempt == 0 and state.phase is Phase.RUNNING


def _of_pod(member: MemberId, status: MemberStatus, epoch: int, pod: PodView) -> Iterator[Event]:
    assert pod.mark is not None
    container = pod.container or ContainerView()
    ended = container.restarts + (1 if _has_ended(pod, container) else 0)
    attempts_over = pod.mark.attempt + ended
    if status.attempt < attempts_over:
        code = container.exit_code if container.exit_code is not None else _KILLED
        yield MemberExited(member, epoch, status.attempt, code, _why(pod, container))
        return
    if container.running and pod.mark.attempt + container.restarts == status.attempt:
        if status.state is MemberState.STARTING:
            yield MemberReady(member, epoch, status.attempt)
            if status.gate_open:
                yield MemberRunning(member, epoch, status.attempt)
        return


def _has_ended(pod: PodView, container: ContainerView) -> bool:
    if pod.over:
        return True
    return not container.running and container.started and bool(container.waiting)


def _why(pod: PodView, container: ContainerView) -> str:
    if container.exit_reason == "OOMKilled":
        return "it used more memory than its limit"
    if pod.reason and pod.over:
        return f"{pod.reason}: {pod.message}".rstrip(": ")
    if container.exit_reason not in ("", "Error", "Completed"):
        return container.exit_reason
    return ""
