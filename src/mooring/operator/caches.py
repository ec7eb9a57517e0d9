"""All that the operator sees of the cluster, and whom a change concerns.

A change of a job or of one of its pods concerns that job; room that appears concerns the queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mooring.backends.kubernetes.api.cache import Cache, Following, View
from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.codec import JSON
from mooring.backends.kubernetes.api.document import Key, Object
from mooring.backends.kubernetes.api.joined import Joined
from mooring.backends.kubernetes.api.protobuf import LEAN_PODS
from mooring.backends.kubernetes.api.resources import (
    NODE,
    NODE_TOPOLOGY,
    POD,
    POOL,
    SERVICE,
    TRAINING_JOB,
    ResourceKind,
)
from mooring.backends.kubernetes.jobs.kubelets import Kubelets
from mooring.backends.kubernetes.jobs.pools import PoolView, parse_pool
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.status import rejected
from mooring.backends.kubernetes.jobs.training_job import (
    JobView,
    ParsedJob,
    is_large,
    parse_training_job,
    parse_view,
    record_of,
)
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.nodes import (
    NodeView,
    parse_node,
    with_hardware,
    with_limits,
)
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from mooring.backends.kubernetes.objects.topology import TopologyView, parse_topology
from mooring.model.cluster import KubeletPolicy
from mooring.model.errors import BadInput, Problem
from mooring.model.member import MemberId
from mooring.model.resources import Counts
from mooring.operator.services import ServiceView, parse_service
from mooring.operator.stored import Stored

log = logging.getLogger(__name__)


def unreadable(error: Exception) -> Problem:
    """What is said of a job that a reader fails on, without a rule that it breaks."""
    return Problem(
        "spec", f"what cannot be read ({type(error).__name__})", "a job that `moor validate` takes"
    )


class Caches:
    """`concerned` is told which job to look at again, `moved` that a pod of it has changed, `bound`
    that one has been bound and nothing else, `room` that the queue should be looked at, `gone` that
    a job is no more."""

    def __init__(
        self,
        client: Client,
        *,
        namespaces: Sequence[str],
        resync_s: float,
        ask_kubelets: bool,
        concerned: Callable[[Key], None],
        moved: Callable[[Key], None],
        bound: Callable[[Key], None],
        room: Callable[[], None],
        trouble: Callable[[], None],
        gone: Callable[[JobView], None] = lambda view: None,
    ) -> None:
        self._concerned, self._moved, self._bound, self._room = concerned, moved, bound, room
        self._client, self._count_trouble = client, trouble
        self._gone = gone
        self._pods_of: dict[Key, dict[str, PodView]] = {}
        self._parsed_jobs: dict[str, tuple[int, ParsedJob | BadInput]] = {}
        self._records: dict[str, tuple[JobView, TrainingJobRecord]] = {}

        def cache(
            kind: ResourceKind,
            parse: Callable[[Object], View],
            changed: Callable[[View | None, View | None], None],
            namespace: str | None = None,
            missing_ok: bool = False,
            accept: str = JSON,
            labels: str = "",
        ) -> Cache[View]:
            return Cache(
                client,
                kind,
                parse,
                changed=changed,
                namespace=namespace,
                labels=labels,
                resync_s=resync_s,
                missing_ok=missing_ok,
                accept=accept,
                trouble=self._trouble,
            )

        self.jobs = Joined(partial(cache, TRAINING_JOB, parse_view, self._job_changed), namespaces)
        self.services = Joined(
            lambda namespace: cache(
                SERVICE,
                parse_service,
                self._service_changed,
                namespace,
                missing_ok=True,
                labels=names.OURS,
            ),
            namespaces,
        )
        self.pods = cache(POD, parse_pod, self._pod_changed, accept=LEAN_PODS)
        self.nodes = cache(NODE, parse_node, self._node_changed)
        self.pools = cache(POOL, parse_pool, self._pool_changed, missing_ok=True)
        self.topologies = cache(
            NODE_TOPOLOGY, parse_topology, self._topology_changed, missing_ok=True
        )
        self.stored = Stored(partial(cache, missing_ok=True), room)
        self._all: tuple[Following, ...] = (
            self.nodes,
            self.pods,
            self.jobs,
            self.services,
            self.pools,
            self.topologies,
            *self.stored.caches,
        )
        self._kubelets: Kubelets | None = None
        if ask_kubelets:
            self._kubelets = Kubelets(client, self._ready_nodes, room)
        self._machines: dict[str, _Machine] = {}

    async def run(self, filled: Callable[[], None]) -> None:
        """Follow the cluster until cancelled; `filled` is called once when all is known."""
        async with asyncio.TaskGroup() as tasks:
            for cache in self._all:
                tasks.create_task(cache.run())
            await asyncio.gather(*(cache.synced.wait() for cache in self._all))
            log.info(
                "caches are filled: %d nodes, %d pods, %d jobs",
                len(self.nodes),
                len(self.pods),
                len(self.jobs),
            )
            if self._kubelets is not None:
                await self._kubelets.first()
                tasks.create_task(self._kubelets.run())
            filled()

    @property
    def synced(self) -> bool:
        return all(cache.synced.is_set() for cache in self._all)

    def machines(self) -> list[NodeView]:
        """The nodes with their cells, their kubelets' settings and what can be attached to them, as
        far as it is known."""
        found = {}
        for view in self.nodes:
            topology = self.topologies.get("", view.name)
            policy = self._kubelets.of(view.name) if self._kubelets is not None else None
            limits = self.stored.limits_of(view.name)
            parts = (view, topology, policy, limits)
            known = self._machines.get(view.name)
            if known is None or not known.made_of(*parts):
                whole = with_limits(with_hardware(view, topology, policy), limits)
                known = _Machine(*parts, whole)
            found[view.name] = known
        self._machines = found
        return [pod.whole for pod in found.values()]

    def _ready_nodes(self) -> list[str]:
        return [view.name for view in self.nodes if view.ready]

    def parsed(self, view: JobView) -> ParsedJob | BadInput:
        """What the job asks for, or why that cannot be; worked out once a generation."""
        known = self._parsed_jobs.get(view.uid)
        if known is not None and known[0] == view.generation:
            return known[1]
        parsed: ParsedJob | BadInput
        try:
            parsed = parse_training_job(view.object)
        except BadInput as error:
            parsed = error
        except Exception as error:
            # Whatever a job does to its reader is that job's own failure.
            log.exception("%s/%s cannot be read: a defect", *view.key)
            parsed = BadInput(view.name, [unreadable(error)])
        self._parsed_jobs[view.uid] = (view.generation, parsed)
        return parsed

    def is_at_hand(self, view: JobView) -> bool:
        """Is it known what the job asks for, or soon worked out?"""
        known = self._parsed_jobs.get(view.uid)
        return (known is not None and known[0] == view.generation) or not is_large(view)

    async def learn(self, view: JobView) -> None:
        """Work out what a large job asks for, while others are seen to."""
        if not self.is_at_hand(view):
            await asyncio.to_thread(self.parsed, view)

    def record(self, view: JobView, parsed: ParsedJob) -> TrainingJobRecord:
        """What the job's status holds; read once a version of the job."""
        known = self._records.get(view.uid)
        if known is not None and known[0] is view:
            return known[1]
        record = record_of(view, parsed)
        self._records[view.uid] = (view, record)
        return record

    def forget(self, view: JobView) -> None:
        """The job is no more."""
        self._parsed_jobs.pop(view.uid, None)
        self._records.pop(view.uid, None)

    def pods_of(self, view: JobView) -> dict[MemberId, PodView]:
        """The pods that bear the job's name, also those of a job that had it before."""
        found = self._pods_of.get(view.key, {})
        return {pod.mark.member: pod for pod in found.values() if pod.mark is not None}

    async def pods_asked_for(self, view: JobView) -> dict[MemberId, PodView]:
        """The same, as the server has them now."""
        labels = f"{names.JOB_UID}={view.uid}"
        for found in await self._client.list(POD, view.namespace, labels):
            self.pods.put(found)
        return self.pods_of(view)

    def _job_changed(self, before: JobView | None, after: JobView | None) -> None:
        view = after or before
        assert view is not None
        if after is None:
            self.forget(view)
            self._gone(view)
        if after is None or before is None or before.generation != after.generation:
            # New, gone, or asking for something else: an elastic gang may want to grow.
            self._room()
        elif _holds(before) and not _holds(after):
            # Its pods were over before its record said so: only now is the place free.
            self._room()
        self._concerned(view.key)

    def _pool_changed(self, before: PoolView | None, after: PoolView | None) -> None:
        self._room()
        rules = [None if one is None else one.access for one in (before, after)]
        if rules[0] == rules[1]:
            return
        for view in self.jobs:
            # Who waits may no longer be allowed to, and who was refused may be now.
            if view.status.get("stage") == Stage.QUEUED.value or rejected(view.status):
                self._concerned(view.key)

    def _service_changed(self, before: ServiceView | None, after: ServiceView | None) -> None:
        if before is not None and after is None and before.job_uid:
            self._concerned((before.namespace, before.name))

    def _pod_changed(self, before: PodView | None, after: PodView | None) -> None:
        if before == after:
            # A kubelet tells more of a pod than is looked at here.
            return
        tell = self._bound if _only_bound(before, after) else self._moved
        for pod in (before, after):
            if pod is None or pod.mark is None:
                continue
            key = (pod.namespace, pod.mark.job)
            if pod is after:
                self._pods_of.setdefault(key, {})[pod.name] = pod
            elif after is None or after.mark is None or after.mark.job != pod.mark.job:
                # Gone, or somebody has taken its labels off.
                mine = self._pods_of.get(key, {})
                mine.pop(pod.name, None)
                if not mine:
                    self._pods_of.pop(key, None)
            tell(key)
        gone = after is None or after.over
        if before is not None and not before.over and gone:
            self._room()

    def _node_changed(self, before: NodeView | None, after: NodeView | None) -> None:
        if before != after:
            self._room()
        view = after or before
        if view is not None and _stands(before) != _stands(after):
            for key, pods in self._pods_of.items():
                if any(pod.deleting and pod.node == view.name for pod in pods.values()):
                    self._concerned(key)

    def _topology_changed(self, before: TopologyView | None, after: TopologyView | None) -> None:
        # Exporters write once a minute for each node: only what may help somebody counts.
        if before is None or after is None or after.matters_after(before):
            self._room()

    def _trouble(self, sentence: str) -> None:
        self._count_trouble()
        log.warning("%s", sentence)


@dataclass(frozen=True)
class _Machine:
    """A node put together, and of what."""

    view: NodeView
    topology: TopologyView | None
    policy: KubeletPolicy | None
    limits: Counts
    whole: NodeView

    def made_of(
        self,
        view: NodeView,
        topology: TopologyView | None,
        policy: KubeletPolicy | None,
        limits: Counts,
    ) -> bool:
        same = self.view is view and self.topology is topology and self.policy is policy
        return same and self.limits is limits


def _only_bound(before: PodView | None, after: PodView | None) -> bool:
    if before is None or after is None or before.node or not after.node:
        return False
    return replace(before, node=after.node) == after


def _stands(view: NodeView | None) -> object:
    """What decides whether pods that were told to go are waited for."""
    return None if view is None else (view.ready, view.node.taints)


def _holds(view: JobView) -> bool:
    return view.status.get("stage") in (Stage.ADMITTED.value, Stage.RELEASING.value)
