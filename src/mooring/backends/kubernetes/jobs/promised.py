"""Which pods of admitted gangs the queue need not count: their gangs hold the room by record.

A mark can be forged by whoever may write pods in a job's namespace. So a pod is left out of the
count only up to what its job was promised on that very node; what is beyond is there as well, and
nobody promised it.

Pods of the job that are no longer wanted (of an earlier start, or of members that gave way) are on
their way out: they are not counted, because somebody else may have been promised their room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import JobView, ParsedJob
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.model.resources import Resources


@dataclass(frozen=True)
class PlacedJob:
    """A job that holds a place."""

    view: JobView
    parsed: ParsedJob
    record: TrainingJobRecord


@dataclass(frozen=True)
class _Worked:
    """What was worked out of a job's pods, and of which."""

    parsed: ParsedJob
    record: TrainingJobRecord
    pods: list[PodView]
    beyond: tuple[PodView, ...]


@dataclass
class Promises:
    """What was worked out for the last round: a job that has not changed is not looked at again."""

    _last: dict[str, _Worked] = field(default_factory=dict)

    def others(self, pods: Sequence[PodView], holders: Iterable[PlacedJob]) -> list[PodView]:
        """The pods that count: of strangers, and what pods of the holders have beyond."""
        by_uid = {holder.view.uid: holder for holder in holders}
        counted: list[PodView] = []
        mine: dict[str, list[PodView]] = {}
        for pod in pods:
            holder = by_uid.get(pod.mark.job_uid) if pod.mark is not None else None
            if holder is None or holder.view.namespace != pod.namespace:
                counted.append(pod)
            elif not pod.over:
                mine.setdefault(holder.view.uid, []).append(pod)
        worked = {}
        for uid, found in mine.items():
            holder, last = by_uid[uid], self._last.get(uid)
            if (
                last is None
                or last.record is not holder.record
                or last.parsed is not holder.parsed
                or last.pods != found
            ):
                beyond = tuple(_beyond_promise(holder, found))
                last = _Worked(holder.parsed, holder.record, found, beyond)
            worked[uid] = last
            counted += last.beyond
        self._last = worked
        return counted


def _beyond_promise(holder: PlacedJob, pods: Iterable[PodView]) -> Iterator[PodView]:
    """By node and not by member: it does not matter which of them is where."""
    state, slots = holder.record.state, holder.record.slots
    epoch = state.epoch if state is not None else holder.record.epoch
    left: dict[str, Resources] = {}
    for member in holder.parsed.gang.members:
        slot = slots.get(member.id)
        if slot is not None:
            left[slot.node] = left.get(slot.node, Resources()) + member.resources
    for pod in pods:
        if (
            pod.mark is None
            or pod.mark.epoch != epoch
            or pod.mark.member not in holder.record.slots
        ):
            continue
        room = left.get(pod.node, Resources())
        left[pod.node] = _rest(room, pod.resources)
        more = _rest(pod.resources, room)
        if more != Resources():
            yield replace(pod, resources=more, cpus=(), gpus=(), whole_cpus=0, labels=())


def _rest(of: Resources, taken: Resources) -> Resources:
    """What is left of each kind, never less than nothing."""
    return Resources(
        max(0, of.cpu_millis - taken.cpu_millis),
        max(0, of.memory_bytes - taken.memory_bytes),
        max(0, of.gpus - taken.gpus),
        extended=tuple((name, max(0, n - taken.count(name))) for name, n in of.extended),
    )
