"""Installing, and the jobs that the tests of an installation send."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml
from sample_jobs import SHORTEST, full

from kube.cluster.client import ApiError
from kube.cluster.control_plane import ControlPlane
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.spec import TrainingJob
from support.waiting import until

GROUP = "/apis/mooring.dev/v1"

JOBS = f"{GROUP}/namespaces/default/trainingjobs"


def every_field() -> dict[str, Any]:
    """The sample with every field, such that its framework can run it in pods."""
    job = copy.deepcopy(full())
    job["spec"] |= {"gang": True, "priority": "high"}
    job["spec"]["roles"]["worker"]["processes"] = 1
    job["spec"]["roles"]["ps"]["resources"]["memory"] = "1Gi"
    return job


def small() -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load(SHORTEST)
    job["spec"]["image"] = "registry.example/train:1"
    return job


def meant(stored: Mapping[str, Any]) -> TrainingJob:
    """What the operator takes it for."""
    return parse_training_job(stored).job


def moor_install(*options: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "mooring", "install", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def install_on(plane: ControlPlane) -> None:
    applied = plane.kubectl("apply", "-f", "-", stdin=moor_install())
    assert applied.returncode == 0, applied.stderr
    for name in ("trainingjobs", "pools"):
        until(lambda name=name: established(plane, name), f"{name} are served")


def established(plane: ControlPlane, plural: str) -> bool:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.mooring.dev"
    conditions = plane.admin.get(path).get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def refused_by_webhook(plane: ControlPlane) -> bool:
    """Only the webhook knows that there is no such framework."""
    job = small() | {"metadata": {"name": "probe"}}
    job["spec"]["framework"] = "none-such"
    try:
        plane.admin.create(JOBS, job, dryRun="All")
    except ApiError as error:
        return "spec.framework" in error.message
    return False


@contextmanager
def stored(plane: ControlPlane, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    made = plane.admin.create(JOBS, job)
    try:
        yield made
    finally:
        plane.admin.delete(f"{JOBS}/{made['metadata']['name']}")
