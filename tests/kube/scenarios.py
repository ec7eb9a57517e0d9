"""A stage for the scenarios: one operator for all of them, puppets in place of kubelets.

Each test brings its nodes and leaves nothing: `Stage.clear` shows that by waiting until no object
of any job is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import MARK, NodeShape, fake_nodes
from kube.cluster.puppets import Puppets, puppets
from kube.operator import Jobs, jobs_path
from support.waiting import until

#: All that a job may leave behind: the API and the plural of each kind.
_KINDS = (
    ("/api/v1", "pods"),
    ("/api/v1", "services"),
    ("/api/v1", "secrets"),
    ("/api/v1", "configmaps"),
    ("/apis/networking.k8s.io/v1", "networkpolicies"),
)
_MERGE = "application/merge-patch+json"


class Stage:
    """One namespace with its jobs and the strings of its pods."""

    def __init__(self, plane: ControlPlane, namespace: str, strings: Puppets) -> None:
        self.plane, self.namespace, self.strings = plane, namespace, strings
        self.admin = plane.admin
        self.jobs = Jobs(plane, namespace)

    def submit(self, job: Json) -> str:
        """Its name. Members go to fake nodes only: a real one may be there too."""
        placement = job["spec"].setdefault("placement", {})
        placement["nodeSelector"] = {**placement.get("nodeSelector", {}), MARK: "true"}
        job["spec"].setdefault("gracePeriod", 0)
        self.jobs.create(job)
        return str(job["metadata"]["name"])

    def run(self, job: Json) -> str:
        """As `submit`, and until it runs."""
        name = self.submit(job)
        self.jobs.wait_phase(name, "Running")
        return name

    def change(self, name: str, spec: Json) -> None:
        """Merge into the job's spec."""
        self.admin.patch(jobs_path(self.namespace, name), {"spec": spec}, content_type=_MERGE)

    def note(self, name: str, key: str, value: str) -> None:
        """Annotate the job."""
        body = {"metadata": {"annotations": {key: value}}}
        self.admin.patch(jobs_path(self.namespace, name), body, content_type=_MERGE)

    def finish(self, name: str, *members: str, exit_code: int = 0) -> None:
        """These members end, or all that run."""
        named = [f"{name}-{member}" for member in members]
        for pod in named or [one["metadata"]["name"] for one in self.jobs.pods(name)]:
            self.strings.finish(self.namespace, pod, exit_code)

    def members(self, name: str) -> dict[str, str]:
        """Member -> the node that its pod is bound to."""
        return {
            pod["metadata"]["name"].removeprefix(f"{name}-"): pod["spec"].get("nodeName", "")
            for pod in self.jobs.pods(name)
        }

    def left_of(self, name: str) -> list[str]:
        """Everything that bears the job's mark, as `kind/name`."""
        found = []
        for api, kind in _KINDS:
            path = f"{api}/namespaces/{self.namespace}/{kind}"
            for one in self.admin.items(path, labelSelector=f"mooring.dev/job={name}"):
                found.append(f"{kind}/{one['metadata']['name']}")
        return found

    def delete(self, name: str) -> None:
        """Delete the job; returns when nothing of it is left."""
        self.jobs.delete(name)
        until(lambda: not self.left_of(name), f"nothing is left of {name}", 60)

    def clear(self) -> None:
        for job in self.admin.items(jobs_path(self.namespace)):
            self.delete(job["metadata"]["name"])

    @contextmanager
    def nodes(self, count: int, shape: NodeShape, prefix: str = "fake") -> Iterator[list[str]]:
        """Fake nodes, until the end of the test and of its jobs."""
        with fake_nodes(self.admin, count, shape, prefix) as names:
            try:
                yield names
            finally:
                self.clear()

    def status_when(self, name: str, holds: Callable[[Json], bool], what: str) -> Json:
        """The job's status when that holds of it."""

        def reached() -> Json | None:
            found = self.jobs.status(name)
            return found if holds(found) else None

        try:
            return until(reached, f"{name}: {what}", 60)
        except AssertionError as problem:
            raise AssertionError(f"{problem}; it is {self.jobs.status(name)}") from None


@contextmanager
def stage(plane: ControlPlane, namespace: str) -> Iterator[Stage]:
    with puppets(plane.admin) as strings:
        yield Stage(plane, namespace, strings)
