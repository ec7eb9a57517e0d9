"""Where one scenario runs: nodes and a namespace of its own, an operator, and a proxy between.

Several lanes share one control plane: jobs of a lane may go only to its nodes, and its operator
looks only at its namespace.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kube.cluster.client import ApiError, Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import Puppets
from kube.faults.nursery import Nursery
from kube.faults.proxy import Proxy, proxy
from kube.objects import pods_path
from kube.operator import Jobs, jobs_path, training_job
from support.waiting import until

#: The machine may be busy with other things: a run that is slow is not one that failed.
DEADLINE_S = 120.0
NODES, CPUS = 2, 4


class Lane:
    """Made by `lane()`, below."""

    def __init__(self, plane: ControlPlane, nursery: Nursery, strings: Puppets, name: str) -> None:
        self.plane, self.nursery, self.strings, self.name = plane, nursery, strings, name
        self.namespace = plane.create_namespace(name)
        self.jobs = Jobs(plane, self.namespace)
        self.proxy: Proxy
        self.pid = 0
        self.kills = 0
        self.flags: tuple[str, ...] = ()
        self._lock = threading.Lock()

    # The operator

    def start(self) -> None:
        arguments = [
            f"--kubeconfig={self.proxy.kubeconfig}",
            f"--namespace={self.namespace}",
            "--image=mooring:0.1.0",
            "--metrics-port=0",
            "--no-leader-elect",
            *self.flags,
        ]
        self.pid = self.nursery.start(arguments, self.name)

    def kill(self) -> None:
        with self._lock:
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
                self.pid = 0

    def kill_and_start(self) -> None:
        self.kill()
        self.kills += 1
        self.start()

    @property
    def log(self) -> str:
        file = self.nursery.logs / f"{self.name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def defects(self) -> list[str]:
        bad = ("a defect", "Traceback", "the controller stopped")
        return [line for line in self.log.splitlines() if any(word in line for word in bad)]

    # Jobs

    def job(self, name: str, **changes: Any) -> Json:
        """A job that may only go to the nodes of this lane, and whose waits are short."""
        spec: Json = {
            "placement": {"nodeSelector": {"lane": self.name}},
            "gracePeriod": "1s",
            "failurePolicy": {"restart": "gang", "maxRestarts": 3, "backoff": {"initial": "0s"}},
            **changes,
        }
        return training_job(name, **spec)

    def create(self, job: Json) -> None:
        self.jobs.create(job)

    def wait(self, name: str, phase: str, epoch: int = 0) -> None:
        def reached() -> bool:
            try:
                status = self.jobs.status(name)
            except ApiError:
                return False
            return status.get("phase") == phase and status.get("epoch", 0) == epoch

        self.until(reached, f"{name} is {phase} in epoch {epoch}")

    def wait_running(self, name: str, epoch: int, count: int) -> None:
        """The job says so, and so do its pods."""
        self.wait(name, "Running", epoch)
        self.until(lambda: len(self.running(name)) == count, f"{count} pods of {name} run")

    def until(self, condition: Any, what: str) -> None:
        try:
            until(condition, what, DEADLINE_S)
        except AssertionError as problem:
            state = json.dumps(self.state(), indent=1)[:4000]
            raise AssertionError(f"{problem}\n{self.log[-3000:]}\n{state}") from None

    def running(self, name: str) -> list[Json]:
        return [
            pod
            for pod in self.jobs.pods(name)
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def finish(self, name: str) -> None:
        for pod in self.jobs.pods(name):
            self.strings.finish(self.namespace, pod["metadata"]["name"])

    def fail(self, pod: str) -> None:
        self.strings.finish(self.namespace, pod, exit_code=1)

    # What is left at the end

    def state(self) -> Json:
        """All objects of the namespace that are Mooring's, without what differs from run to run."""
        admin, namespace = self.plane.admin, self.namespace
        jobs = admin.items(jobs_path(namespace))
        beside = [
            *admin.items(f"/api/v1/namespaces/{namespace}/secrets", labelSelector=_OF_JOBS),
            *admin.items(f"{_NETWORKING}/namespaces/{namespace}/networkpolicies"),
        ]
        kinds = {
            "jobs": [_job(one) for one in jobs],
            "pods": [_pod(one) for one in admin.items(pods_path(namespace))],
            "services": [
                _service(one) for one in admin.items(f"/api/v1/namespaces/{namespace}/services")
            ],
            "beside": [_beside(one) for one in beside],
        }
        text = json.dumps(kinds, sort_keys=True)
        for one in jobs:
            uid = one["metadata"]["uid"]
            text = text.replace(uid, "UID").replace(f"-{uid.partition('-')[0]}", "-UID")
        text = text.replace(namespace, "NAMESPACE").replace(self.name, "LANE")
        # Priorities grow while a job waits, and sentences name them.
        text = re.sub(r"\d+\.\d+(?:e-\d+)?", "NUMBER", text)
        found: Json = json.loads(text)
        return found


_OF_JOBS = "mooring.dev/job"
_NETWORKING = "/apis/networking.k8s.io/v1"
_TIMES = re.compile(r"(At|Before|Time|lastUpdate)$")


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if not _TIMES.search(key)}
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    return value


def _job(job: Json) -> Json:
    return {
        "name": job["metadata"]["name"],
        "spec": job["spec"],
        "status": _timeless(job.get("status", {})),
    }


def _pod(pod: Json) -> Json:
    about = pod["metadata"]
    return {
        "name": about["name"],
        "labels": about.get("labels"),
        "annotations": about.get("annotations"),
        "owners": about.get("ownerReferences"),
        "leaving": "deletionTimestamp" in about,
        "spec": pod["spec"],
        "phase": pod["status"].get("phase"),
    }


def _beside(one: Json) -> Json:
    """A Secret without what is in it, or a NetworkPolicy."""
    about = one["metadata"]
    keys = sorted(one.get("data") or {})
    owners = about.get("ownerReferences")
    return {"name": about["name"], "owners": owners, "keys": keys, "spec": one.get("spec")}


def _service(service: Json) -> Json:
    spec = {key: value for key, value in service["spec"].items() if not key.startswith("cluster")}
    return {
        "name": service["metadata"]["name"],
        "labels": service["metadata"].get("labels"),
        "owners": service["metadata"].get("ownerReferences"),
        "spec": spec,
    }


@contextmanager
def lane(
    plane: ControlPlane, nursery: Nursery, strings: Puppets, flags: tuple[str, ...] = ()
) -> Iterator[Lane]:
    """Its operator runs, behind a proxy that passes everything on."""
    name = f"lane-{secrets.token_hex(3)}"
    with ExitStack() as stack:
        shape = NodeShape(cpus=CPUS, labels={"lane": name})
        stack.enter_context(fake_nodes(plane.admin, NODES, shape, name))
        made = Lane(plane, nursery, strings, name)
        stack.callback(plane.delete_namespace, made.namespace)
        made.proxy = stack.enter_context(proxy(plane))
        made.flags = flags
        stack.callback(made.kill)
        yield made
