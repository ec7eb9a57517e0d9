"""What the operator and people may do, asked of the server."""

from __future__ import annotations

from kube.cluster.client import Client
from kube.cluster.control_plane import ControlPlane
from mooring.install import InstallSettings
from mooring.install.rbac import Grant, GrantScope, grants
from support.waiting import until


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
    Grant(GrantScope.JOBS, "", ("secrets",), ("get", "list", "watch", "update", "delete"), ""),
    Grant(GrantScope.OWN, "", ("secrets",), ("get", "update", "delete"), "", ("others",)),
    Grant(GrantScope.OWN, "", ("secrets",), ("list", "watch"), ""),
    Grant(
        GrantScope.JOBS, "networking.k8s.io", ("networkpolicies",), ("get", "update", "delete"), ""
    ),
    Grant(GrantScope.OWN, "", ("configmaps",), ("get", "list", "create"), ""),
    Grant(GrantScope.JOBS, "", ("pods/exec", "pods/log", "pods/attach"), ("create", "get"), ""),
    Grant(GrantScope.JOBS, "", ("pods",), ("update", "patch", "deletecollection"), ""),
    Grant(GrantScope.JOBS, "mooring.dev", ("trainingjobs",), ("create", "update", "patch"), ""),
    Grant(GrantScope.CLUSTER, "", ("nodes",), ("update", "patch", "delete"), ""),
    Grant(GrantScope.CLUSTER, "", ("nodes/proxy",), ("get",), ""),
    Grant(GrantScope.CLUSTER, "mooring.dev", ("pools",), ("create", "update", "delete"), ""),
    Grant(GrantScope.CLUSTER, "rbac.authorization.k8s.io", ("clusterroles",), ("get", "bind"), ""),
    Grant(
        GrantScope.CLUSTER,
        "admissionregistration.k8s.io",
        ("validatingwebhookconfigurations",),
        ("get", "patch"),
        "",
        ("others",),
    ),
    Grant(GrantScope.OWN, "coordination.k8s.io", ("leases",), ("get", "update"), "", ("others",)),
]


def test_the_operator_may_do_what_the_table_says_and_no_more(plane: ControlPlane) -> None:
    account = plane.kubeconfig_for_service_account("mooring-system", "mooring-operator")
    operator = Client(account)
    places = {
        GrantScope.CLUSTER: None,
        GrantScope.JOBS: "default",
        GrantScope.OWN: "mooring-system",
    }
    granted = [(grant, True) for grant in grants(InstallSettings())]
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
    jobs = Grant(GrantScope.JOBS, "mooring.dev", ("trainingjobs",), (), "")
    pools = Grant(GrantScope.CLUSTER, "mooring.dev", ("pools",), (), "")
    until(
        lambda: may(clients["eda"], jobs, "create", "default", "trainingjobs"),
        "the controller has joined the roles",
    )
    assert may(clients["vic"], jobs, "list", "default", "trainingjobs")
    assert not may(clients["vic"], jobs, "create", "default", "trainingjobs")
    assert not may(clients["eda"], jobs, "patch", "default", "trainingjobs/status")
    assert not may(clients["eda"], pools, "create", None, "pools")
