"""What the operator's account is granted is what it uses, by the API server's audit log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kube.cluster.audit import AuditEntry
from kube.cluster.bed import free_ports
from kube.cluster.client import ApiError, Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import Puppets, puppets
from kube.objects import pod, pods_path
from kube.operator import Flags, Jobs, install, jobs_path, training_job
from kube.operator import operator as run_operator
from kube.test_node_information import published
from kube.volcano import groups_path, pod_groups
from mooring.install import InstallSettings, manifests, to_yaml
from mooring.install.names import KEY_SECRET, LEASE, NAMESPACE, OPERATOR
from mooring.install.rbac import GrantScope, grants, operator_roles
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"
EVERYTHING = InstallSettings(volcano=True, kubelet_config=True)

Right = tuple[GrantScope, str, str, str]
"""Where, group, resource with subresource, verb."""


@contextmanager
def installed(plane: ControlPlane, settings: InstallSettings) -> Iterator[None]:
    """These rights and the webhook's registration, instead of what other tests find."""
    install(plane)
    hooks = [one for one in manifests(settings) if one["kind"] == "ValidatingWebhookConfiguration"]
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
    plane.admin.delete(lease, missing_ok=True)
    plane.admin.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/{KEY_SECRET}", missing_ok=True)
    apply(plane, [*operator_roles(settings), *hooks])
    try:
        yield
    finally:
        apply(plane, operator_roles(InstallSettings()))
        for hook in hooks:
            kind = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
            plane.admin.delete(f"{kind}/{hook['metadata']['name']}")


def apply(plane: ControlPlane, wanted: list[Json]) -> None:
    applied = plane.kubectl("apply", "-f", "-", stdin=to_yaml(wanted))
    assert applied.returncode == 0, applied.stderr


def test_what_is_granted_is_what_is_used(
    control_plane: ControlPlane, namespace: str, jobs: Jobs
) -> None:
    since = control_plane.audit.position()
    more = ("--figures-every=1", "--kubelet-config", f"--webhook-port={free_ports(1)[0]}")
    flags = Flags(as_account=True, lease_s=5, lease_namespace=NAMESPACE, more=more)
    admin = control_plane.admin
    with (
        installed(control_plane, EVERYTHING),
        pod_groups(control_plane),
        published(control_plane),
        fake_nodes(admin, 2, NodeShape(cpus=16, labels={"for": "rights"}), "rights"),
        puppets(admin) as strings,
        run_operator(control_plane, namespace, flags) as operator,
    ):
        names_that_are_taken(control_plane, namespace, jobs)
        a_gang_that_fails_and_is_cleared_away(namespace, jobs, strings)
        ranks_that_are_started_over_the_network(jobs)
        a_group_that_comes_back_larger(control_plane, namespace, jobs)

        def figures_asked_for() -> bool:
            asked = control_plane.audit.entries(since=since, user=ACCOUNT)
            return any(right_of(one)[2] == "pods/proxy" for one in asked)

        until(figures_asked_for, "the first member is asked for figures", 60)
        operator.stop()
        assert operator.defects == []
    asked = list(control_plane.audit.entries(since=since, user=ACCOUNT))
    assert [one.uri for one in asked if one.code == 403] == []
    granted: dict[Right, tuple[str, ...]] = {}
    for grant in grants(EVERYTHING):
        for resource in grant.resources:
            for verb in grant.verbs:
                granted[grant.where, grant.group, resource, verb] = grant.names
    used = {right_of(one): one for one in asked}
    assert used.keys() == granted.keys()
    beside = [one.uri for one in asked if granted[right_of(one)] not in ((), (one.name,))]
    assert beside == []
    print(f"\n{len(granted)} rights granted and used, in {len(asked)} calls")


def right_of(entry: AuditEntry) -> Right:
    places = {"": GrantScope.CLUSTER, NAMESPACE: GrantScope.OWN}
    resource = entry.resource + (f"/{entry.subresource}" if entry.subresource else "")
    return places.get(entry.namespace, GrantScope.JOBS), entry.group, resource, entry.verb


def job(name: str, roles: dict[str, int] | None = None, **spec: object) -> Json:
    placement = {"nodeSelector": {"for": "rights"}}
    policy = {"restart": "gang", "backoff": {"initial": "0s"}}
    return training_job(
        name, roles, placement=placement, failurePolicy=policy, gracePeriod="1s", **spec
    )


def names_that_are_taken(plane: ControlPlane, namespace: str, jobs: Jobs) -> None:
    """Somebody else's Service and pod are in the way: each is looked at, and left alone."""
    services = f"/api/v1/namespaces/{namespace}/services"
    port = {"port": 80}
    plane.admin.create(services, {"metadata": {"name": "late"}, "spec": {"ports": [port]}})
    plane.admin.create(pods_path(namespace), pod("late-worker-1", nodeSelector={"no": "where"}))
    jobs.create(job("late"))
    for kind, path in (
        ("service named late,", f"{services}/late"),
        ("pod named late-worker-1,", f"{pods_path(namespace)}/late-worker-1"),
    ):
        until(lambda kind=kind: kind in jobs.status("late").get("message", ""), kind, 60)  # type: ignore[misc]
        plane.admin.delete(path, grace_s=0)
    jobs.wait_phase("late", "Running", deadline_s=90)


def a_gang_that_fails_and_is_cleared_away(namespace: str, jobs: Jobs, strings: Puppets) -> None:
    jobs.create(job("frail", kubernetes={"ttlAfterFinished": "1s"}))
    jobs.wait_phase("frail", "Running", deadline_s=90)
    strings.finish(namespace, "frail-worker-0", exit_code=1)

    def again() -> bool:
        status = jobs.status("frail")
        return status["phase"] == "Running" and status["epoch"] == 1

    until(again, "it starts anew", 90)
    for one in jobs.pods("frail"):
        strings.finish(namespace, one["metadata"]["name"])

    def gone() -> bool:
        try:
            jobs.get("frail")
        except ApiError as error:
            return error.status == 404
        return False

    until(gone, "the finished job is deleted after its time", 90)


def ranks_that_are_started_over_the_network(jobs: Jobs) -> None:
    made = job("ranks", {"launcher": 1, "worker": 2})
    made["spec"]["framework"] = "mpi"
    made["spec"]["roles"]["launcher"]["command"] = ["mpirun", "python3", "train.py"]
    del made["spec"]["roles"]["worker"]["command"]
    jobs.create(made)
    jobs.wait_phase("ranks", "Running", deadline_s=90)


def a_group_that_comes_back_larger(plane: ControlPlane, namespace: str, jobs: Jobs) -> None:
    """Volcano's PodGroup is made, found again, and made anew for more members."""
    jobs.create(job("lava", kubernetes={"scheduler": "volcano"}))
    path = jobs_path(namespace, "lava")
    until(lambda: len(jobs.pods("lava")) == 2, "its pods are there", 60)
    plane.admin.patch(path, {"spec": {"kubernetes": {"suspend": True}}})
    jobs.wait_phase("lava", "Suspended", deadline_s=90)
    plane.admin.patch(path, {"spec": {"roles": {"worker": {"replicas": 3}}}})
    plane.admin.patch(path, {"spec": {"kubernetes": {"suspend": False}}})

    def grown() -> bool:
        found = plane.admin.items(groups_path(namespace))
        return [one["spec"]["minMember"] for one in found] == [3]

    until(grown, "the group asks for three", 60)
