"""The loop of the operator: caches tell which job to look at, workers look and act.

All state is in the API server. The caches may lag behind our own writes, so every answer to a
write goes into them at once; whoever acts on something stale is refused by the server and looks
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mooring.bodies.kubernetes.nodes import NodeView, parse_node
from mooring.bodies.kubernetes.pod import Image
from mooring.bodies.kubernetes.pods import PodView, parse_pod
from mooring.brain import queue
from mooring.kubeapi.cache import Cache
from mooring.kubeapi.client import Client
from mooring.kubeapi.document import Key, Object
from mooring.kubeapi.errors import Conflict, KubeError, NotFound
from mooring.kubeapi.resources import NODE, POD, TRAINING_JOB
from mooring.kubeapi.resources import POOL as POOL_KIND
from mooring.model.errors import BadInput
from mooring.model.member import MemberId
from mooring.model.resources import Resources
from mooring.model.status import Phase
from mooring.operator import admission, status
from mooring.operator.admission import Candidate
from mooring.operator.carry import Carrier
from mooring.operator.cycle import Seen, admit, look, release
from mooring.operator.jobs import JobView, Meaning, meaning_of, parse_view, wishes_of
from mooring.operator.metrics import Metrics
from mooring.operator.pools import PoolView, parse_pool
from mooring.operator.record import Record, Stage
from mooring.operator.work import WorkQueue

log = logging.getLogger(__name__)

#: Counts in a status may lag behind this long: members of a gang change state together.
_STATUS_EVERY_S = 1.0
#: Changes come in bursts; a round of the queue looks at them together.
_ADMISSION_PAUSE_S = 0.05
_ADMISSION_EVERY_S = 30.0


@dataclass(frozen=True)
class Settings:
    """What `moor operator` is told."""

    image: Image
    namespace: str | None = None
    workers: int = 8
    parallel_calls: int = 32
    resync_s: float = 600.0


class Controller:
    """One operator that may act. `allowed` is asked before every write."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        metrics: Metrics,
        allowed: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._metrics, self._allowed, self._now = settings, metrics, allowed, now
        self._carrier = Carrier(client, settings.image, settings.parallel_calls)
        self._work = WorkQueue()
        self._admission_due = asyncio.Event()
        self._pods_of: dict[Key, dict[str, PodView]] = {}
        self._meanings: dict[str, tuple[int, Meaning | BadInput]] = {}
        self._written_at_s: dict[str, float] = {}
        within, resync_s = settings.namespace, settings.resync_s
        self.jobs: Cache[JobView] = Cache(
            client,
            TRAINING_JOB,
            parse_view,
            changed=self._job_changed,
            namespace=within,
            resync_s=resync_s,
            trouble=self._trouble,
        )
        self.pods: Cache[PodView] = Cache(
            client,
            POD,
            parse_pod,
            changed=self._pod_changed,
            resync_s=resync_s,
            trouble=self._trouble,
        )
        self.nodes: Cache[NodeView] = Cache(
            client,
            NODE,
            parse_node,
            changed=self._node_changed,
            resync_s=resync_s,
            trouble=self._trouble,
        )
        self.pools: Cache[PoolView] = Cache(
            client,
            POOL_KIND,
            parse_pool,
            changed=lambda before, after: self._admission_due.set(),
            resync_s=resync_s,
            missing_ok=True,
            trouble=self._trouble,
        )

    # -- life

    async def run(self) -> None:
        """Until cancelled. Nothing is done before all caches have been filled."""
        caches = (self.nodes, self.pods, self.jobs, self.pools)
        async with asyncio.TaskGroup() as tasks:
            for cache in caches:
                tasks.create_task(cache.run())
            await asyncio.gather(*(cache.synced.wait() for cache in caches))
            log.info(
                "caches are filled: %d nodes, %d pods, %d jobs",
                len(self.nodes),
                len(self.pods),
                len(self.jobs),
            )
            for view in self.jobs:
                self._work.add(view.key)
            self._admission_due.set()
            for _ in range(self._settings.workers):
                tasks.create_task(self._worker())
            tasks.create_task(self._admissions())

    @property
    def synced(self) -> bool:
        return all(
            cache.synced.is_set() for cache in (self.nodes, self.pods, self.jobs, self.pools)
        )

    # -- what changed

    def _job_changed(self, before: JobView | None, after: JobView | None) -> None:
        view = after or before
        assert view is not None
        if after is None:
            self._meanings.pop(view.uid, None)
            self._written_at_s.pop(view.uid, None)
            self._admission_due.set()
        self._work.add(view.key)

    def _pod_changed(self, before: PodView | None, after: PodView | None) -> None:
        for pod in (before, after):
            if pod is not None and pod.mark is not None:
                key = (pod.namespace, pod.mark.job)
                mine = self._pods_of.setdefault(key, {})
                if pod is after:
                    mine[pod.name] = pod
                elif after is None:
                    mine.pop(pod.name, None)
                    if not mine:
                        del self._pods_of[key]
                self._work.add(key)
        if _frees(before, after):
            self._admission_due.set()

    def _node_changed(self, before: NodeView | None, after: NodeView | None) -> None:
        if before != after:
            self._admission_due.set()

    def _trouble(self, sentence: str) -> None:
        self._metrics.trouble()
        log.warning("%s", sentence)

    # -- one job

    async def _worker(self) -> None:
        while True:
            key = await self._work.take()
            failed = False
            started_s = time.monotonic()
            try:
                await self.reconcile(key)
            except Conflict as error:
                failed = True
                log.info("%s/%s has changed meanwhile: %s", *key, error)
            except KubeError as error:
                failed = True
                log.warning("%s/%s: %s", *key, error)
            except Exception:
                failed = True
                log.exception("%s/%s: a defect; it is tried again", *key)
            finally:
                self._work.done(key, failed=failed)
                self._metrics.reconciled(time.monotonic() - started_s, failed=failed)

    async def reconcile(self, key: Key) -> None:
        """Look at one job and do what follows."""
        view = self.jobs.get(*key)
        if view is None or view.deleting or not self._allowed():
            return
        meaning = self._meaning(view)
        if isinstance(meaning, BadInput):
            await self._reject(view, meaning)
            return
        members = [member.id for member in meaning.gang.members]
        record = status.decode(view.status, members, view.created_at_s)
        pods = self._members_pods(view)
        rescaled = self._rescaled(record, meaning)
        if rescaled:
            record = release(record, "Rescaled", rescaled)
        now_s = self._now()
        step = look(record, wishes_of(view, meaning), Seen(view.uid, pods), now_s)
        if view.status or step.record.stage is not Stage.QUEUED or not meaning.by_mooring:
            # What is said first of a job that waits is what the queue says.
            view = await self._save(view, meaning, step.record, pods, now_s)
        if step.delete_job:
            await self._carrier.delete_job(view)
            return
        if step.remove:
            await self._carrier.remove(step.remove)
        if step.create and self._has_room(view, meaning, step.record, pods):
            made = await self._carrier.create(view, meaning, step.record, step.create)
            for pod in made.pods:
                self.pods.put(pod)
            if made.foreign:
                await self._in_the_way(view, meaning, step.record, made.foreign)
        if step.record.stage is Stage.QUEUED:
            self._admission_due.set()
        if step.wake_at_s is not None:
            self._work.add(key, max(0.0, step.wake_at_s - self._now()))

    def _meaning(self, view: JobView) -> Meaning | BadInput:
        known = self._meanings.get(view.uid)
        if known is not None and known[0] == view.generation:
            return known[1]
        meaning: Meaning | BadInput
        try:
            meaning = meaning_of(view.object)
        except BadInput as error:
            meaning = error
        self._meanings[view.uid] = (view.generation, meaning)
        return meaning

    def _members_pods(self, view: JobView) -> dict[MemberId, PodView]:
        found = self._pods_of.get(view.key, {})
        return {pod.mark.member: pod for pod in found.values() if pod.mark is not None}

    def _rescaled(self, record: Record, meaning: Meaning) -> str:
        """A job whose author changed its roles while it holds a place starts anew with them."""
        if record.stage is not Stage.ADMITTED or record.state is None or record.state.outcome:
            return ""
        wanted = {member.id for member in meaning.gang.members}
        surplus = [member for member in record.slots if member not in wanted]
        if surplus:
            return f"its roles have changed: {len(surplus)} members fewer"
        elastic = meaning.job.spec.min_available is not None or not meaning.gang.all_or_nothing
        if not elastic and len(record.slots) < len(wanted):
            return f"its roles have changed: {len(wanted) - len(record.slots)} members more"
        return ""

    def _has_room(
        self,
        view: JobView,
        meaning: Meaning,
        record: Record,
        pods: dict[MemberId, PodView],
    ) -> bool:
        """Are those gone who gave way to this gang? Only then may its first pod be made."""
        if pods or not meaning.by_mooring:
            return True
        wanted: dict[str, Resources] = {}
        for member in meaning.gang.members:
            slot = record.slots.get(member.id)
            if slot is not None:
                wanted[slot.node] = wanted.get(slot.node, Resources()) + member.resources
        leaving: dict[str, Resources] = {}
        for pod in self.pods:
            if pod.node in wanted and not pod.over and pod.deleting:
                leaving[pod.node] = leaving.get(pod.node, Resources()) + pod.resources
        if not leaving:
            return True
        held: dict[str, Resources] = {}
        for pod in self.pods:
            if pod.node in leaving and not pod.over:
                held[pod.node] = held.get(pod.node, Resources()) + pod.resources
        for name in leaving:
            node = self.nodes.get("", name)
            if node is not None and not _fits(wanted[name] + held[name], node.node.capacity):
                self._work.add(view.key, _STATUS_EVERY_S)
                return False
        return True

    async def _in_the_way(self, view: JobView, meaning: Meaning, record: Record, name: str) -> None:
        back = replace(
            release(record, "TakenBack", f"a pod named {name}, not Mooring's, is in the way"),
            taken_back=record.taken_back + 1,
            not_before_s=self._now() + 30.0,
        )
        await self._save(view, meaning, back, self._members_pods(view), self._now())

    # -- statuses

    async def _save(
        self,
        view: JobView,
        meaning: Meaning,
        record: Record,
        pods: dict[MemberId, PodView],
        now_s: float,
    ) -> JobView:
        """Write the record if it says something new; at once if anything depends on it."""
        figures = status.Figures(
            ready=sum(1 for pod in pods.values() if pod.container and pod.container.running),
            total=len(record.slots) or len(meaning.gang.members),
            pool=meaning.job.spec.pool or queue.DEFAULT_POOL,
            generation=view.generation,
            bound=bool(pods) and all(pod.node for pod in pods.values()),
        )
        after = status.encode(record, figures, view.status, now_s)
        if after == view.status:
            return view
        if not status.urgent(view.status, after):
            due_s = self._written_at_s.get(view.uid, 0.0) + _STATUS_EVERY_S
            if now_s < due_s:
                self._work.add(view.key, due_s - now_s)
                return view
        return await self._write(view, after, now_s)

    async def _write(self, view: JobView, after: Object, now_s: float) -> JobView:
        if not self._allowed():
            raise Conflict(409, "Deposed", "another operator leads now", "status")
        try:
            answer = await self._carrier.write_status(view, after)
        except NotFound:
            return view
        self._written_at_s[view.uid] = now_s
        before = view.status
        self.jobs.put(answer)
        if before.get("phase") != after.get("phase") or before.get("reason") != after.get("reason"):
            reason, message = str(after.get("reason") or ""), str(after.get("message") or "")
            log.info("%s/%s: %s: %s", view.namespace, view.name, reason, message)
            warning = after.get("phase") in (Phase.FAILED.value, Phase.RESTARTING.value) or (
                reason in ("TakenBack", "Preempted", "Rejected")
            )
            await self._carrier.event(view, reason, message, warning=warning)
        return parse_view(answer)

    async def _reject(self, view: JobView, error: BadInput) -> None:
        """A job that no check should have let through: said once, and left alone."""
        message = str(error)
        if view.status.get("reason") == "Rejected" and view.status.get("message") == message:
            return
        after: dict[str, object] = {
            "phase": Phase.FAILED.value,
            "stage": Stage.FINISHED.value,
            "jobPhase": Phase.FAILED.value,
            "reason": "Rejected",
            "message": message,
            "observedGeneration": view.generation,
        }
        await self._write(view, after, self._now())  # type: ignore[arg-type]

    # -- admission

    async def _admissions(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._admission_due.wait(), _ADMISSION_EVERY_S)
            await asyncio.sleep(_ADMISSION_PAUSE_S)
            self._admission_due.clear()
            if not self._allowed():
                continue
            try:
                await self.admit()
            except KubeError as error:
                log.warning("admission: %s", error)
                self._admission_due.set()
            except Exception:
                log.exception("admission: a defect; it is tried again")
                await asyncio.sleep(1.0)
                self._admission_due.set()

    async def admit(self) -> None:
        """One round of the queue."""
        started_s = time.monotonic()
        now_s = self._now()
        candidates = list(self._candidates())
        decisions = admission.decide(candidates, self.nodes, self.pods, self.pools, now_s)
        by_name = {admission.job_key(one.key): one for one in candidates}
        for decision in decisions:
            await self._carry_out(decision, by_name[decision.job], now_s)
        waiting = [one for one in candidates if one.record.stage is Stage.QUEUED]
        self._metrics.round(time.monotonic() - started_s, len(waiting))
        later = [one.record.not_before_s for one in waiting if one.record.not_before_s > now_s]
        if later:
            asyncio.get_running_loop().call_later(min(later) - now_s, self._admission_due.set)

    def _candidates(self) -> Iterator[Candidate]:
        for view in self.jobs:
            meaning = None if view.deleting else self._meaning(view)
            if not isinstance(meaning, Meaning) or not meaning.by_mooring:
                continue
            members = [member.id for member in meaning.gang.members]
            record = status.decode(view.status, members, view.created_at_s)
            wishes = wishes_of(view, meaning)
            if record.stage is Stage.QUEUED and (wishes.suspend or wishes.stop):
                continue
            if record.stage in (Stage.QUEUED, Stage.ADMITTED):
                pool = meaning.job.spec.pool or queue.DEFAULT_POOL
                yield Candidate(view.key, view.uid, meaning, record, pool)

    async def _carry_out(self, decision: queue.Decision, one: Candidate, now_s: float) -> None:
        view = self.jobs.get(*one.key)
        if view is None or view.uid != one.uid:
            return
        policy = one.meaning.policy
        match decision:
            case queue.Admit(plan=plan):
                record = admit(one.record, plan, policy, now_s)
                self._metrics.admitted(now_s - one.record.queued_at_s)
            case queue.Grow(plan=plan):
                epoch = one.record.state.epoch + 1 if one.record.state else one.record.epoch
                record = admit(replace(one.record, epoch=epoch), plan, policy, now_s)
            case queue.Shrink(members=members, reason=reason):
                epoch = one.record.state.epoch + 1 if one.record.state else one.record.epoch
                left = {m: slot for m, slot in one.record.slots.items() if m not in members}
                smaller = replace(one.record, epoch=epoch, slots=left)
                record = admit(smaller, smaller.plan(""), policy, now_s)
                record = replace(record, message=reason)
            case queue.Preempt(reason=reason):
                record = release(one.record, "Preempted", reason)
            case queue.Wait(sentence=sentence):
                record = replace(one.record, reason="Waiting", message=sentence)
        try:
            await self._save(view, one.meaning, record, self._members_pods(view), now_s)
        except Conflict:
            self._admission_due.set()
        self._work.add(one.key)


def _frees(before: PodView | None, after: PodView | None) -> bool:
    """Has room appeared?"""
    if before is None or before.over:
        return False
    return after is None or after.over


def _fits(wanted: Resources, room: Resources) -> bool:
    return (
        wanted.cpu_millis <= room.cpu_millis
        and wanted.memory_bytes <= room.memory_bytes
        and wanted.gpus <= room.gpus
    )
