"""Operators as real processes on the tests' control plane, and the jobs that are given to them.

A process belongs to the control plane's bed, so that nothing is left of it whatever becomes of the
tests. It looks at the jobs of one namespace only: tests do not meet each other's jobs.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube.cluster.bed import free_ports
from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from mooring.install import InstallSettings, manifests, to_yaml
from mooring.install.names import NAMESPACE, OPERATOR
from support.waiting import until

GROUP = "/apis/mooring.dev/v1"
IMAGE = "mooring:0.1.0"
#: What needs a running operator in the cluster: here it runs beside it.
_LEFT_OUT = ("Deployment", "Service", "ValidatingWebhookConfiguration")


def install(plane: ControlPlane) -> None:
    """The CRDs, roles and classes of `moor install`; at once if they are there already."""
    definitions = ("trainingjobs", "pools")
    found = plane.admin.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    names = {one["metadata"]["name"] for one in found}
    if not {f"{plural}.mooring.dev" for plural in definitions} <= names:
        wanted = [one for one in manifests(InstallSettings()) if one["kind"] not in _LEFT_OUT]
        applied = plane.kubectl("apply", "-f", "-", stdin=to_yaml(wanted))
        assert applied.returncode == 0, applied.stderr
    for plural in definitions:
        until(lambda plural=plural: _served(plane, plural), f"{plural} are served", 60)  # type: ignore[misc]


def _served(plane: ControlPlane, plural: str) -> bool:
    listed = plane.kubectl("get", f"{plural}.mooring.dev", "--all-namespaces")
    return listed.returncode == 0


@dataclass(frozen=True)
class Flags:
    """How an operator runs; `more` are further flags of `moor operator`."""

    lease_s: float | None = None
    """None: no election, so that one which was killed is replaced without a wait."""
    lease_namespace: str = ""
    """Where its lease and its key lie. Default: the namespace of its jobs, or with `as_account` the
    one where the account may use them. Replicas of one operator share it."""
    as_account: bool = False
    """With the rights of the installed ServiceAccount instead of the admin's."""
    image: str = IMAGE
    more: Sequence[str] = ()
    env: Mapping[str, str] | None = None


class OperatorProcess:
    """One `moor operator`. It can be started again after its end; its log goes on."""

    def __init__(self, plane: ControlPlane, namespace: str, flags: Flags) -> None:
        self._plane, self._namespace, self._flags = plane, namespace, flags
        self.name = f"operator-{secrets.token_hex(3)}"
        [self.port] = free_ports(1)
        self.kubeconfig = plane.kubeconfig
        if flags.as_account:
            self.kubeconfig = plane.kubeconfig_for_service_account(NAMESPACE, OPERATOR)

    def command(self) -> list[str | Path]:
        flags = self._flags
        home = flags.lease_namespace or (NAMESPACE if flags.as_account else self._namespace)
        election: list[str] = ["--no-leader-elect"]
        if flags.lease_s is not None:
            election = [f"--lease-duration={flags.lease_s}"]
        return [
            sys.executable,
            "-m",
            "mooring",
            "operator",
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self._namespace}",
            f"--image={flags.image}",
            f"--metrics-port={self.port}",
            f"--operator-namespace={home}",
            *election,
            *flags.more,
        ]

    def start(self) -> None:
        """Returns when it has read what there is, or waits for its turn to lead."""
        env = {**os.environ, "POD_NAME": self.name, **(self._flags.env or {})}
        self._plane.bed.start(self.name, self.command(), env)
        until(self._ready, f"{self.name} is ready", 60)

    def kill(self) -> None:
        """SIGKILL, and its end."""
        self._plane.bed.stop(self.name, signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and its end."""
        self._plane.bed.signal(self.name, signal.SIGCONT) if self.running else None
        self._plane.bed.stop(self.name)

    def freeze(self) -> None:
        self._plane.bed.signal(self.name, signal.SIGSTOP)

    def thaw(self) -> None:
        self._plane.bed.signal(self.name, signal.SIGCONT)

    @property
    def running(self) -> bool:
        return self._plane.bed.is_running(self.name)

    @property
    def pid(self) -> int:
        return self._plane.bed.pid(self.name)

    @property
    def log(self) -> str:
        return self._plane.bed.log(self.name).read_text(errors="replace")

    @property
    def defects(self) -> list[str]:
        """Lines of its log that no operator should ever write."""
        bad = ("a defect", "Traceback", "the controller stopped")
        return [line for line in self.log.splitlines() if any(word in line for word in bad)]

    def page(self, path: str) -> str:
        """/healthz, /readyz, /metrics"""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def _ready(self) -> bool:
        self._plane.bed.check(self.name)
        try:
            self.page("/readyz")
        except OSError:
            return False
        return True


@contextmanager
def operator(
    plane: ControlPlane, namespace: str, flags: Flags | None = None
) -> Iterator[OperatorProcess]:
    """An operator for the jobs of `namespace` while the block runs."""
    install(plane)
    process = OperatorProcess(plane, namespace, flags or Flags())
    process.start()
    try:
        yield process
    except BaseException:
        print(f"--- {process.name}\n{process.log[-6000:]}")
        raise
    finally:
        process.kill()


# -- jobs


def jobs_path(namespace: str, name: str = "") -> str:
    return f"{GROUP}/namespaces/{namespace}/trainingjobs" + (f"/{name}" if name else "")


def training_job(name: str, roles: Mapping[str, int] | None = None, **spec: Any) -> Json:
    """A job of indexed members, by default two workers; `spec` adds to its spec.

    `cpu`, `memory` and `gpu` are what each member asks for.
    """
    resources = {key: spec.pop(key) for key in ("cpu", "memory", "gpu") if key in spec}
    resources = {"cpu": 1, "memory": "64Mi", **resources}
    each = {"command": ["python3", "-c", "pass"], "resources": resources}
    wanted = roles or {"worker": 2}
    return {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "framework": "indexed",
            "image": "mooring.test/python:1",
            "roles": {role: {"replicas": count, **each} for role, count in wanted.items()},
            **spec,
        },
    }


class Jobs:
    """The jobs of a namespace, as a test looks at them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane, self._namespace = plane, namespace

    def create(self, job: Json) -> Json:
        return self._plane.admin.create(jobs_path(self._namespace), job)

    def get(self, name: str) -> Json:
        return self._plane.admin.get(jobs_path(self._namespace, name))

    def status(self, name: str) -> Json:
        found: Json = self.get(name).get("status") or {}
        return found

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase") or "")

    def delete(self, name: str) -> None:
        self._plane.admin.delete(jobs_path(self._namespace, name), missing_ok=True)

    def wait_phase(self, name: str, *phases: str, deadline_s: float = 60.0) -> Json:
        """The job when it is in one of these phases."""

        def reached() -> Json | None:
            found = self.get(name)
            return found if (found.get("status") or {}).get("phase") in phases else None

        try:
            return until(reached, f"{name} is {' or '.join(phases)}", deadline_s)
        except AssertionError as problem:
            raise AssertionError(f"{problem}; it is {self.status(name)}") from None

    def pods(self, name: str) -> list[Json]:
        """Those of one job, by name."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        found = self._plane.admin.items(path, labelSelector=f"mooring.dev/job={name}")
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))
