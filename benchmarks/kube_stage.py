"""A real control plane with an operator, as the tests have it, and what the benchmarks do there.

The tests' package is found from their folder: like the benchmarks it is never installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kube_raw
import psutil

# In front of this folder, where a benchmark has the same name as the tests' package.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kube.cluster.audit import AuditEntry
from kube.cluster.binaries import MissingProgram, find
from kube.cluster.control_plane import ControlPlane, Options, control_plane
from kube.cluster.fake_nodes import NodeShape
from kube.cluster.puppets import Puppets, puppets
from kube.operator import IMAGE, Flags, OperatorProcess, install, jobs_path, training_job
from mooring.backends.kubernetes.jobs.gang_manifests import pod_manifests
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.status import decode
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.backends.kubernetes.objects.pod_manifest import Image, Owner, service_manifest
from mooring.install.names import NAMESPACE, OPERATOR
from support.waiting import until

Json = dict[str, Any]
#: By whom the API server knows them.
OPERATOR_USER = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"
ADMIN_USER = "admin"
NODES = "/api/v1/nodes"
JOB = "bench"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_DEADLINE_S = 180.0
_LEASE_S = 15.0
_QUIET_S = 2.0
_LONGEST_SETTLE_S = 20.0
_IDLE_PERCENT = 10.0
_LOOK_EVERY_S = 0.5
#: What its log says then.
_FILLED = "caches are filled"
_FLAGS = {
    "kube-apiserver": (
        # Nodes are ready when they are made: no controller has to see their condition first.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--audit-log-maxsize=10000",
    )
}


class Tail:
    """The audit log from now on."""

    def __init__(self, plane: ControlPlane) -> None:
        self._log = plane.audit
        self._at = self._log.position()
        self._seen: list[AuditEntry] = []

    def entries(self) -> list[AuditEntry]:
        """Calls that have been answered whole."""
        for entry, end in self._log.entries_at(self._at):
            self._at = end
            if entry.stage == "ResponseComplete":
                self._seen.append(entry)
        return self._seen

    def wait(self, find: Callable[[Sequence[AuditEntry]], Sequence[object]], count: int) -> None:
        """Until so many calls of a kind have been answered. Seldom looked for: the times are in the
        log, and those who are measured need the CPUs."""
        give_up_s = time.monotonic() + _DEADLINE_S
        while len(find(self.entries())) < count:
            if time.monotonic() > give_up_s:
                raise AssertionError(f"waited {_DEADLINE_S:g} s in vain for {count} calls")
            time.sleep(_LOOK_EVERY_S)


class Stage:
    """One namespace of a control plane, and an operator that is there or not."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace
        self.admin = plane.admin
        flags = Flags(lease_s=_LEASE_S, lease_namespace=NAMESPACE, as_account=True)
        self.operator = OperatorProcess(plane, namespace, flags)

    def tail(self) -> Tail:
        return Tail(self.plane)

    def submit(self, name: str, workers: int, scheduler: str = "mooring") -> None:
        # On a busy machine nobody is to be taken back because kube-scheduler is slow.
        patient = {"bindTimeout": "10m", "scheduler": scheduler}
        job = training_job(name, {"worker": workers}, gracePeriod=0, kubernetes=patient)
        self.admin.create(jobs_path(self.namespace), job)

    def send(self, first: Sequence[kube_raw.Body], then: Sequence[kube_raw.Body]) -> None:
        kube_raw.send(self.plane.kubeconfig, first, then)

    def wait_phase(self, name: str, phase: str) -> None:
        def reached() -> bool:
            self.plane.bed.check(self.operator.name)
            return (self._job(name).get("status") or {}).get("phase") == phase

        until(reached, f"{name} is {phase}", _DEADLINE_S)

    def cpu_s(self) -> dict[str, float]:
        """What each program has taken so far; `client` is this one."""
        taken_s = {"client": time.process_time()}
        for name in (*PROGRAMS, self.operator.name):
            if self.plane.bed.is_running(name):
                times = psutil.Process(self.plane.bed.pid(name)).cpu_times()
                shown = "operator" if name == self.operator.name else name
                taken_s[shown] = times.user + times.system
        return taken_s

    def pods(self) -> list[str]:
        found = self.admin.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return [str(one["metadata"]["name"]) for one in found]

    def lead(self) -> None:
        """Start the operator; until it leads and knows the cluster."""
        log = self.plane.bed.log(self.operator.name)
        before = log.read_text().count(_FILLED) if log.exists() else 0
        self.operator.start()
        until(lambda: log.read_text().count(_FILLED) > before, "the operator leads", _DEADLINE_S)

    @contextmanager
    def operating(self) -> Iterator[None]:
        """An operator that leads and has made a pod before; it resigns at the end."""
        with self._led():
            _settle()
            yield

    def operated(self) -> None:
        """Before a measurement without an operator: what precedes one with it, and the same rest.
        A control plane that has just been busy is slower for a while, and so is the machine."""
        with self._led():
            pass
        _settle()

    @contextmanager
    def _led(self) -> Iterator[None]:
        self.lead()
        try:
            self.submit("warm", 1)
            until(self.pods, "the operator makes a pod", _DEADLINE_S)
            self.clear()
            yield
        except BaseException:
            print(f"--- {self.operator.name}\n{self.operator.log[-3000:]}", file=sys.stderr)
            raise
        finally:
            self.operator.stop()
        if self.operator.defects:
            raise SystemExit("\n".join(self.operator.defects))

    @contextmanager
    def puppets(self) -> Iterator[Puppets]:
        """Pods that are bound go Running."""
        with puppets(self.admin) as strings:
            yield strings

    def end_pod(self, name: str) -> None:
        """Its containers have ended well."""
        Puppets(self.admin).finish(self.namespace, name)

    @contextmanager
    def plain_nodes(self, count: int) -> Iterator[None]:
        bodies = [kube_raw.body(NODES, NodeShape().node(f"n-{n:04d}")) for n in range(count)]
        tail = self.tail()
        self.send([], bodies)
        # The controllers put labels on new nodes, some time later.
        until(lambda: _quiet(tail, "nodes"), "nobody writes to the nodes", _DEADLINE_S)
        yield
        self.admin.delete(NODES)

    def clear(self) -> None:
        """No job, pod or service is left."""
        jobs, pods, services = (
            jobs_path(self.namespace),
            *(f"/api/v1/namespaces/{self.namespace}/{kind}" for kind in ("pods", "services")),
        )
        self.admin.delete(jobs)
        for one in self.admin.items(services):
            self.admin.delete(f"{services}/{one['metadata']['name']}", missing_ok=True)

        def empty() -> bool:
            self.admin.delete(pods, grace_s=0)
            left = (self.admin.get(path, limit="1")["items"] for path in (jobs, pods, services))
            return not any(left)

        until(empty, "nothing is left of the jobs", _DEADLINE_S)

    def record(self, name: str) -> TrainingJobRecord:
        """Where the job was placed."""
        found = self._job(name)
        members = [member.id for member in parse_training_job(found).gang.members]
        return decode(found["status"], members, 0.0)

    def bodies(
        self, name: str, record: TrainingJobRecord, *, anywhere: bool = False
    ) -> tuple[kube_raw.Body, list[kube_raw.Body]]:
        """The service and the pods that the operator makes for this job in these places; with
        `anywhere` the pods do not name their node."""
        found = self._job(name)
        parsed = parse_training_job(found)
        owner = Owner(name, self.namespace, found["metadata"]["uid"])
        made: list[Json] = list(
            pod_manifests(parsed, owner, record, list(record.slots), Image(IMAGE), has_files=False)
        )
        if anywhere:
            for pod in made:
                del pod["spec"]["affinity"]
        space = f"/api/v1/namespaces/{self.namespace}"
        service = kube_raw.body(f"{space}/services", service_manifest(parsed.job, owner))
        return service, [kube_raw.body(f"{space}/pods", pod) for pod in made]

    def _job(self, name: str) -> Json:
        return self.admin.get(jobs_path(self.namespace, name))


def _settle() -> None:
    """Until the control plane has done what came of the last calls. Not for ever: others may use
    this machine, too."""
    give_up_s = time.monotonic() + _LONGEST_SETTLE_S
    while psutil.cpu_percent(_QUIET_S) > _IDLE_PERCENT and time.monotonic() < give_up_s:
        pass


def _quiet(tail: Tail, resource: str) -> bool:
    writes = [one.answered_s for one in tail.entries() if one.is_write and one.resource == resource]
    return bool(writes) and time.time() > max(writes) + _QUIET_S


class NoKubernetes(Exception):
    """Its programs are not here: `make kube` gets them."""


@contextmanager
def stage() -> Iterator[Stage]:
    """A control plane of its own, of which nothing is left afterwards."""
    try:
        find()
    except MissingProgram as problem:
        raise NoKubernetes(str(problem)) from problem
    with control_plane(Options(flags=_FLAGS)) as plane:
        install(plane)
        yield Stage(plane, plane.create_namespace("bench"))
