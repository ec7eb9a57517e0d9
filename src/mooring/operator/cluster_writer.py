"""Writing a step to the API server: pods made and removed, services, events, statuses.

Every call may be repeated: names are deterministic, deletions name the very object, and a status
is written only over the one that was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import (
    Json,
    Object,
    items,
    mapping,
    number,
    text,
    texts,
)
from mooring.backends.kubernetes.api.errors import AlreadyExists, Conflict, KubeError, NotFound
from mooring.backends.kubernetes.api.protobuf import LEAN_PODS
from mooring.backends.kubernetes.api.resources import (
    EVENT,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    TRAINING_JOB,
    VOLCANO_POD_GROUP,
    ResourceKind,
)
from mooring.backends.kubernetes.api.times import write_seconds
from mooring.backends.kubernetes.jobs.gang_manifests import needs_token, pod_manifests
from mooring.backends.kubernetes.jobs.look import Removal
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import JobView, ParsedJob
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.network import network_policy_manifest
from mooring.backends.kubernetes.objects.pod_manifest import (
    Image,
    service_manifest,
)
from mooring.backends.kubernetes.objects.pods import Mark, mark_of
from mooring.backends.kubernetes.objects.scheduling import pod_group_manifest
from mooring.backends.kubernetes.objects.token import token_manifest
from mooring.model.member import MemberId
from mooring.spec.kubernetes import Scheduler

log = logging.getLogger(__name__)

_SOURCE = "mooring-operator"


@dataclass(frozen=True)
class MadePod:
    """A pod that the server has now; `read` gives it as the server does."""

    name: str
    mark: Mark | None
    read: Callable[[], Object]


#: What is in the way, or nothing; our pod.
_Answer: TypeAlias = tuple[str, MadePod | None]


@dataclass(frozen=True)
class Made:
    """What came of a round of creations."""

    pods: tuple[MadePod, ...]
    problem: str = ""
    """A sentence, if something is in the way."""


@dataclass(frozen=True)
class Around:
    """What all jobs are given beside their pods. `token_of`: the token of a job by its uid."""

    token_of: Callable[[str], str] = lambda uid: ""
    network_policy: bool = True
    askers: tuple[str, ...] = ()
    """Address ranges of the API servers; none: not known."""
    serves: Callable[[Object], None] = lambda service: None
    """Told of the Service that names a job's members, as the server has it."""


