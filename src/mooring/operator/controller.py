"""The loop of the operator: what changed tells which job to look at, workers look and act.

All state is in the API server. The caches may lag behind our own writes, so every answer to a
write goes into them at once; whoever acts on something stale is refused by the server and looks
again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Key as ObjectKey
from mooring.backends.kubernetes.api.errors import Conflict, Forbidden, Invalid, KubeError
from mooring.backends.kubernetes.jobs.live_figures import stalled_of
from mooring.backends.kubernetes.jobs.look import (
    NextStep,
    Removal,
    take_back,
)
from mooring.backends.kubernetes.jobs.next_step import next_step, refusals
from mooring.backends.kubernetes.jobs.observe import missing
from mooring.backends.kubernetes.jobs.pools import access_rules
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.room import room_for
from mooring.backends.kubernetes.jobs.stuck import with_stuck
from mooring.backends.kubernetes.jobs.training_job import JobView, ParsedJob
from mooring.backends.kubernetes.objects.nodes import NodeView
from mooring.backends.kubernetes.objects.pod_manifest import Image
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.backends.kubernetes.objects.token import Key
from mooring.model.errors import BadInput
from mooring.model.member import MemberId
from mooring.model.status import Phase
from mooring.operator.caches import Caches
from mooring.operator.cluster_writer import Around, ClusterWriter
from mooring.operator.figures_poller import Asked, FiguresPoller
from mooring.operator.key import load_key
from mooring.operator.metrics import Metrics
from mooring.operator.rounds import Rounds
from mooring.operator.services import lacks_service
from mooring.operator.statuses import Statuses
from mooring.operator.work import WorkQueue

log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 1.0
#: What the job itself says about it cannot be read.
_REJECTED_GRACE_S = 10.0
#: A refusal may quote all that was sent.
_LONGEST_REFUSAL = 1000


@dataclass(frozen=True)
class OperatorSettings:
    """What `moor operator` is told."""

    image: Image
    namespaces: tuple[str, ...] = ()
    """Those of jobs; none: all."""
    workers: int = 8
    parallel_calls: int = 32
    resync_s: float = 600.0
    figures_s: float = 0.0
    """How often running jobs are asked for their steps; 0: never."""
    lost_node_after_s: float = 0.0
    """How long a node may be silent before its pods are given up; 0: for ever."""
    ask_kubelets: bool = False
    """Whether kubelets are asked for their settings."""
    home: str = "default"
    """The operator's own namespace: its key lies there."""
    network_policy: bool = True
    """Whether each job gets a NetworkPolicy."""
    api_servers: tuple[str, ...] = ()
    """Address ranges from which figures may be asked for; none: any."""


