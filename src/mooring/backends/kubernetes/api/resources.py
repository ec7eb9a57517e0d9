"""The kinds of objects that Mooring reads or writes, and where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class ResourceKind:
    """One resource of the API. An empty `group` is the core group."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, an object or a subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


POD = ResourceKind("", "v1", "Pod", "pods")
NODE = ResourceKind("", "v1", "Node", "nodes", namespaced=False)
SERVICE = ResourceKind("", "v1", "Service", "services")
NAMESPACE = ResourceKind("", "v1", "Namespace", "namespaces", namespaced=False)
SECRET = ResourceKind("", "v1", "Secret", "secrets")
CONFIG_MAP = ResourceKind("", "v1", "ConfigMap", "configmaps")
CLAIM = ResourceKind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = ResourceKind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS = ResourceKind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
)
CSI_NODE = ResourceKind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
EVENT = ResourceKind("", "v1", "Event", "events")
LEASE = ResourceKind("coordination.k8s.io", "v1", "Lease", "leases")
NETWORK_POLICY = ResourceKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
TRAINING_JOB = ResourceKind("mooring.dev", "v1", "TrainingJob", "trainingjobs")
POOL = ResourceKind("mooring.dev", "v1", "Pool", "pools", namespaced=False)
NODE_TOPOLOGY = ResourceKind(
    "topology.node.k8s.io", "v1alpha2", "NodeResourceTopology", "noderesourcetopologies", False
)
VOLCANO_POD_GROUP = ResourceKind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
VALIDATING_WEBHOOK = ResourceKind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