class ClusterWriter:
    """The writing half of the operator; `parallel` calls at most are under way. `allowed` is asked
    before each: a deposed leader writes nothing."""

    def __init__(
        self,
        client: Client,
        image: Image,
        parallel: int = 32,
        allowed: Callable[[], bool] = lambda: True,
        around: Around | None = None,
    ) -> None:
        self._client, self._image, self._allowed = client, image, allowed
        self._around = around or Around()
        self._slots, self._turn = asyncio.Semaphore(parallel), asyncio.Lock()
        self._served: dict[str, int] = {}

    async def write_status(self, view: JobView, status: Object) -> Object:
        """Raises Conflict if the job has changed since it was read."""
        self._check()
        manifest = {**view.object, "status": status}
        return await self._client.replace(TRAINING_JOB, manifest, "status")

    async def create(
        self,
        view: JobView,
        parsed: ParsedJob,
        record: TrainingJobRecord,
        members: Sequence[MemberId],
    ) -> Made:
        """The pods of these members, with what they need to find each other."""
        problem = await self.prepare(view, parsed, len(record.slots))
        if problem:
            return Made((), problem)
        manifests = pod_manifests(
            parsed, view.owner, record, members, self._image, has_files=view.has_files
        )
        answers = await self._create_pods(view, manifests)
        problem = next((told for told, _ in answers if told), "")
        return Made(tuple(pod for _, pod in answers if pod), problem)

    async def _create_pods(self, view: JobView, manifests: Iterable[Object]) -> list[_Answer]:
        """Each is built when its turn comes: the server is busy with the first ones meanwhile.

        Gangs take turns, and the next one begins when the last pod of this one is under way: two
        that are made pod by pod in turn would both be whole at the end only, and each pod of a job
        makes the cluster's controllers write the addresses behind its service anew.
        """
        under_way: list[asyncio.Task[_Answer]] = []
        refused = False

        def answered(task: asyncio.Task[_Answer]) -> None:
            nonlocal refused
            self._slots.release()
            refused = refused or task.cancelled() or task.exception() is not None

        try:
            async with self._turn:
                for manifest in manifests:
                    await self._slots.acquire()
                    if refused:
                        self._slots.release()
                        break
                    task = asyncio.create_task(self._create_pod(manifest, view))
                    task.add_done_callback(answered)
                    under_way.append(task)
                    # It is sent before the next one is built.
                    await asyncio.sleep(0)
            # Also after a refusal: what became of the others is known then.
            await asyncio.gather(*under_way, return_exceptions=True)
            return [task.result() for task in under_way]
        finally:
            for task in under_way:
                task.cancel()

    async def remove(self, removals: Sequence[Removal]) -> None:
        await asyncio.gather(*(self._remove(removal) for removal in removals))

    async def delete_job(self, view: JobView) -> None:
        self._check()
        await self._client.delete(TRAINING_JOB, view.name, view.namespace, uid=view.uid)

    async def event(self, view: JobView, reason: str, message: str, *, warning: bool) -> None:
        """Tell people; losing an event is no harm."""
        now_s = time.time()
        written = write_seconds(now_s)
        manifest: dict[str, Json] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{view.name}.{now_s:.6f}".replace(".", "-"),
                "namespace": view.namespace,
            },
            "involvedObject": {
                "apiVersion": TRAINING_JOB.api_version,
                "kind": TRAINING_JOB.name,
                "name": view.name,
                "namespace": view.namespace,
                "uid": view.uid,
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason or "Changed",
            "message": message[:1000],
            "firstTimestamp": written,
            "lastTimestamp": written,
            "count": 1,
            "source": {"component": _SOURCE},
        }
        try:
            await self._client.create(EVENT, manifest)
        except KubeError as error:
            log.warning("event of %s/%s not written: %s", view.namespace, view.name, error)

    def _check(self) -> None:
        if not self._allowed():
            raise Conflict(409, "Deposed", "another operator leads now", "write")

    def forget(self, job_uid: str) -> None:
        """What was made around this job's pods is no longer known to be there."""
        self._served.pop(job_uid, None)

    async def prepare(self, view: JobView, parsed: ParsedJob, members: int) -> str:
        """What pods need around them. A sentence, if something is in the way."""
        if self._served.get(view.uid) == members:
            return ""
        self._check()
        problem, *_ = await asyncio.gather(
            self._create_service(view, service_manifest(parsed.job, view.owner)),
            *(self._create_once(kind, manifest) for kind, manifest in self._beside(view, parsed)),
        )
        if not problem and parsed.job.spec.kubernetes.scheduler is Scheduler.VOLCANO:
            problem = await self._create_pod_group(view, parsed, members)
        if problem:
            return problem
        self._served[view.uid] = members
        return ""

    def _beside(self, view: JobView, parsed: ParsedJob) -> Iterator[tuple[ResourceKind, Object]]:
        if needs_token(parsed):
            yield SECRET, token_manifest(view.owner, self._around.token_of(view.uid))
        if self._around.network_policy:
            yield NETWORK_POLICY, network_policy_manifest(view.owner, self._around.askers)

    async def _create_once(self, kind: ResourceKind, manifest: Object) -> None:
        """Its name is this very job's: what is there already is what was made before."""
        with contextlib.suppress(AlreadyExists):
            await self._client.create(kind, manifest)

    async def _create_service(self, view: JobView, manifest: Object) -> str:
        try:
            self._around.serves(await self._client.create(SERVICE, manifest))
            return ""
        except AlreadyExists as error:
            name = text(manifest, "metadata", "name")
            found = await self._client.get(SERVICE, name, view.namespace)
            owners = {text(item, "uid") for item in items(found, "metadata", "ownerReferences")}
            if view.uid in owners:
                self._around.serves(found)
                return ""
            if texts(found, "metadata", "labels").get(names.JOB) == view.name:
                # That of a job of the same name, which was deleted, is on its way out.
                raise Conflict(409, "Conflict", f"{error}", "services") from error
            return _in_the_way("service", name)

    async def _create_pod_group(self, view: JobView, parsed: ParsedJob, members: int) -> str:
        spec = parsed.job.spec
        least = min(spec.min_available or members, members)
        manifest = pod_group_manifest(
            spec.kubernetes, view.name, view.namespace, view.owner.reference(), least
        )
        try:
            await self._client.create(VOLCANO_POD_GROUP, manifest)
        except NotFound:
            return "the cluster has no PodGroups: Volcano is not installed there"
        except AlreadyExists as error:
            found = await self._client.get(VOLCANO_POD_GROUP, view.name, view.namespace)
            owners = {text(item, "uid") for item in items(found, "metadata", "ownerReferences")}
            if view.uid not in owners:
                return _in_the_way("PodGroup", view.name)
            if number(found, "spec", "minMember") != least:
                uid = text(found, "metadata", "uid")
                await self._client.delete(VOLCANO_POD_GROUP, view.name, view.namespace, uid=uid)
                raise Conflict(409, "Conflict", "the PodGroup is made anew", "podgroups") from error
        return ""

    async def _create_pod(self, manifest: Object, view: JobView) -> _Answer:
        name = text(manifest, "metadata", "name")
        self._check()
        try:
            answer = await self._client.create_unread(POD, manifest, LEAN_PODS)
            return "", MadePod(name, mark_of(mapping(manifest, "metadata")), answer.read)
        except AlreadyExists:
            pass
        found = await self._client.get(POD, name, view.namespace)
        mark = mark_of(mapping(found, "metadata"))
        if mark is None or mark.job != view.name:
            return _in_the_way("pod", name), None
        if mark.job_uid == view.uid:
            return "", MadePod(name, mark, lambda: found)
        # One of a job of the same name that was deleted is on its way out.
        return "", None

    async def _remove(self, removal: Removal) -> None:
        pod = removal.pod
        grace_s = int(removal.grace_s + 0.999)
        async with self._slots:
            self._check()
            try:
                await self._client.delete(
                    POD, pod.name, pod.namespace, uid=pod.uid, grace_s=grace_s
                )
            except Conflict:
                log.info("pod %s/%s is another one by now", pod.namespace, pod.name)


def _in_the_way(kind: str, name: str) -> str:
    return f"a {kind} named {name}, not Mooring's, is in the way"
