"""The pods of a gang as it was placed: the same for the operator, which makes them, and for
whoever wants to see them first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mooring import frameworks
from mooring.backends.base import Order
from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import ParsedJob
from mooring.backends.kubernetes.objects.contract import (
    EpochSettings,
    addresses_of,
    count_sharers,
    member_dir,
)
from mooring.backends.kubernetes.objects.pod_manifest import Image, Owner, pod_manifest
from mooring.model.member import MemberId


def needs_token(parsed: ParsedJob) -> bool:
    """Do its members meet, or are its ranks started over the network?"""
    agents = any("agent" in member.ports for member in parsed.gang.members)
    return parsed.job.spec.gang or agents


def pod_manifests(
    parsed: ParsedJob,
    owner: Owner,
    record: TrainingJobRecord,
    members: Sequence[MemberId],
    image: Image,
    *,
    has_files: bool,
) -> Iterator[dict[str, Json]]:
    """Pods for `members` of the gang as it was placed."""
    job, state = parsed.job, record.state
    epoch = state.epoch if state else record.epoch
    placed = tuple(other for other in parsed.gang.members if other.id in record.slots)
    gang = replace(parsed.gang, members=placed)
    addresses = addresses_of(gang, owner.namespace)
    identities = frameworks.identify(job, gang, addresses, epoch)
    framework = frameworks.find(job.spec.framework)
    pods = {
        role: job.spec.kubernetes.of_role(own.kubernetes) for role, own in job.spec.roles.items()
    }
    around = EpochSettings(
        owner.namespace,
        owner.uid,
        addresses,
        placed[0].id,
        pods,
        has_files,
        count_sharers(gang, record.slots),
    )
    by_id = {member.id: member for member in placed}
    for member_id in members:
        member = by_id[member_id]
        launch = framework.render(member, identities[member_id], member_dir())
        attempt = state.members[member_id].attempt if state else 0
        order = Order(member, record.slots[member_id], launch, epoch, attempt)
        yield pod_manifest(job, gang, owner, order, around, image)
