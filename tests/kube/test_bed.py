"""The test bed itself: what other tests build on really is a cluster, and leaves nothing."""

from __future__ import annotations

import pytest

from kube.cluster import guard
from kube.cluster.client import ApiError
from kube.cluster.control_plane import ControlPlane
from kube.cluster.control_plane import control_plane as run_control_plane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.hollow import hollow_nodes
from kube.cluster.puppets import puppets
from kube.killing import killed_maker, left_of
from kube.objects import pod, pods_path
from support.waiting import until

schedules = pytest.mark.programs("kube-scheduler", "kube-controller-manager")


def phase(plane: ControlPlane, namespace: str, name: str) -> str:
    found: str = plane.admin.get(f"{pods_path(namespace)}/{name}")["status"]["phase"]
    return found


def test_the_api_server_answers(control_plane: ControlPlane) -> None:
    version = control_plane.admin.get("/version")
    assert (
        int(version["major"]),
        int(version["minor"].rstrip("+")),
    ) == control_plane.programs.version


def test_an_unknown_user_may_do_nothing_until_a_binding_lets_it(
    control_plane: ControlPlane, namespace: str
) -> None:
    ann = control_plane.client(control_plane.kubeconfig_for_user("ann"))
    with pytest.raises(ApiError) as refused:
        ann.items(pods_path(namespace))
    assert refused.value.status == 403
    role = {
        "metadata": {"name": "looks"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }
    binding = {
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    control_plane.admin.create(f"{rbac}/roles", role)
    control_plane.admin.create(f"{rbac}/rolebindings", binding)

    def allowed() -> bool:
        try:
            return ann.items(pods_path(namespace)) == []
        except ApiError:
            return False

    until(allowed, "ann may list pods")


@schedules
def test_a_service_account_speaks_as_itself(control_plane: ControlPlane, namespace: str) -> None:
    robot = control_plane.client(control_plane.kubeconfig_for_service_account(namespace, "default"))
    with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:default"):
        robot.items(pods_path(namespace))


def test_the_audit_log_tells_who_did_what(control_plane: ControlPlane, namespace: str) -> None:
    since = control_plane.audit.position()
    body = {"metadata": {"name": "seen"}, "data": {"key": "value"}}
    control_plane.admin.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    [entry] = until(
        lambda: [
            entry
            for entry in control_plane.audit.entries(since, user="admin")
            if entry.resource == "configmaps" and entry.is_write
        ],
        "the write in the audit log",
    )
    assert (entry.verb, entry.namespace, entry.code) == ("create", namespace, 201)


@schedules
def test_the_scheduler_binds_where_there_is_room(
    control_plane: ControlPlane, namespace: str
) -> None:
    with (
        fake_nodes(control_plane.admin, 2, NodeShape(cpus=2), prefix="small"),
        fake_nodes(control_plane.admin, 1, NodeShape(cpus=16, gpus=2), prefix="big"),
    ):
        wants = {"cpu": "4", "nvidia.com/gpu": "1"}
        control_plane.admin.create(pods_path(namespace), pod("p", limits=wants))
        path = f"{pods_path(namespace)}/p"
        bound = until(lambda: control_plane.admin.get(path)["spec"].get("nodeName"), "p bound")
    assert bound == "big-000"


@schedules
def test_puppets_run_and_end_pods_of_fake_nodes(
    control_plane: ControlPlane, namespace: str
) -> None:
    admin = control_plane.admin
    with fake_nodes(admin, 1), puppets(admin) as strings:
        for name in ("works", "fails", "goes"):
            admin.create(pods_path(namespace), pod(name))
        running = [("status.phase", "Running")]
        selector = ",".join(f"{key}={value}" for key, value in running)
        until(
            lambda: len(admin.items(pods_path(namespace), fieldSelector=selector)) == 3,
            "three pods Running",
        )
        strings.finish(namespace, "works")
        strings.finish(namespace, "fails", exit_code=3)
        assert phase(control_plane, namespace, "works") == "Succeeded"
        assert phase(control_plane, namespace, "fails") == "Failed"
        admin.delete(f"{pods_path(namespace)}/goes")
        until(
            lambda: (
                "goes" not in {p["metadata"]["name"] for p in admin.items(pods_path(namespace))}
            ),
            "the deleted pod gone",
        )


@schedules
@pytest.mark.slow
@pytest.mark.programs("kubemark")
def test_pods_of_hollow_nodes_run(control_plane: ControlPlane, namespace: str) -> None:
    with hollow_nodes(control_plane, 2) as names:
        control_plane.admin.create(pods_path(namespace), pod("p"))
        until(lambda: phase(control_plane, namespace, "p") == "Running", "p Running", 60)
        where = control_plane.admin.get(f"{pods_path(namespace)}/p")["spec"]["nodeName"]
        assert where in names
        control_plane.admin.delete(f"{pods_path(namespace)}/p", grace_s=0)


@pytest.mark.slow
def test_components_come_back_with_their_data() -> None:
    """Of a control plane of its own: others use the session's. Afterwards nothing is left."""
    with run_control_plane() as plane:
        name = plane.create_namespace()
        for component in plane.components:
            plane.kill(component)
            assert not plane.bed.is_running(component)
        for component in plane.components:
            plane.start(component)
        plane.wait_ready()
        assert plane.admin.get(f"/api/v1/namespaces/{name}")["status"]["phase"] == "Active"
        assert plane.bed.leftovers() != []
    assert plane.bed.leftovers() == []


@pytest.mark.slow
def test_nothing_is_left_when_the_maker_is_killed() -> None:
    with killed_maker("--fake-nodes=1") as bed:
        assert len(guard.processes_of(bed.name.split("-")[1])) >= 2
    until(lambda: not left_of(bed), f"nothing of {bed.name}", 60)
