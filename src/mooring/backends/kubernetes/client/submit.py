"""Sending a job to a cluster, and following it to its end.

Everything that can be known to be wrong is said before anything is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Json, Key, Object, find, number, text
from mooring.backends.kubernetes.api.errors import (
    AlreadyExists,
    Expired,
    KubeError,
    NotFound,
    Unreachable,
)
from mooring.backends.kubernetes.api.resources import CONFIG_MAP, TRAINING_JOB
from mooring.backends.kubernetes.client.files import config_map, pack
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pod_manifest import Owner
from mooring.model.errors import BadInput
from mooring.model.status import Phase
from mooring.spec import TrainingJob

NOT_INSTALLED = "this cluster has no TrainingJobs; to set it up: moor install | kubectl apply -f -"


@dataclass(frozen=True)
class JobProgress:
    """A job on the cluster at one moment."""

    phase: str
    reason: str
    message: str
    ready: str
    restarts: int
    examples_per_s: float | None = None
    steps: int | None = None

    @property
    def final(self) -> bool:
        return self.phase in (one.value for one in Phase if one.final)


def manifest_of(job: TrainingJob, namespace: str, *, has_files: bool) -> dict[str, Json]:
    """The object that is sent."""
    document: dict[str, Json] = job.to_dict()
    metadata: dict[str, Json] = {"name": job.metadata.name, "namespace": namespace}
    if job.metadata.labels:
        metadata["labels"] = dict(job.metadata.labels)
    if has_files:
        metadata["annotations"] = {names.FILES: f"{job.metadata.name}-files"}
    return {**document, "metadata": metadata}


def check(job: TrainingJob, namespace: str, job_dir: Path, source: str) -> tuple[str, ...]:
    """Which files are left out, a sentence each.

    Raises BadInput for whatever can be known to be wrong before it is sent.
    """
    packed = pack(job, job_dir, source)
    parse_training_job(manifest_of(job, namespace, has_files=packed.archive is not None))
    return packed.left_out


async def submit(
    client: Client, job: TrainingJob, namespace: str, job_dir: Path, source: str
) -> Object:
    """Create the job. Raises BadInput before anything is sent, or if the name is taken."""
    archive = pack(job, job_dir, source).archive
    manifest = manifest_of(job, namespace, has_files=archive is not None)
    parse_training_job(manifest)
    try:
        made = await client.create(TRAINING_JOB, manifest)
    except NotFound:
        # A namespace that is not there is refused in the same way: the server's words tell.
        if await _installed(client):
            raise
        raise KubeError(NOT_INSTALLED) from None
    except AlreadyExists:
        raise taken(source, (namespace, job.metadata.name)) from None
    if archive is not None:
        owner = Owner(job.metadata.name, namespace, text(made, "metadata", "uid"))
        try:
            await client.apply(CONFIG_MAP, config_map(owner, archive))
        except KubeError:
            await client.delete(TRAINING_JOB, owner.name, namespace, uid=owner.uid)
            raise
    return made


async def _installed(client: Client) -> bool:
    try:
        await client.list(TRAINING_JOB)
    except NotFound:
        return False
    except KubeError:
        return True
    return True


def taken(source: str, key: Key) -> BadInput:
    """The answer to a job whose name another has."""
    namespace, name = key
    found = f"'{name}', which is there already in namespace {namespace}"
    accepted = f"another name, or first: moor stop {name} --delete"
    return BadInput.at(source, "metadata.name", found, accepted)


async def follow(client: Client, name: str, namespace: str) -> AsyncIterator[JobProgress]:
    """What becomes of the job, until its end; each answer differs from the one before."""
    last: JobProgress | None = None
    while True:
        found = await client.get(TRAINING_JOB, name, namespace)
        version = text(found, "metadata", "resourceVersion")
        uid = text(found, "metadata", "uid")
        progress = progress_of(found)
        if progress != last:
            last = progress
            yield progress
        if progress.final:
            return
        try:
            async for change in client.watch(TRAINING_JOB, namespace, version):
                if text(change.object, "metadata", "uid") != uid or change.kind == "BOOKMARK":
                    continue
                if change.kind == "DELETED":
                    yield JobProgress("Deleted", "Deleted", "the job was deleted", "", 0)
                    return
                progress = progress_of(change.object)
                if progress != last:
                    last = progress
                    yield progress
                if progress.final:
                    return
        except (Unreachable, Expired):
            continue


def progress_of(found: Object) -> JobProgress:
    rate = find(found, "status", "examplesPerSecond")
    return JobProgress(
        phase=text(found, "status", "phase") or "Pending",
        reason=text(found, "status", "reason"),
        message=text(found, "status", "message"),
        ready=text(found, "status", "ready"),
        restarts=number(found, "status", "restarts"),
        examples_per_s=float(rate) if isinstance(rate, int | float) else None,
        steps=number(found, "status", "steps") or None,
    )
