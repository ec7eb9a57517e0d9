"""Claims, volumes and classes of a cluster, what drivers can attach, and what pods mount.

Claims are known by namespace and name, as `research/data`: those of all namespaces are planned
with together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mooring.backends.kubernetes.api.document import (
    Json,
    Object,
    find,
    items,
    mapping,
    number,
    text,
    texts,
)
from mooring.backends.kubernetes.objects.amounts import amount
from mooring.frameworks.pod_volumes import DISKS
from mooring.model.affinity import Operator, Requirement, Term
from mooring.model.labels import labels_of
from mooring.model.resources import Counts
from mooring.model.volumes import (
    Access,
    Binding,
    Claim,
    PersistentVolume,
    Storage,
    StorageClass,
    Volume,
)

_NOBODY = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
#: Volumes that were built into Kubernetes, and the drivers that attach them now.
_MOVED = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
}
#: Who has a volume that its last owner has left and nobody has cleared: no claim is called so.
_FORMER_OWNER = "/"


@dataclass(frozen=True, slots=True)
class ClassView:
    kind: StorageClass
    default: bool


@dataclass(frozen=True, slots=True)
class LimitsView:
    """How many volumes each driver can attach to a node."""

    node: str
    limits: Counts


def claim_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def parse_claim(obj: Object) -> Claim:
    spec = mapping(obj, "spec")
    return Claim(
        claim_name(text(obj, "metadata", "namespace"), text(obj, "metadata", "name")),
        text(spec, "storageClassName"),
        amount(find(spec, "resources", "requests", "storage")),
        _access(find(spec, "accessModes")),
        text(spec, "volumeName"),
    )


def parse_volume(obj: Object) -> PersistentVolume:
    spec = mapping(obj, "spec")
    owner = mapping(spec, "claimRef")
    claim = claim_name(text(owner, "namespace"), text(owner, "name")) if owner else ""
    if text(obj, "status", "phase") in ("Released", "Failed"):
        claim = _FORMER_OWNER
    moved = next((driver for kind, driver in _MOVED.items() if kind in spec), "")
    required = items(spec, "nodeAffinity", "required", "nodeSelectorTerms")
    return PersistentVolume(
        text(obj, "metadata", "name"),
        text(spec, "storageClassName"),
        amount(find(spec, "capacity", "storage")),
        _access(find(spec, "accessModes")),
        text(spec, "csi", "driver") or moved,
        labels_of(texts(obj, "metadata", "labels")),
        tuple(_term(items(one, "matchExpressions")) for one in required),
        claim,
    )


def parse_class(obj: Object) -> ClassView:
    provisioner = text(obj, "provisioner")
    waits = text(obj, "volumeBindingMode") == Binding.WAIT.value
    return ClassView(
        StorageClass(
            text(obj, "metadata", "name"),
            "" if provisioner == _NOBODY else provisioner,
            Binding.WAIT if waits else Binding.IMMEDIATE,
            tuple(
                _term(items(item, "matchLabelExpressions"))
                for item in items(obj, "allowedTopologies")
            ),
        ),
        texts(obj, "metadata", "annotations").get(_DEFAULT_CLASS) == "true",
    )


def parse_limits(obj: Object) -> LimitsView:
    """Of a CSINode, which is called as its node."""
    limits = {
        text(item, "name"): number(item, "allocatable", "count")
        for item in items(obj, "spec", "drivers")
        if isinstance(find(item, "allocatable", "count"), int)
    }
    return LimitsView(text(obj, "metadata", "name"), tuple(sorted(limits.items())))


def storage_of(
    claims: Iterable[Claim], volumes: Iterable[PersistentVolume], classes: Iterable[ClassView]
) -> Storage:
    """A claim of a pod's own that names no class gets the default one when it is made."""
    known = list(classes)
    default = next((replace(one.kind, name="") for one in known if one.default), None)
    kinds = [one.kind for one in known] + ([default] if default is not None else [])
    return Storage(tuple(volumes), tuple(claims), tuple(kinds))


def mounted_by(obj: Object) -> tuple[Volume, ...]:
    """What a pod mounts that matters to others; a claim of its own is there by its name."""
    return tuple(found for part in items(obj, "spec", "volumes") for found in _mounted(obj, part))


def _mounted(pod: Object, part: Object) -> Iterator[Volume]:
    namespace = text(pod, "metadata", "namespace")
    for kind in part:
        source = mapping(part, kind)
        read_only = find(source, "readOnly") is True
        if kind == "persistentVolumeClaim" and text(source, "claimName"):
            yield Volume(claim_name(namespace, text(source, "claimName")), read_only=read_only)
        elif kind == "ephemeral" and source:
            made = f"{text(pod, 'metadata', 'name')}-{text(part, 'name')}"
            yield Volume(claim_name(namespace, made))
        elif kind in DISKS and source:
            keys, exclusive = DISKS[kind]
            name = "/".join(text(source, key) for key in keys if key in source)
            yield Volume(disk=f"{kind} {name}", read_only=read_only, exclusive=exclusive)


def _access(modes: Json) -> frozenset[Access]:
    listed = modes if isinstance(modes, list) else []
    return frozenset(mode for mode in Access if mode.value in listed)


def _term(expressions: Iterable[Object]) -> Term:
    return Term(tuple(_requirement(one) for one in expressions))


def _requirement(obj: Object) -> Requirement:
    values = find(obj, "values")
    listed = tuple(str(value) for value in values) if isinstance(values, list) else ()
    named = text(obj, "operator")
    operator = next((operator for operator in Operator if operator.value == named), Operator.IN)
    return Requirement(text(obj, "key"), operator, listed)
