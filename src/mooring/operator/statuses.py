"""Writing a job's record to its status: at once if anything depends on it, otherwise now and then.

A status is written over the very version that the decision was made on; whoever decided on an
older one is refused and decides again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mooring.backends.kubernetes.api.document import Json, Object, number, texts
from mooring.backends.kubernetes.api.errors import Invalid, NotFound
from mooring.backends.kubernetes.api.joined import Joined
from mooring.backends.kubernetes.jobs import status
from mooring.backends.kubernetes.jobs.discretion import discreet_text
from mooring.backends.kubernetes.jobs.live_figures import Live
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import JobView, ParsedJob, parse_view
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.brain import queue
from mooring.model.errors import BadInput
from mooring.model.member import MemberId
from mooring.model.status import Phase
from mooring.operator.cluster_writer import ClusterWriter
from mooring.operator.work import WorkQueue

log = logging.getLogger(__name__)

#: Counts in a status may lag behind this long at first, and twice as long after each write that
#: said nothing else: members of a gang change state together, and a large one takes its time.
_FIRST_LAG_S = 1.0
_LONGEST_LAG_S = 60.0
#: What a running job does is shown sooner than how many of its members have come or gone.
_FIGURES_LAG_S = 10.0
_FIGURES = ("examplesPerSecond", "steps", "pinning")
#: What a waiting job is told changes with every other job: it is not written each time.
_WAITING_EVERY_S = 10.0
_WARNINGS = ("TakenBack", "Preempted", status.REJECTED)


@dataclass(frozen=True)
class _Written:
    """When a status was written last, and how long counts may lag behind from then on."""

    at_s: float
    lag_s: float = _FIRST_LAG_S


_NEVER = _Written(0.0)


class Statuses:
    """What was written last, and when."""

    def __init__(
        self,
        writer: ClusterWriter,
        jobs: Joined[JobView],
        work: WorkQueue,
        live: Callable[[str], Live | None] = lambda uid: None,
    ) -> None:
        self._writer, self._jobs, self._work = writer, jobs, work
        self._live = live
        self._written: dict[str, _Written] = {}
        self._telling: set[asyncio.Future[None]] = set()

    async def save(
        self,
        view: JobView,
        parsed: ParsedJob,
        record: TrainingJobRecord,
        pods: Mapping[MemberId, PodView],
        now_s: float,
    ) -> JobView:
        """Write the record if it says something new. Raises Conflict if the job has changed."""
        live = self._figures(view, record)
        figures = status.StatusFigures(
            ready=sum(1 for pod in pods.values() if pod.container and pod.container.running),
            total=len(record.slots) or len(parsed.gang.members),
            pool=parsed.job.spec.pool or queue.DEFAULT_POOL,
            generation=view.generation,
            bound=bool(pods) and all(pod.node for pod in pods.values()),
            examples_per_s=live.examples_per_s,
            step=live.step,
            pinning=live.pinning,
        )
        after = status.encode(record, figures, view.status, now_s)
        if after == view.status:
            return view
        last = self._written.get(view.uid, _NEVER)
        if status.only_told_anew(view.status, after):
            if now_s < last.at_s + _WAITING_EVERY_S:
                return view
        elif not status.urgent(view.status, after):
            lively = any(view.status.get(key) != after.get(key) for key in _FIGURES)
            due_s = last.at_s + (min(last.lag_s, _FIGURES_LAG_S) if lively else last.lag_s)
            if now_s < due_s:
                self._work.add(view.key, due_s - now_s)
                return view
            longer_s = min(2 * last.lag_s, _LONGEST_LAG_S)
            return await self._write(view, after, _Written(now_s, longer_s))
        return await self._write(view, after, _Written(now_s))

    def _figures(self, view: JobView, record: TrainingJobRecord) -> Live:
        """What is known now; otherwise what was written last, of a job that has not gone back."""
        live = self._live(view.uid)
        if live is not None or record.stage not in (Stage.ADMITTED, Stage.FINISHED):
            return live or Live()
        rate = view.status.get("examplesPerSecond")
        return Live(
            float(rate) if isinstance(rate, int | float) else None,
            number(view.status, "steps") or None,
            texts(view.status, "pinning"),
        )

    async def reject(self, view: JobView, error: BadInput, now_s: float) -> None:
        """Said once. The epoch is that of the next start, should the job be put right."""
        message = discreet_text(error)
        if view.status.get("reason") == status.REJECTED and view.status.get("message") == message:
            return
        after: dict[str, Json] = {
            "phase": Phase.FAILED.value,
            "stage": Stage.FINISHED.value,
            "record": {"phase": Phase.FAILED.value},
            "reason": status.REJECTED,
            "message": message,
            "epoch": number(view.status, "epoch") + 1 if view.status else 0,
            "observedGeneration": view.generation,
        }
        await self._write(view, after, _Written(now_s))

    def forget(self, uid: str) -> None:
        self._written.pop(uid, None)

    async def _write(self, view: JobView, after: Object, written: _Written) -> JobView:
        try:
            answer = await self._write_or_without_figures(view, after)
        except NotFound:
            self.forget(view.uid)
            return view
        self._jobs.put(answer)
        if self._jobs.get(*view.key) is not None:
            self._written[view.uid] = written
        before = view.status
        if any(before.get(key) != after.get(key) for key in ("phase", "reason")):
            self._tell(view, after)
        return parse_view(answer)

    async def _write_or_without_figures(self, view: JobView, after: Object) -> Object:
        """Figures come from the job's own pods: if the server refuses them, the rest is said."""
        try:
            return await self._writer.write_status(view, after)
        except Invalid as error:
            plain = {key: value for key, value in after.items() if key not in _FIGURES}
            if len(plain) == len(after):
                raise
            log.warning("%s/%s: written without figures: %s", *view.key, error)
            return await self._writer.write_status(view, plain)

    def _tell(self, view: JobView, after: Object) -> None:
        """An event for people; nobody waits until it is written."""
        reason, message = str(after.get("reason") or ""), str(after.get("message") or "")
        log.info("%s/%s: %s: %s", view.namespace, view.name, reason, message)
        bad = after.get("phase") in (Phase.FAILED.value, Phase.RESTARTING.value)
        event = self._writer.event(view, reason, message, warning=bad or reason in _WARNINGS)
        task = asyncio.ensure_future(event)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
