"""What `moor install` prints, on a real API server: it applies, refuses, shows, allows little."""

from __future__ import annotations

import asyncio
import copy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from sample_jobs import SHORTEST, full
from test_bad_job_files import _DELETE, WRONG_VALUES

from kube.cluster.client import ApiError, Client
from kube.cluster.control_plane import ControlPlane, Options
from kube.cluster.control_plane import control_plane as run_control_plane
from kube.conftest import require
from mooring.install import Settings
from mooring.install.names import WEBHOOK_CONFIGURATION, WEBHOOK_PATH
from mooring.install.rbac import Grant, Where, grants
from mooring.operator.jobs import meaning_of
from mooring.operator.serving import open_port, serve_webhook
from mooring.operator.webhook import webhook_application
from mooring.spec import TrainingJob, load_job, parse_job
from support.waiting import until

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/job.yaml"))
GROUP = "/apis/mooring.dev/v1"
JOBS = f"{GROUP}/namespaces/default/trainingjobs"
REGISTRATION = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + WEBHOOK_CONFIGURATION
)
#: An API server drops fields that its schema does not name before anybody could complain. kubectl
#: and `moor submit` refuse them.
DROPPED = ("replcas", "node_selector", "time_limit", "zzz")


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


def changed(path: str, value: object) -> dict[str, Any]:
    """That job with one value changed, or taken out."""
    job = every_field()
    here: Any = job
    *way, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
    for part in way:
        here = here[part]
    if value is _DELETE:
        del here[last]
    else:
        here[last] = value
    return job


def meant(stored: Mapping[str, Any]) -> TrainingJob:
    """What the operator takes it for."""
    return meaning_of(stored).job


