"""The Services of jobs, followed: one that somebody deletes by hand is made again.

Without the right to read them nothing is known, and none counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.backends.kubernetes.api.document import Object, find, items, text
from mooring.backends.kubernetes.api.joined import Joined
from mooring.backends.kubernetes.jobs.training_job import JobView
from mooring.backends.kubernetes.objects import names


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A Service with Mooring's label, and the uid of the job that controls it."""

    namespace: str
    name: str
    job_uid: str


def parse_service(obj: Object) -> ServiceView:
    owners = items(obj, "metadata", "ownerReferences")
    uids = [text(owner, "uid") for owner in owners if find(owner, "controller") is True]
    return ServiceView(
        text(obj, "metadata", "namespace"), text(obj, "metadata", "name"), "".join(uids[:1])
    )


def lacks_service(services: Joined[ServiceView], view: JobView) -> bool:
    """Is the Service that names the job's members surely not there?"""
    if not services.known:
        return False
    there = services.get(view.namespace, names.service_name(view.name))
    return there is None or there.job_uid != view.uid
