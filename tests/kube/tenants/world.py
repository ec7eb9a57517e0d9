"""Two tenants of one cluster: a good namespace, and a hostile one beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from kube.cluster.client import ApiError, Client, Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import Puppets, puppets
from kube.objects import pods_path
from kube.operator import GROUP, Flags, Jobs, OperatorProcess, install, jobs_path, training_job
from kube.operator import operator as run_operator
from mooring.backends.kubernetes.jobs.training_job import STOP
from support.waiting import until

POOL = "good"
STEADY = "steady"
NODE_CPUS = 8
#: How long a look at the operator's page may take: what one job costs the others at most.
LONGEST_PAUSE_S = 3.0
MOST_GROWTH_BYTES = 128 * 2**20


class Pauses:
    """Asks the operator for its health, all the time: its answer waits for its loop."""

    def __init__(self, process: OperatorProcess) -> None:
        self.longest_s = 0.0
        self._process, self._ended = process, threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.05):
            began_s = time.monotonic()
            try:
                self._process.page("/healthz")
            except OSError:
                pass
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    def end(self) -> None:
        self._ended.set()


@dataclass
class World:
    """`mallory` may do in `evil` what Kubernetes' own role `edit` allows, and nothing elsewhere."""

    plane: ControlPlane
    good: str
    evil: str
    mallory: Client
    nodes: list[str]
    operator: OperatorProcess
    strings: Puppets
    pauses: Pauses
    rss_before_bytes: int = 0
    took_s: list[float] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.plane, self.good)

    @property
    def hostile(self) -> Jobs:
        return Jobs(self.plane, self.evil)

    def rss_bytes(self) -> int:
        pages = Path(f"/proc/{self.operator.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    def submit(self, name: str, roles: dict[str, int] | None = None, **spec: object) -> Json:
        """A job of the hostile tenant."""
        job = training_job(name, roles, **spec)
        return self.mallory.create(jobs_path(self.evil), job)

    def edit(self, name: str, spec: Json) -> None:
        self.mallory.patch(jobs_path(self.evil, name), {"spec": spec})

    def good_jobs_live_as_ever(self) -> None:
        """One is admitted, runs and succeeds, another is stopped; and one just goes on."""
        began_s = time.monotonic()
        number = next(self._numbers)
        work, halt = f"work-{number}", f"halt-{number}"
        for name in (work, halt):
            self.jobs.create(training_job(name, pool=POOL, gracePeriod="1s"))
        for name in (work, halt):
            found = self.jobs.wait_phase(name, "Running", deadline_s=60)
            assert found["status"]["restarts"] == 0
            assert "takenBack" not in found["status"]["record"], found["status"]
        at = {"metadata": {"annotations": {STOP: "now"}}}
        self.plane.admin.patch(jobs_path(self.good, halt), at)
        for pod in self.jobs.pods(work):
            self.strings.finish(self.good, pod["metadata"]["name"])
        self.jobs.wait_phase(work, "Succeeded", deadline_s=60)
        self.jobs.wait_phase(halt, "Stopped", deadline_s=60)
        self.took_s.append(time.monotonic() - began_s)
        for name in (work, halt):
            self.jobs.delete(name)
        steady = self.jobs.status(STEADY)
        assert (steady["phase"], steady["restarts"], steady["epoch"]) == ("Running", 0, 0)

    def clear(self) -> None:
        """What the hostile tenant has left, without asking it."""
        admin = self.plane.admin
        for job in admin.items(jobs_path(self.evil)):
            path = jobs_path(self.evil, job["metadata"]["name"])
            if job["metadata"].get("finalizers"):
                admin.patch(path, {"metadata": {"finalizers": None}})
            admin.delete(path, missing_ok=True)
        for path in (pods_path(self.evil), f"/api/v1/namespaces/{self.evil}/services"):
            for one in admin.items(path):
                admin.delete(f"{path}/{one['metadata']['name']}", grace_s=0, missing_ok=True)
        until(lambda: not admin.items(pods_path(self.evil)), "nothing of it is left", 60)


@contextmanager
def world(plane: ControlPlane) -> Iterator[World]:
    install(plane)
    good, evil = plane.create_namespace("good"), plane.create_namespace("evil")
    admin = plane.admin
    pools = {
        POOL: {"guaranteed": {"cpu": 2 * NODE_CPUS}, "namespaces": [good]},
        "default": {"maxPriority": "normal"},
    }
    for name, spec in pools.items():
        about = {"apiVersion": "mooring.dev/v1", "kind": "Pool", "metadata": {"name": name}}
        admin.create(f"{GROUP}/pools", {**about, "spec": spec})
    mallory = plane.client(plane.kubeconfig_for_user("mallory"))
    _bind(admin, evil)
    until(lambda: _may_submit(mallory, evil), "mallory may submit jobs", 60)
    flags = Flags(as_account=True, more=(f"--namespace={evil}", "--figures-every=1"))
    try:
        with (
            fake_nodes(admin, 4, NodeShape(cpus=NODE_CPUS), "tenants") as nodes,
            puppets(admin) as strings,
            run_operator(plane, good, flags) as process,
        ):
            pauses = Pauses(process)
            made = World(plane, good, evil, mallory, nodes, process, strings, pauses)
            made.jobs.create(training_job(STEADY, pool=POOL))
            made.jobs.wait_phase(STEADY, "Running")
            made.good_jobs_live_as_ever()
            made.rss_before_bytes = made.rss_bytes()
            watching = threading.Thread(target=pauses.run)
            watching.start()
            try:
                yield made
            finally:
                pauses.end()
                watching.join()
                made.clear()
                made.jobs.delete(STEADY)
    finally:
        for name in pools:
            admin.delete(f"{GROUP}/pools/{name}", missing_ok=True)
        for name in (good, evil):
            plane.delete_namespace(name)


def _bind(admin: Client, namespace: str) -> None:
    """To `edit`, which includes `mooring-edit` by aggregation."""
    api = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "mallory"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "mallory"}],
    }
    admin.create(f"/apis/{api}/v1/namespaces/{namespace}/rolebindings", binding)


def _may_submit(mallory: Client, namespace: str) -> bool:
    try:
        mallory.create(jobs_path(namespace), training_job("probe"), dryRun="All")
    except ApiError:
        return False
    return True