def moor_install(*options: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "mooring", "install", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster of its own: what is installed here is cluster-wide."""
    require("etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
    with run_control_plane() as plane:
        install_on(plane)
        yield plane


def install_on(plane: ControlPlane) -> None:
    applied = plane.kubectl("apply", "-f", "-", stdin=moor_install())
    assert applied.returncode == 0, applied.stderr
    for name in ("trainingjobs", "pools"):
        until(lambda name=name: established(plane, name), f"{name} are served")


def established(plane: ControlPlane, plural: str) -> bool:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.mooring.dev"
    conditions = plane.admin.get(path).get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane) -> Iterator[None]:
    """The webhook as a replica serves it, with the rights of the operator's own account.

    The server calls it by URL: there is no kube-proxy that would make the Service reachable.
    """
    account = plane.kubeconfig_for_service_account("mooring-system", "mooring-operator")
    with serving(plane, Client(account)):
        yield


@contextmanager
def serving(plane: ControlPlane, operator: Client) -> Iterator[None]:
    before = plane.admin.get(REGISTRATION)["webhooks"]
    listener = open_port(0)
    url = f"https://localhost:{listener.getsockname()[1]}{WEBHOOK_PATH}"
    by_url = [{**one, "clientConfig": {"url": url}} for one in before]
    plane.admin.patch(REGISTRATION, {"webhooks": by_url})

    async def read() -> Mapping[str, Any]:
        return await asyncio.to_thread(operator.get, REGISTRATION)

    async def patch(body: dict[str, Any]) -> bool:
        try:
            await asyncio.to_thread(operator.patch, REGISTRATION, body)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    loop = asyncio.new_event_loop()
    task = loop.create_task(
        serve_webhook(
            webhook_application(lambda obj: meaning_of(obj).job),
            listener=listener,
            host_name="localhost",
            replica="test",
            read=read,
            patch=patch,
        )
    )

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: refused_by_webhook(plane), "the API server trusts the webhook")
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()
        plane.admin.patch(REGISTRATION, {"webhooks": before})


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


def test_applying_again_changes_nothing(plane: ControlPlane) -> None:
    for form in ("yaml", "json"):
        again = plane.kubectl("apply", "-f", "-", stdin=moor_install("-o", form))
        assert again.returncode == 0, again.stderr
        assert not again.stderr
        lines = again.stdout.splitlines()
        assert len(lines) > 15
        assert [line for line in lines if not line.endswith(" unchanged")] == []


def test_the_server_finds_the_schemas_structural(plane: ControlPlane) -> None:
    for plural in ("trainingjobs", "pools"):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.mooring.dev"
        conditions = plane.admin.get(path)["status"]["conditions"]
        assert {one["type"]: one["status"] for one in conditions} == {
            "NamesAccepted": "True",
            "Established": "True",
        }


def test_the_server_is_asked_for_its_version(plane: ControlPlane) -> None:
    told = moor_install("--kubeconfig", str(plane.kubeconfig))
    major, minor = plane.programs.version
    assert told == moor_install("--kube-version", f"{major}.{minor}")


def test_rules_in_cel_are_taken_or_dropped_as_the_servers_version_says(plane: ControlPlane) -> None:
    definition = next(iter(yaml.safe_load_all(moor_install("--kube-version", "1.29"))))
    definition["metadata"]["name"] = "trainingjobs.cel.mooring.dev"
    definition["spec"]["group"] = "cel.mooring.dev"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    # Not kept: kubectl would find two kinds of that name.
    kept = str(plane.admin.create(path, definition, dryRun="All")["spec"])
    assert ("x-kubernetes-validations" in kept) == (plane.programs.version >= (1, 25))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_is_taken_as_it_is_and_comes_back_the_same(
    plane: ControlPlane, webhook: None, path: Path
) -> None:
    """With an image, which pods need and processes do not."""
    document = yaml.safe_load(path.read_text())
    document["spec"].setdefault("image", "registry.example/train:1")
    answer = plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(document))
    assert answer.returncode == 0, answer.stderr
    job = load_job(path, [f"image={document['spec']['image']}"])
    stored_path = f"{JOBS}/{job.metadata.name}"
    try:
        assert meant(plane.admin.get(stored_path)) == job
    finally:
        plane.admin.delete(stored_path)


def test_a_job_with_every_field_comes_back_the_same(plane: ControlPlane, webhook: None) -> None:
    with stored(plane, every_field()) as made:
        assert meant(made) == parse_job(yaml.safe_dump(every_field()), "job")


def test_defaults_are_filled_in_by_the_server(plane: ControlPlane) -> None:
    with stored(plane, small()) as made:
        assert made["spec"]["roles"]["worker"]["processes"] == 1
        assert made["spec"]["startTimeout"] == "5m"
        assert made["spec"]["threads"] == "auto"


def test_resources_beside_cpu_and_pieces_of_pods_are_kept(plane: ControlPlane) -> None:
    job = every_field()
    job["spec"]["roles"]["worker"]["resources"]["example.com/fpga"] = 2
    volume = {"name": "data", "csi": {"driver": "d.example", "volumeAttributes": {"a": "b"}}}
    job["spec"]["kubernetes"] = {"volumes": [volume]}
    with stored(plane, job) as made:
        assert made["spec"]["roles"]["worker"]["resources"]["example.com/fpga"] == 2
        assert made["spec"]["kubernetes"]["volumes"] == [volume]


def _dropped(path: str) -> bool:
    return path.rpartition("/")[2] in DROPPED


#: Where JSON has no difference (1.0 is a whole number), or the server drops the value (null).
HARMLESS = [("spec/roles/worker/replicas", 1.0), ("spec/env", {"A": None})]
WRONG = [
    pytest.param(path, value, id=f"{path}={value!r:.40}")
    for path, value, *_ in WRONG_VALUES
    if not _dropped(path) and (path, value) not in HARMLESS
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_what_a_job_file_may_not_say_is_refused(
    plane: ControlPlane, webhook: None, path: str, value: object
) -> None:
    with pytest.raises(ApiError) as refused:
        plane.admin.create(JOBS, changed(path, value), dryRun="All")
    # 500: what this version of the server says of an object without an apiVersion
    assert refused.value.status in (400, 422) or path == "apiVersion"


@pytest.mark.parametrize(
    ("path", "value"),
    [row[:2] for row in WRONG_VALUES if _dropped(row[0]) and row[1] is not None],
)
def test_what_the_server_would_drop_is_refused_by_kubectl(
    plane: ControlPlane, path: str, value: object
) -> None:
    answer = plane.kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(changed(path, value))
    )
    assert answer.returncode == 1
    assert "unknown field" in answer.stderr and path.rpartition("/")[2] in answer.stderr


def test_a_refusal_names_field_found_and_accepted(plane: ControlPlane, webhook: None) -> None:
    text = yaml.safe_dump(changed("spec/successPolicy/roles", ["wrker"]))
    answer = plane.kubectl("create", "-f", "-", stdin=text)
    assert answer.returncode == 1
    assert "spec.successPolicy.roles[0]: found unknown role 'wrker'" in answer.stderr
    assert "did you mean 'worker'?" in answer.stderr


def test_a_job_may_grow_but_not_become_another(plane: ControlPlane, webhook: None) -> None:
    with stored(plane, every_field()):
        path = f"{JOBS}/wide-deep"
        plane.admin.patch(f"{path}/status", {"status": {"phase": "Running"}})
        plane.admin.patch(path, {"spec": {"roles": {"worker": {"replicas": 3}}}})
        for change, field in [
            ({"framework": "indexed", "strategy": None, "traffic": None}, "spec.framework"),
            ({"roles": {"ps": None}}, "spec."),
            ({"image": "registry.example/other:1"}, "spec.image"),
        ]:
            with pytest.raises(ApiError, match=field) as refused:
                plane.admin.patch(path, {"spec": change})
            assert refused.value.status == 422


def test_without_a_webhook_that_answers_jobs_can_still_be_made(plane: ControlPlane) -> None:
    """The operator checks again; an installation must not be held up by its own checks."""
    before = plane.admin.get(REGISTRATION)["webhooks"]
    nobody = [{**one, "clientConfig": {"url": "https://localhost:1/"}} for one in before]
    plane.admin.patch(REGISTRATION, {"webhooks": nobody})
    try:
        until(lambda: not refused_by_webhook(plane), "the API server goes on without the webhook")
    finally:
        plane.admin.patch(REGISTRATION, {"webhooks": before})


def test_the_status_is_a_subresource_and_kubectl_shows_it_in_columns(plane: ControlPlane) -> None:
    job = small()
    status = {
        "phase": "Running",
        "reason": "AllReady",
        "message": "all members run",
        "stage": "Admitted",
        "ready": "3/4",
        "pool": "ads",
        "epoch": 2,
        "restarts": 1,
        "placement": {"worker": ["n1", "n2"]},
        "record": {"members": {"worker-0": {"state": "failed", "attempt": 2}}},
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "reason": "AllReady",
                "message": "all members run",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            }
        ],
        "queuedAt": "2030-01-01T00:00:00Z",
        "examplesPerSecond": 1234.5,
        "steps": 40,
        "observedGeneration": 1,
    }
    with stored(plane, job) as made:
        path = f"{JOBS}/demo"
        plane.admin.patch(path, {"status": {"phase": "Succeeded"}})
        assert "status" not in plane.admin.get(path)
        after = plane.admin.patch(f"{path}/status", {"status": status})
        assert after["status"] == status
        assert after["metadata"]["generation"] == made["metadata"]["generation"]
        head, row = columns(plane, "get", "tj")
        assert head == ["NAME", "PHASE", "READY", "POOL", "AGE", "EXAMPLES/S"]
        assert [*row[:4], row[5]] == ["demo", "Running", "3/4", "ads", "1234.5"]
        head, row = columns(plane, "get", "trainingjobs", "-o", "wide")
        assert (head[-1], row[-1]) == ("REASON", "AllReady")


def columns(plane: ControlPlane, *arguments: str) -> tuple[list[str], list[str]]:
    answer = plane.kubectl(*arguments)
    assert answer.returncode == 0, answer.stderr
    head, row = answer.stdout.splitlines()
    return head.split(), row.split()


def test_explain_knows_the_fields(plane: ControlPlane) -> None:
    until(
        lambda: plane.kubectl("explain", "tj.spec.roles.replicas").returncode == 0,
        "the schema is published",
    )
    assert "How many members" in plane.kubectl("explain", "tj.spec.roles.replicas").stdout


def test_pools(plane: ControlPlane) -> None:
    pool = {
        "apiVersion": "mooring.dev/v1",
        "kind": "Pool",
        "metadata": {"name": "ads"},
        "spec": {"guaranteed": {"gpu": 8, "cpu": "64"}, "cap": {"gpu": 16}, "weight": 2},
    }
    made = plane.admin.create(f"{GROUP}/pools", pool)
    try:
        assert made["spec"] == pool["spec"]
        head, row = columns(plane, "get", "mpool")
        assert (head[:4], row[1]) == (["NAME", "RUNNING", "WAITING", "WEIGHT"], "2")
    finally:
        plane.admin.delete(f"{GROUP}/pools/ads")
    for path, value in [
        (("spec", "weight"), 0),
        (("spec", "weight"), "2"),
        (("spec", "guaranteed", "gpu"), "many"),
        (("metadata", "name"), "a" * 64),
        (("spec",), None),
    ]:
        bad = copy.deepcopy(pool)
        here: dict[str, Any] = bad
        for part in path[:-1]:
            here = here[part]
        here[path[-1]] = value
        with pytest.raises(ApiError) as refused:
            plane.admin.create(f"{GROUP}/pools", bad)
        assert refused.value.status == 422


def test_what_no_schema_can_say_of_a_pool_the_webhook_says(
    plane: ControlPlane, webhook: None
) -> None:
    pool = {
        "apiVersion": "mooring.dev/v1",
        "kind": "Pool",
        "metadata": {"name": "ads"},
        "spec": {"guaranteed": {"example.com/fpga": 8}},
    }
    with pytest.raises(ApiError, match="pools divide no others") as refused:
        plane.admin.create(f"{GROUP}/pools", pool)
    assert refused.value.status == 422


def may(client: Client, grant: Grant, verb: str, namespace: str | None, resource: str) -> bool:
    """Asked with the account's own rights."""
    name, _, subresource = resource.partition("/")
    attributes = {
        "group": grant.group,
        "resource": name,
        "subresource": subresource,
        "verb": verb,
        "namespace": namespace,
        "name": grant.names[0] if grant.names else "",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    allowed: bool = client.create(path, review)["status"]["allowed"]
    return allowed


FORBIDDEN = [
    Grant(Where.JOBS, "", ("secrets",), ("get", "list", "watch", "update", "delete"), ""),
    Grant(Where.OWN, "", ("configmaps",), ("get", "list", "create"), ""),
    Grant(Where.JOBS, "", ("pods/exec", "pods/log", "pods/attach"), ("create", "get"), ""),
    Grant(Where.JOBS, "", ("pods",), ("update", "patch", "deletecollection"), ""),
    Grant(Where.JOBS, "mooring.dev", ("trainingjobs",), ("create", "update", "patch"), ""),
    Grant(Where.CLUSTER, "", ("nodes",), ("update", "patch", "delete"), ""),
    Grant(Where.CLUSTER, "", ("nodes/proxy",), ("get",), ""),
    Grant(Where.CLUSTER, "mooring.dev", ("pools",), ("create", "update", "delete"), ""),
    Grant(Where.CLUSTER, "rbac.authorization.k8s.io", ("clusterroles",), ("get", "bind"), ""),
    Grant(
        Where.CLUSTER,
        "admissionregistration.k8s.io",
        ("validatingwebhookconfigurations",),
        ("get", "patch"),
        "",
        ("others",),
    ),
    Grant(Where.OWN, "coordination.k8s.io", ("leases",), ("get", "update"), "", ("others",)),
]


def test_the_operator_may_do_what_the_table_says_and_no_more(plane: ControlPlane) -> None:
    account = plane.kubeconfig_for_service_account("mooring-system", "mooring-operator")
    operator = Client(account)
    places = {Where.CLUSTER: None, Where.JOBS: "default", Where.OWN: "mooring-system"}
    granted = [(grant, True) for grant in grants(Settings())]
    for grant, allowed in granted + [(grant, False) for grant in FORBIDDEN]:
        for resource in grant.resources:
            for verb in grant.verbs:
                answer = may(operator, grant, verb, places[grant.where], resource)
                assert answer is allowed, (verb, resource, grant.where)


def test_people_get_jobs_with_the_clusters_own_roles(plane: ControlPlane) -> None:
    clients = {}
    for user, role in (("vic", "view"), ("eda", "edit")):
        body = {
            "metadata": {"name": user},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        plane.admin.create(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", body
        )
        clients[user] = Client(plane.kubeconfig_for_user(user))
    jobs = Grant(Where.JOBS, "mooring.dev", ("trainingjobs",), (), "")
    pools = Grant(Where.CLUSTER, "mooring.dev", ("pools",), (), "")
    until(
        lambda: may(clients["eda"], jobs, "create", "default", "trainingjobs"),
        "the controller has joined the roles",
    )
    assert may(clients["vic"], jobs, "list", "default", "trainingjobs")
    assert not may(clients["vic"], jobs, "create", "default", "trainingjobs")
    assert not may(clients["eda"], jobs, "patch", "default", "trainingjobs/status")
    assert not may(clients["eda"], pools, "create", None, "pools")


def own_address() -> str:
    """An address of this machine that an Endpoints object may hold: not a loopback one."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not ip_address(one.address).is_loopback:
                return one.address
    pytest.skip("this machine has no address but loopback")


def test_the_operator_serves_the_webhook_behind_its_service() -> None:
    """`moor operator` with its own account. The server goes to the Service's endpoints itself
    (aggregator routing), as there is no kube-proxy, and the endpoints are this machine.
    """
    require("etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
    flags = {"kube-apiserver": ["--enable-aggregator-routing=true"]}
    with run_control_plane(Options(flags=flags)) as plane:
        install_on(plane)
        with open_port(0) as probe:
            port = probe.getsockname()[1]
        own = "/api/v1/namespaces/mooring-system"
        # Without a selector nobody else writes its endpoints.
        plane.admin.patch(f"{own}/services/mooring-webhook", {"spec": {"selector": None}})
        plane.admin.delete(f"{own}/endpoints/mooring-webhook", missing_ok=True)
        subset = {
            "addresses": [{"ip": own_address()}],
            "ports": [{"name": "webhook", "port": port}],
        }
        endpoints = {"metadata": {"name": "mooring-webhook"}, "subsets": [subset]}
        plane.admin.create(f"{own}/endpoints", endpoints)
        account = plane.kubeconfig_for_service_account("mooring-system", "mooring-operator")
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mooring", "operator", f"--kubeconfig={account}"),
                *("--operator-namespace=mooring-system", "--image=mooring:test"),
                *("--metrics-port=0", f"--webhook-port={port}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            until(lambda: refused_by_webhook(plane), "the operator refuses a bad job", 60)
            with stored(plane, small()):
                until(
                    lambda: plane.admin.get(f"{JOBS}/demo").get("status", {}).get("phase"),
                    "the operator looks at a good one",
                    60,
                )
            process.terminate()
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, said
        assert "Traceback" not in said
        user = "system:serviceaccount:mooring-system:mooring-operator"
        asked = list(plane.audit.entries(user=user))
        assert {"leases", "nodes", "pods", "pools", "trainingjobs"} <= {
            one.resource for one in asked
        }
        assert [one for one in asked if one.code == 403] == []
