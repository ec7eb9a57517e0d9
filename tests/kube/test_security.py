"""Rights, secrets and hostile texts, on a real API server (docs/security.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.cluster.client import ApiError, Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import Puppets, puppets
from kube.hostile import hostile
from kube.operator import Flags, Jobs, jobs_path, training_job
from kube.operator import operator as run_operator
from mooring.install import Settings
from mooring.install.names import LEASE, NAMESPACE, OPERATOR
from mooring.install.rbac import grants
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

#: (resource, verb) granted for what this cluster does not have or these jobs do not need.
#: Every entry says when it is used; docs/security.md repeats them.
OPTIONAL = {
    ("nodes", "get"): "a watch that starts over reads one object",
    ("pools", "get"): "a watch that starts over reads one object",
    ("trainingjobs", "get"): "a watch that starts over reads one object",
    ("pods", "get"): "a pod of the same name is in the way",
    ("pools/status", "patch"): "what a pool's jobs hold",
    ("pools/status", "update"): "what a pool's jobs hold",
    ("noderesourcetopologies", "get"): "clusters that publish NUMA cells",
    ("noderesourcetopologies", "list"): "clusters that publish NUMA cells",
    ("noderesourcetopologies", "watch"): "clusters that publish NUMA cells",
    ("priorityclasses", "get"): "whether the class of job pods exists",
    ("validatingwebhookconfigurations", "get"): "the webhook (test_install.py)",
    ("validatingwebhookconfigurations", "patch"): "the webhook (test_install.py)",
    ("pods/proxy", "get"): "jobs whose members report steps",
    ("services", "get"): "server-side apply on servers that read first",
    ("services", "create"): "server-side apply, where it makes the Service",
    ("services", "delete"): "a Service whose job lives on",
    ("events", "patch"): "events that are counted instead of repeated",
    ("trainingjobs/status", "patch"): "single fields of the status",
}


@pytest.fixture(scope="module")
def strings(control_plane: ControlPlane) -> Iterator[Puppets]:
    admin = control_plane.admin
    shape = NodeShape(cpus=16, labels={"for": "security"})
    with fake_nodes(admin, 2, shape, "secure"), puppets(admin) as made:
        yield made


def job(name: str, **spec: Any) -> Json:
    place = {"nodeSelector": {"for": "security"}}
    restart = {"restart": "gang", "backoff": {"initial": "0s"}}
    wanted = {"placement": place, "failurePolicy": restart, "gracePeriod": "1s", **spec}
    return training_job(name, **wanted)


def finish(strings: Puppets, jobs: Jobs, namespace: str, name: str, code: int = 0) -> None:
    for pod in jobs.pods(name):
        strings.finish(namespace, pod["metadata"]["name"], exit_code=code)


def wait_epoch(jobs: Jobs, name: str, epoch: int) -> None:
    def reached() -> bool:
        found = jobs.status(name)
        return found.get("phase") == "Running" and found.get("epoch", 0) == epoch

    until(reached, f"{name} runs in epoch {epoch}", 90)


def test_what_is_granted_is_what_is_used(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    since = control_plane.audit.position()
    flags = Flags(as_account=True, lease_s=5, lease_namespace=NAMESPACE)
    with run_operator(control_plane, namespace, flags) as operator:
        jobs.create(job("fails", kubernetes={"ttlAfterFinished": "1s"}))
        jobs.wait_phase("fails", "Running", deadline_s=90)
        strings.finish(namespace, "fails-worker-0", exit_code=1)
        wait_epoch(jobs, "fails", 1)
        jobs.create(_mpi())
        jobs.wait_phase("ranks", "Running", deadline_s=90)
        finish(strings, jobs, namespace, "fails")

        def gone() -> bool:
            try:
                jobs.get("fails")
            except ApiError as error:
                return error.status == 404
            return False

        until(gone, "the finished job is deleted after its time", 90)
        operator.stop()
        assert operator.defects == []
    user = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"
    asked = list(control_plane.audit.entries(since=since, user=user))
    assert [one for one in asked if one.code == 403] == []
    used = {(_resource(one), one.verb) for one in asked}
    granted = {
        (resource, verb)
        for grant in grants(Settings())
        for resource in grant.resources
        for verb in grant.verbs
    }
    assert used <= granted
    assert granted - used <= set(OPTIONAL), "granted, and neither used nor explained"
    assert set(OPTIONAL) <= granted, "explained, and not granted"
    leases = {one.name for one in asked if one.resource == "leases" and one.verb == "update"}
    assert leases == {LEASE}


def _resource(entry: Any) -> str:
    return entry.resource + (f"/{entry.subresource}" if entry.subresource else "")


def _mpi() -> Json:
    made = job("ranks", roles={"launcher": 1, "worker": 2})
    made["spec"]["framework"] = "mpi"
    made["spec"]["roles"]["launcher"]["command"] = ["mpirun", "python3", "train.py"]
    del made["spec"]["roles"]["worker"]["command"]
    return made


CANARIES = {name: f"canary-{name}-4f1d9c" for name in ("env", "argument", "secret", "annotation")}


def test_secrets_of_jobs_are_told_to_nobody(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    admin = control_plane.admin
    secret = {"metadata": {"name": "s"}, "stringData": {"k": CANARIES["secret"]}}
    admin.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    kubernetes = {
        "secretEnv": {"TOKEN": {"secret": "s", "key": "k"}},
        "annotations": {"note": CANARIES["annotation"]},
    }
    wanted = job("quiet", env={"PASSWORD": CANARIES["env"]}, kubernetes=kubernetes)
    wanted["spec"]["roles"]["worker"]["command"] = ["train", f"--key={CANARIES['argument']}"]
    bad = {**kubernetes, "labels": {"bad label!": "x"}}
    refused = job("refused", env={"PASSWORD": CANARIES["env"]}, kubernetes=bad)
    with run_operator(control_plane, namespace) as operator:
        jobs.create(wanted)
        jobs.create(refused)
        jobs.wait_phase("quiet", "Running", deadline_s=90)
        strings.finish(namespace, "quiet-worker-1", exit_code=1, reason="Error")
        wait_epoch(jobs, "quiet", 1)
        finish(strings, jobs, namespace, "quiet", code=1)
        wait_epoch(jobs, "quiet", 2)
        finish(strings, jobs, namespace, "quiet")
        jobs.wait_phase("quiet", "Succeeded", deadline_s=90)
        until(lambda: "refuses" in jobs.status("refused").get("message", ""), "it is told", 90)
        events = admin.items(f"/api/v1/namespaces/{namespace}/events")
        told = {
            "log": operator.log,
            "metrics": operator.page("/metrics"),
            "events": json.dumps(events),
            "status": json.dumps([jobs.status("quiet"), jobs.status("refused")]),
        }
        assert operator.defects == []
    assert "quiet" in told["log"]
    assert events
    shown = [
        (where, name) for where, text in told.items() for name in CANARIES if CANARIES[name] in text
    ]
    assert shown == []


def test_hostile_texts_arrive_as_they_are_or_are_refused(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, strings: Puppets, tmp_path: Path
) -> None:
    mark = tmp_path / "executed"
    texts = hostile(mark)
    kubernetes = {"annotations": {f"t/{i}": one for i, one in enumerate(texts)}}
    wanted = job(
        "verbatim",
        roles={"worker": 1},
        env={f"T{i}": one for i, one in enumerate(texts)},
        kubernetes=kubernetes,
    )
    wanted["spec"]["roles"]["worker"]["command"] = ["program", *texts]
    with run_operator(control_plane, namespace) as operator:
        jobs.create(wanted)
        jobs.wait_phase("verbatim", "Running", deadline_s=90)
        [pod] = jobs.pods("verbatim")
        container = pod["spec"]["containers"][0]
        env = {one["name"]: one.get("value", "").replace("$$", "$") for one in container["env"]}
        assert [env[f"T{i}"] for i in range(len(texts))] == texts
        assert json.loads(env["MOORING_CONTRACT"])["argv"][1:] == texts
        found = pod["metadata"]["annotations"]
        assert [found[f"t/{i}"] for i in range(len(texts))] == texts
        tried, accepted = _one_by_one(control_plane, namespace, texts)
        assert tried == len(FIELDS) * len(texts)
        # They would wait before it.
        control_plane.admin.delete(jobs_path(namespace))
        jobs.create(job("after"))
        jobs.wait_phase("after", "Running", deadline_s=120)
        assert operator.defects == []
        print(f"\n{tried} hostile fields: {accepted} accepted, the others refused")
    assert not mark.exists()


#: Fields that the server or the operator checks, by how a text gets into a job.
FIELDS: dict[str, Any] = {
    "metadata.name": lambda one, text: one["metadata"].update(name=text),
    "metadata.labels": lambda one, text: one["metadata"].update(labels={"l": text}),
    "metadata.labels key": lambda one, text: one["metadata"].update(labels={text: "v"}),
    "roles": lambda one, text: one["spec"].update(roles={text: one["spec"]["roles"]["worker"]}),
    "env name": lambda one, text: one["spec"].update(env={text: "v"}),
    "image": lambda one, text: one["spec"].update(image=text),
    "framework": lambda one, text: one["spec"].update(framework=text),
    "workingDir": lambda one, text: one["spec"].update(workingDir=text),
    "files": lambda one, text: one["spec"].update(files=[text]),
    "pool": lambda one, text: one["spec"].update(pool=text),
    "nodeSelector": lambda one, text: one["spec"].update(placement={"nodeSelector": {"for": text}}),
    "pod label": lambda one, text: one["spec"].update(kubernetes={"labels": {"l": text}}),
    "serviceAccountName": lambda one, text: one["spec"].update(
        kubernetes={"serviceAccountName": text}
    ),
    "python": lambda one, text: one["spec"].update(kubernetes={"python": text}),
    "secret": lambda one, text: one["spec"].update(
        kubernetes={"secretEnv": {"A": {"secret": text, "key": text}}}
    ),
    "volume": lambda one, text: one["spec"].update(
        kubernetes={
            "volumes": [{"name": text, "emptyDir": {}}],
            "volumeMounts": [{"name": text, "mountPath": text}],
        }
    ),
}


def _one_by_one(plane: ControlPlane, namespace: str, texts: list[str]) -> tuple[int, int]:
    """Each text in each field of a job of its own, which the operator gets to see."""
    path = jobs_path(namespace)
    tried = accepted = 0
    for field, put in FIELDS.items():
        for index, one in enumerate(texts):
            made = job(f"h-{tried}", roles={"worker": 1})
            put(made, one)
            tried += 1
            try:
                # The operator looks at some of each field; the server at all.
                look = {} if index % 20 == 0 else {"dryRun": "All"}
                plane.admin.create(path, made, **look)
                accepted += 1
            except ApiError as error:
                assert error.status in (400, 404, 413, 422), (field, one, error)
    return tried, accepted
