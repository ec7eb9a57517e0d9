"""What the operator may do, and nothing else: one grant a line of the table, each with its reason.

No wildcard, no secret is read but its own key, no logs, no exec. Roles for people join the
cluster's own `view`, `edit` and `admin` by aggregation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mooring.install.names import (
    GROUP,
    KEY_SECRET,
    LEASE,
    OPERATOR,
    WEBHOOK_CONFIGURATION,
    Manifest,
    named,
)
from mooring.install.settings import InstallSettings

_RBAC = "rbac.authorization.k8s.io"
#: What a cache needs; single objects are never asked for.
_FOLLOW = ("list", "watch")
_READ = ("get", *_FOLLOW)


class GrantScope(StrEnum):
    """Where a grant holds."""

    CLUSTER = "the whole cluster"
    JOBS = "the namespaces of jobs"
    OWN = "the operator's namespace"


@dataclass(frozen=True)
class Grant:
    """Verbs on a resource, and what for. `names` empty: any object."""

    where: GrantScope
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    reason: str
    names: tuple[str, ...] = ()

    def rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule


def grants(settings: InstallSettings) -> Iterator[Grant]:
    """Everything that the operator's service account may do."""
    cluster, jobs, own = GrantScope.CLUSTER, GrantScope.JOBS, GrantScope.OWN
    yield Grant(cluster, "", ("nodes",), _FOLLOW, "what there is, and where a gang fits")
    yield Grant(cluster, "", ("pods",), _FOLLOW, "who holds what: every pod of the cluster counts")
    yield Grant(cluster, GROUP, ("pools",), _FOLLOW, "the shares of teams")
    yield Grant(
        cluster,
        "topology.node.k8s.io",
        ("noderesourcetopologies",),
        _FOLLOW,
        "NUMA cells, where the cluster publishes them",
    )
    for group, resource, reason in (
        ("", "persistentvolumeclaims", "the volumes that members mount"),
        ("", "persistentvolumes", "which nodes a volume reaches"),
        ("storage.k8s.io", "storageclasses", "where and when volumes are made"),
        ("storage.k8s.io", "csinodes", "how many volumes a node can attach"),
    ):
        yield Grant(cluster, group, (resource,), _FOLLOW, reason)
    if settings.kubelet_config:
        yield Grant(
            cluster,
            "",
            ("nodes/proxy",),
            ("get",),
            "a kubelet's CPU manager settings (`--with kubelet-config`)",
        )
    if settings.webhook:
        yield Grant(
            cluster,
            "admissionregistration.k8s.io",
            ("validatingwebhookconfigurations",),
            ("get", "patch"),
            "to enter the certificate of its webhook",
            (WEBHOOK_CONFIGURATION,),
        )
    yield Grant(
        jobs, "", ("pods",), ("get", "create", "delete"), "the members; get: whose name is taken"
    )
    yield Grant(jobs, "", ("pods/proxy",), ("get",), "steps and figures, from the first member")
    yield Grant(
        jobs,
        "",
        ("services",),
        ("get", "create", *_FOLLOW),
        "one headless Service a job; followed: it is made again if somebody deletes it",
    )
    yield Grant(jobs, "", ("secrets",), ("create",), "a job's token, for its pods; never read")
    if settings.network_policy:
        yield Grant(
            jobs,
            "networking.k8s.io",
            ("networkpolicies",),
            ("create",),
            "only a job's own pods may reach its ports (`--no-network-policy`: without)",
        )
    yield Grant(jobs, "", ("events",), ("create",), "what `kubectl describe` shows")
    yield Grant(
        jobs, GROUP, ("trainingjobs",), (*_FOLLOW, "delete"), "the jobs; delete: ttlAfterFinished"
    )
    yield Grant(jobs, GROUP, ("trainingjobs/status",), ("update",), "the job's record")
    if settings.volcano:
        yield Grant(
            jobs,
            "scheduling.volcano.sh",
            ("podgroups",),
            ("get", "create", "delete"),
            "`scheduler: volcano` (`--with volcano`)",
        )
    yield Grant(own, "", ("secrets",), ("create",), "its key, which tokens are made with")
    yield Grant(own, "", ("secrets",), ("get",), "the same key after a restart", (KEY_SECRET,))
    leases = "coordination.k8s.io"
    yield Grant(own, leases, ("leases",), ("create",), "one replica leads at a time")
    yield Grant(own, leases, ("leases",), ("get", "update"), "to hold and hand on", (LEASE,))


def service_account(settings: InstallSettings) -> Manifest:
    account = named("v1", "ServiceAccount", OPERATOR, settings.namespace)
    return {**account, "automountServiceAccountToken": False}


def operator_roles(settings: InstallSettings) -> list[Manifest]:
    """Roles and their bindings. Without `watch`, jobs may be in any namespace."""
    by_place: dict[GrantScope, list[Grant]] = {where: [] for where in GrantScope}
    for grant in grants(settings):
        everywhere = grant.where is GrantScope.JOBS and not settings.watch
        by_place[GrantScope.CLUSTER if everywhere else grant.where].append(grant)
    manifests = _bound(OPERATOR, by_place[GrantScope.CLUSTER], settings.namespace, None)
    for watched in settings.watch:
        jobs = by_place[GrantScope.JOBS]
        manifests += _bound(f"{OPERATOR}-jobs", jobs, settings.namespace, watched)
    own = by_place[GrantScope.OWN]
    return manifests + _bound(OPERATOR, own, settings.namespace, settings.namespace)


def _bound(
    name: str, granted: Iterable[Grant], account_namespace: str, namespace: str | None
) -> list[Manifest]:
    kind = "ClusterRole" if namespace is None else "Role"
    role = named(f"{_RBAC}/v1", kind, name, namespace)
    role["rules"] = [grant.rule() for grant in granted]
    binding = named(f"{_RBAC}/v1", f"{kind}Binding", name, namespace)
    binding["roleRef"] = {"apiGroup": _RBAC, "kind": kind, "name": name}
    binding["subjects"] = [
        {"kind": "ServiceAccount", "name": OPERATOR, "namespace": account_namespace}
    ]
    return [role, binding]


def user_roles() -> list[Manifest]:
    """For people: jobs with the cluster's own roles, pools for those who are given them."""
    write = ("create", "delete", "deletecollection", "patch", "update")
    jobs = ("trainingjobs",)
    return [
        _user_role("mooring-view", jobs, _READ, ("view",)),
        _user_role("mooring-edit", jobs, (*_READ, *write), ("edit", "admin")),
        _user_role("mooring-pools-view", ("pools",), _READ, ("view",)),
        _user_role("mooring-pools-edit", ("pools",), (*_READ, *write), ()),
    ]


def _user_role(
    name: str, resources: tuple[str, ...], verbs: tuple[str, ...], joins: tuple[str, ...]
) -> Manifest:
    role = named(f"{_RBAC}/v1", "ClusterRole", name)
    for other in joins:
        role["metadata"]["labels"][f"{_RBAC}/aggregate-to-{other}"] = "true"
    role["rules"] = [Grant(GrantScope.CLUSTER, GROUP, resources, verbs, "").rule()]
    return role
