"""Whether the place that a gang was given still holds when its pods are to be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import ParsedJob
from mooring.backends.kubernetes.objects.nodes import NodeView
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.model.member import MemberId
from mooring.model.resources import Resources

NodeOf = Callable[[str], NodeView | None]
"""The node of a name, if there is one."""


@dataclass(frozen=True)
class Room:
    """May the pods be made? If not: later, unless `lost` says why the place is to be given back."""

    ready: bool
    lost: str = ""


READY = Room(True)
NOT_YET = Room(False)


def changed_roles(record: TrainingJobRecord, parsed: ParsedJob) -> str:
    """Why a gang that holds a place starts anew: its author changed its roles. Empty: they fit."""
    if record.stage is not Stage.ADMITTED or record.state is None or record.state.outcome:
        return ""
    wanted = {member.id for member in parsed.gang.members}
    surplus = [member for member in record.slots if member not in wanted]
    if surplus:
        return f"its roles have changed: {len(surplus)} members fewer"
    elastic = parsed.job.spec.min_available is not None or not parsed.gang.all_or_nothing
    if not elastic and len(record.slots) < len(wanted):
        return f"its roles have changed: {len(wanted) - len(record.slots)} members more"
    return ""


def room_for(
    parsed: ParsedJob,
    record: TrainingJobRecord,
    members: Iterable[MemberId],
    own_pods: Mapping[MemberId, PodView],
    node_of: NodeOf,
    all_pods: Iterable[PodView],
    now_s: float,
) -> Room:
    """For pods of `members`, which the gang's record has slots for."""
    if not parsed.by_mooring:
        return READY
    gone = missing_node(record, members, node_of)
    if gone:
        return Room(False, f"the node {gone} is gone")
    crowded = crowded_node(parsed, record, own_pods, node_of, all_pods)
    if not crowded:
        return READY
    limit_s = parsed.job.spec.kubernetes.bind_timeout_s + parsed.policy.grace_s
    if now_s < (record.admitted_at_s or 0.0) + limit_s:
        return NOT_YET
    return Room(False, f"no room on {crowded} after all")


def missing_node(record: TrainingJobRecord, members: Iterable[MemberId], node_of: NodeOf) -> str:
    """A node of these members that is no longer there; it is not waited for. Empty: all are."""
    nodes = (record.slots[member].node for member in members)
    return next((name for name in nodes if node_of(name) is None), "")


def crowded_node(
    parsed: ParsedJob,
    record: TrainingJobRecord,
    own_pods: Mapping[MemberId, PodView],
    node_of: NodeOf,
    all_pods: Iterable[PodView],
) -> str:
    """A node that has no room yet for what it was chosen for. Empty: all have.

    Those who give way take their time to go: only then may the first pod be made, so that no
    half of a gang waits on its nodes for the other half's.
    """
    if own_pods:
        return ""
    wanted: dict[str, Resources] = {}
    for member in parsed.gang.members:
        slot = record.slots.get(member.id)
        if slot is not None:
            wanted[slot.node] = wanted.get(slot.node, Resources()) + member.resources
    for pod in all_pods:
        if pod.node in wanted and not pod.over:
            wanted[pod.node] += pod.resources
    for name, asked in wanted.items():
        node = node_of(name)
        if node is None or not node.ready or not asked.fits_in(node.node.capacity):
            return name
    return ""