class Controller:
    """One operator that may act. `allowed` is asked before every write."""

    def __init__(
        self,
        client: Client,
        settings: OperatorSettings,
        metrics: Metrics,
        allowed: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._metrics, self._allowed, self._now = settings, metrics, allowed, now
        self._client = client
        self._key = Key(b"")
        around = Around(
            self._token_of,
            settings.network_policy,
            settings.api_servers,
            # The watch may tell of it much later, and it must not be taken for missing.
            lambda service: self._caches.services.put(service),
        )
        self._writer = ClusterWriter(
            client, settings.image, settings.parallel_calls, allowed, around
        )
        self._work = WorkQueue()
        self._round_due = asyncio.Event()
        self._caches = Caches(
            client,
            namespaces=settings.namespaces,
            resync_s=settings.resync_s,
            ask_kubelets=settings.ask_kubelets,
            concerned=self._work.add,
            moved=self._work.add_after_rest,
            # No decision depends on it: one look does for all that are bound meanwhile.
            bound=lambda key: self._work.add(key, _LOOK_AGAIN_S),
            room=self._round_due.set,
            trouble=metrics.trouble,
            gone=self._forget,
        )
        self._poller = FiguresPoller(
            client, settings.figures_s, self._running, self._work.add, now, self._token_of
        )
        self._statuses = Statuses(self._writer, self._caches.jobs, self._work, self._poller.of)
        self._rounds = Rounds(
            self._caches, self._statuses, self._work, metrics, self._round_due, allowed, now
        )

    async def run(self, filled: Callable[[], None] = lambda: None) -> None:
        """Until cancelled. Nothing is done before all caches have been filled."""
        self._key = await load_key(self._client, self._settings.home)
        async with asyncio.TaskGroup() as tasks:

            def begin() -> None:
                filled()
                for view in self._caches.jobs:
                    self._work.add(view.key)
                self._round_due.set()
                for _ in range(self._settings.workers):
                    tasks.create_task(self._worker())
                tasks.create_task(self._rounds.run())
                if self._settings.figures_s > 0:
                    tasks.create_task(self._poller.run())

            tasks.create_task(self._caches.run(begin))

    def _token_of(self, job_uid: str) -> str:
        return self._key.token_of(job_uid)

    def _running(self) -> Iterator[Asked]:
        """Jobs whose first member can be asked."""
        for view in self._caches.jobs if self._allowed() else ():
            if view.deleting or view.status.get("phase") != Phase.RUNNING.value:
                continue
            pods = self._caches.pods_of(view)
            if not pods or not self._caches.is_at_hand(view):
                continue
            parsed = self._caches.parsed(view)
            if isinstance(parsed, BadInput):
                continue
            first = next((m.id for m in parsed.gang.members if m.id in pods), None)
            leader = pods[first] if first else None
            if leader is not None and leader.container and leader.container.running:
                yield Asked(view.key, view.uid, leader)

    @property
    def synced(self) -> bool:
        return self._caches.synced

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

    async def reconcile(self, key: ObjectKey) -> None:
        """Look at one job and do what follows."""
        view = self._caches.jobs.get(*key)
        if view is None or view.deleting or not self._allowed():
            return
        try:
            await self._reconcile(view)
        finally:
            now = self._caches.jobs.get(*key)
            if now is None or now.uid != view.uid:
                # It went meanwhile, and what was learnt of it since is of no use.
                self._caches.forget(view)
                self._forget(view)

    async def _reconcile(self, view: JobView) -> None:
        key = view.key
        await self._caches.learn(view)
        parsed = self._caches.parsed(view)
        if isinstance(parsed, BadInput):
            await self._reject(view, parsed)
            return
        record = self._caches.record(view, parsed)
        refused = refusals(view, parsed, record, access_rules(self._caches.pools))
        if refused:
            await self._reject(view, BadInput("/".join(key), refused))
            return
        pods = await self._pods(view, record)
        now_s = self._now()
        stalled = stalled_of(parsed.job, self._poller.last_step(view.uid))
        step = next_step(view, parsed, record, pods, stalled, now_s)
        if step.outdated:
            raise Conflict(409, "Outdated", "its pods know of a later start", "look")
        step = with_stuck(step, pods.values(), self._node, now_s, self._settings.lost_node_after_s)
        if view.status or step.record.stage is not Stage.QUEUED or not parsed.by_mooring:
            # What is said first of a job that waits is what the queue says.
            view = await self._statuses.save(view, parsed, step.record, pods, now_s)
        if step.delete_job:
            await self._writer.delete_job(view)
            return
        if step.remove:
            await self._writer.remove(step.remove)
        if step.create:
            await self._create(view, parsed, step, pods)
        elif pods and step.record.stage is Stage.ADMITTED:
            await self._serve_again(view, parsed, step.record)
        if step.record.stage is Stage.QUEUED:
            self._round_due.set()
        if step.wake_at_s is not None:
            self._work.add(key, max(0.0, step.wake_at_s - self._now()))

    async def _serve_again(
        self, view: JobView, parsed: ParsedJob, record: TrainingJobRecord
    ) -> None:
        """Members find each other by their job's Service: one that was deleted by hand is made."""
        if lacks_service(self._caches.services, view):
            # Also if it went while it was being made: then it counted as made afterwards.
            self._writer.forget(view.uid)
            problem = await self._writer.prepare(view, parsed, len(record.slots))
            if problem:
                log.warning("%s/%s: %s", *view.key, problem)

    def _forget(self, view: JobView) -> None:
        """The job is no more: nothing of it is kept."""
        self._writer.forget(view.uid)
        self._statuses.forget(view.uid)

    async def _pods(self, view: JobView, record: TrainingJobRecord) -> Mapping[MemberId, PodView]:
        """The job's pods. Before one that ran counts as gone the server is asked: caches that were
        filled by a server that lags do not know of it yet."""
        pods = self._caches.pods_of(view)
        state, seen_running = record.state, record.running_at_s is not None
        if record.stage is not Stage.ADMITTED or state is None:
            return pods
        if missing(state, pods, view.uid, all_seen=seen_running):
            return await self._caches.pods_asked_for(view)
        return pods

    def _node(self, name: str) -> NodeView | None:
        return self._caches.nodes.get("", name)

    async def _reject(self, view: JobView, error: BadInput) -> None:
        """A job that no check should have let through; it may have run before it was edited."""
        await self._statuses.reject(view, error, self._now())
        pods = self._caches.pods_of(view).values()
        left = [Removal(pod, _REJECTED_GRACE_S) for pod in pods if not pod.deleting]
        await self._writer.remove(left)

    async def _create(
        self, view: JobView, parsed: ParsedJob, step: NextStep, pods: Mapping[MemberId, PodView]
    ) -> None:
        record = step.record
        room = room_for(
            parsed, record, step.create, pods, self._node, self._caches.pods, self._now()
        )
        if room.lost:
            await self._take_back(view, parsed, record, room.lost)
            return
        if not room.ready:
            self._work.add(view.key, _LOOK_AGAIN_S)
            return
        try:
            made = await self._writer.create(view, parsed, record, step.create)
        except (Invalid, Forbidden) as error:
            # A quota, a policy, a label that no pod can have: said to the author, not to a log.
            told = f"the API server refuses a pod: {error.message}"[:_LONGEST_REFUSAL]
            await self._take_back(view, parsed, record, told)
            return
        for pod in made.pods:
            # The watch tells of most while the others are still being made.
            known = self._caches.pods.get(view.namespace, pod.name)
            if known is None or known.mark != pod.mark:
                self._caches.pods.put(pod.read())
        if made.problem:
            await self._take_back(view, parsed, record, made.problem)

    async def _take_back(
        self, view: JobView, parsed: ParsedJob, record: TrainingJobRecord, message: str
    ) -> None:
        back = take_back(record, message, self._now())
        await self._statuses.save(view, parsed, back, self._caches.pods_of(view), self._now())
        self._work.add(view.key)
