"""The cluster's storage by name, and which nodes each part of it reaches. Never changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.brain.pool import Numbers
from mooring.model.affinity import Operator, Term
from mooring.model.labels import Labels
from mooring.model.volumes import (
    Access,
    Binding,
    Claim,
    PersistentVolume,
    Storage,
    StorageClass,
    Volume,
)

Mask = NDArray[np.bool_]
Indexes = NDArray[np.intp]

_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
#: A volume that is in several zones has their names joined by this.
_JOIN = "__"


class Catalogue:
    """`labels` and `label_class`: the nodes' labels, by class, as a layout has them."""

    def __init__(
        self, storage: Storage, labels: Sequence[dict[str, str]], label_class: Numbers
    ) -> None:
        self.storage = storage
        self.claims = {claim.name: claim for claim in storage.claims}
        self.volumes = {volume.name: volume for volume in storage.volumes}
        self.classes = {known.name: known for known in storage.classes}
        self._labels = labels
        self._label_class = label_class
        #: Key -> value -> the classes of labels that have it, to match thousands of volumes.
        self._classes_with: dict[str, dict[str, list[int]]] = {}
        for number, known in enumerate(labels):
            for key, value in known.items():
                self._classes_with.setdefault(key, {}).setdefault(value, []).append(number)
        order = np.argsort(label_class, kind="stable")
        bounds = np.searchsorted(label_class[order], np.arange(len(labels) + 1))
        self._nodes_of = [order[bounds[i] : bounds[i + 1]] for i in range(len(labels))]
        self._reached: dict[tuple[Term, ...], Indexes] = {}
        self._zones: dict[Labels, Mask] = {}
        self._candidates: dict[Claim, list[PersistentVolume]] = {}
        bound = {claim.volume for claim in storage.claims}
        free = [volume for volume in storage.volumes if volume.name not in bound]
        #: Volumes that nobody has, the smallest first, of equals those that fewest nodes reach.
        self._free = sorted(
            free,
            key=lambda candidate: (candidate.capacity_bytes, len(self.reached(candidate.affinity))),
        )

    def __len__(self) -> int:
        return len(self._label_class)

    def claim_of(self, volume: Volume) -> Claim | None:
        """None for a disk, and for a claim that is not there."""
        return volume.own if volume.own is not None else self.claims.get(volume.claim)

    def class_of(self, claim: Claim) -> StorageClass:
        return self.classes.get(claim.storage_class, StorageClass(claim.storage_class))

    def bound(self, claim: Claim) -> PersistentVolume | None:
        """The volume that it has been given."""
        return self.volumes.get(claim.volume) if claim.volume else None

    def waits(self, claim: Claim) -> bool:
        return not claim.volume and self.class_of(claim).binding is Binding.WAIT

    def candidates(self, claim: Claim) -> list[PersistentVolume]:
        """Volumes that are there already and that a claim which waits could be given."""
        found = self._candidates.get(claim)
        if found is None:
            found = [volume for volume in self._free if volume.serves(claim)]
            self._candidates[claim] = found
        return found

    def driver(self, volume: Volume) -> str:
        """Who attaches it to the node; empty if that is not known or not counted."""
        claim = self.claim_of(volume)
        if claim is None:
            return ""
        bound = self.bound(claim)
        return bound.driver if bound is not None else self.class_of(claim).provisioner

    def one_node(self, volume: Volume) -> bool:
        """Must all who mount it be on the same node?"""
        claim = self.claim_of(volume)
        if claim is None or volume.own is not None or Access.MANY_NODES in claim.access:
            return False
        return not (volume.read_only and Access.MANY_READERS in claim.access)

    def one_member(self, volume: Volume) -> bool:
        """May nobody else mount it at all?"""
        claim = self.claim_of(volume)
        return claim is not None and volume.own is None and claim.access == {Access.ONE_MEMBER}

    def one_by_one(self, volume: Volume) -> bool:
        """Does it matter for the next member which volume, or that any, this one was given?"""
        claim = self.claim_of(volume)
        if claim is None:
            return bool(volume.disk) and (volume.exclusive or not volume.read_only)
        if self.one_member(volume):
            return True
        if not self.waits(claim) or self.one_node(volume):
            return False
        local = all(len(self.reached(one.affinity)) == 1 for one in self.candidates(claim))
        return not (volume.own is not None and local)

    def reached(self, terms: tuple[Term, ...]) -> Indexes:
        """The nodes whose labels match any of the terms; all if there are none."""
        found = self._reached.get(terms)
        if found is None:
            classes = {number for term in terms for number in self._matching(term)}
            some = [self._nodes_of[number] for number in sorted(classes)]
            found = np.concatenate(some) if some else np.empty(0, dtype=np.intp)
            found = self._reached[terms] = found if terms else np.arange(len(self))
        return found

    def _matching(self, term: Term) -> list[int]:
        numbers: Iterable[int] = range(len(self._labels))
        for requirement in term.requirements:
            if requirement.operator is Operator.IN:
                values = self._classes_with.get(requirement.key, {})
                numbers = [
                    number for value in requirement.values for number in values.get(value, ())
                ]
                break
        return [number for number in numbers if term.matches(self._labels[number])]

    def reach(self, terms: tuple[Term, ...]) -> Mask:
        mask = np.zeros(len(self), dtype=bool)
        mask[self.reached(terms)] = True
        return mask

    def zone(self, labels: Labels) -> Mask:
        """The nodes in the zone and region that a volume's labels name.

        As for kube-scheduler, a node without any such label is in all of them.
        """
        found = self._zones.get(labels)
        if found is None:
            good = [_in_zone(dict(labels), label) for label in self._labels]
            found = self._zones[labels] = np.array(good, dtype=bool)[self._label_class]
        return found


def _in_zone(volume: dict[str, str], node: dict[str, str]) -> bool:
    if not any(key in node for key in (*_ZONE, *_REGION)):
        return True
    for keys in (_ZONE, _REGION):
        asked = next((volume[key] for key in keys if key in volume), None)
        has = next((node[key] for key in keys if key in node), None)
        if asked is not None and has not in asked.split(_JOIN):
            return False
    return True
