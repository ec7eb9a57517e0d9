"""Storage in a cluster file: classes, volumes and claims, named as in Kubernetes.

Without this section nothing is known of volumes, and what members mount is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from mooring.model.labels import labels_of
from mooring.model.volumes import (
    Access,
    Binding,
    Claim,
    PersistentVolume,
    Storage,
    StorageClass,
)
from mooring.spec.affinity import RequiredSpec, TermSpec
from mooring.spec.base import Rejection, SpecModel, one_of, rejected
from mooring.spec.fields import FilledText, Memory, Text

_MOST = 100_000
#: How Kubernetes says that nobody makes the volumes of a class.
NOBODY = "kubernetes.io/no-provisioner"

AccessModes = Annotated[tuple[Access, ...], Field(min_length=1)]
_ACCESS_MODES = Field(
    (Access.ONE_NODE,),
    alias="accessModes",
    description="`ReadWriteOnce`: one node; `ReadOnlyMany`, `ReadWriteMany`: many nodes; "
    "`ReadWriteOncePod`: one member.",
    examples=[["ReadWriteOnce"]],
)
_IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


class StorageClassSpec(SpecModel):
    """How volumes of a class come about."""

    name: FilledText = Field(description="What claims call it.", examples=["fast"])
    provisioner: FilledText = Field(
        description=f"The driver that makes its volumes; `{NOBODY}`: nobody does.",
        examples=["ebs.csi.aws.com"],
    )
    volume_binding_mode: Binding = Field(
        Binding.IMMEDIATE,
        alias="volumeBindingMode",
        description="`Immediate`: a claim gets its volume at once; `WaitForFirstConsumer`: when "
        "it is known where its first member goes.",
        examples=["WaitForFirstConsumer"],
    )
    allowed_topologies: tuple[TermSpec, ...] = Field(
        (),
        alias="allowedTopologies",
        description="Where it can make volumes: any of these. Not given: everywhere.",
        examples=[[_IN_ZONE]],
    )

    def to_model(self) -> StorageClass:
        return StorageClass(
            self.name,
            "" if self.provisioner == NOBODY else self.provisioner,
            self.volume_binding_mode,
            tuple(term.to_model() for term in self.allowed_topologies),
        )


class VolumeSpec(SpecModel):
    """A persistent volume."""

    name: FilledText = Field(description="Its name.", examples=["pv-0"])
    capacity: Memory = Field(0, description="Its size.", examples=["100Gi"])
    access_modes: AccessModes = _ACCESS_MODES
    storage_class_name: Text = Field(
        "", alias="storageClassName", description="Its class.", examples=["local"]
    )
    driver: Text = Field(
        "",
        description="The driver that attaches it: nodes may limit how many it attaches.",
        examples=["ebs.csi.aws.com"],
    )
    labels: dict[FilledText, Text] = Field(
        {},
        description="Its labels: `topology.kubernetes.io/zone` and `/region` say where it is; "
        "several zones are joined by `__`.",
        examples=[{"topology.kubernetes.io/zone": "a"}],
    )
    node_affinity: RequiredSpec | None = Field(
        None,
        alias="nodeAffinity",
        description="The nodes that reach it. Not given: all.",
        examples=[{"nodeSelectorTerms": [_IN_ZONE]}],
    )
    claim_ref: Text = Field(
        "",
        alias="claimRef",
        description="The claim that it is kept for. Not given: whoever comes.",
        examples=["data"],
    )

    def to_model(self) -> PersistentVolume:
        terms = self.node_affinity.node_selector_terms if self.node_affinity is not None else ()
        return PersistentVolume(
            self.name,
            self.storage_class_name,
            self.capacity,
            frozenset(self.access_modes),
            self.driver,
            labels_of(self.labels),
            tuple(term.to_model() for term in terms),
            self.claim_ref,
        )


class ClaimSpec(SpecModel):
    """A persistent volume claim that jobs may name."""

    name: FilledText = Field(description="What jobs call it.", examples=["data"])
    storage: Memory = Field(0, description="How much it asks for.", examples=["100Gi"])
    access_modes: AccessModes = _ACCESS_MODES
    storage_class_name: Text = Field(
        "", alias="storageClassName", description="The class of its volume.", examples=["fast"]
    )
    volume_name: Text = Field(
        "",
        alias="volumeName",
        description="The volume that it has. Not given: none yet.",
        examples=["pv-0"],
    )

    def to_model(self) -> Claim:
        return Claim(
            self.name,
            self.storage_class_name,
            self.storage,
            frozenset(self.access_modes),
            self.volume_name,
        )


class StorageSpec(SpecModel):
    """What is known of the cluster's storage."""

    classes: Annotated[tuple[StorageClassSpec, ...], Field(max_length=_MOST)] = Field(
        (), description="Storage classes.", examples=[[{"name": "fast", "provisioner": "x"}]]
    )
    volumes: Annotated[tuple[VolumeSpec, ...], Field(max_length=_MOST)] = Field(
        (), description="Persistent volumes.", examples=[[{"name": "pv-0", "capacity": "100Gi"}]]
    )
    claims: Annotated[tuple[ClaimSpec, ...], Field(max_length=_MOST)] = Field(
        (),
        description="Persistent volume claims.",
        examples=[[{"name": "data", "volumeName": "pv-0"}]],
    )

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        volumes = {volume.name for volume in self.volumes}
        wrong = [
            *_twice("classes", [each.name for each in self.classes]),
            *_twice("volumes", [each.name for each in self.volumes]),
            *_twice("claims", [each.name for each in self.claims]),
        ]
        owners: dict[str, str] = {}
        for index, claim in enumerate(self.claims):
            name, at = claim.volume_name, ("claims", index, "volumeName")
            if name and name not in volumes:
                known = one_of(name, sorted(volumes)) if volumes else "no volume: there are none"
                wrong.append(Rejection(f"unknown volume '{name}'", known, at))
            elif name in owners:
                accepted = f"another volume: claim '{owners[name]}' has this one"
                wrong.append(Rejection(f"the volume '{name}'", accepted, at))
            if name:
                owners.setdefault(name, claim.name)
        if wrong:
            raise rejected(wrong)
        return self

    def to_model(self) -> Storage:
        return Storage(
            tuple(each.to_model() for each in self.volumes),
            tuple(each.to_model() for each in self.claims),
            tuple(each.to_model() for each in self.classes),
        )


def _twice(field: str, names: Sequence[str]) -> Iterator[Rejection]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            found = f"the name '{name}' a second time"
            yield Rejection(found, "each name once", (field, index, "name"))
        seen.add(name)
