"""Who mounts what where: claims and disks in use, volumes handed out, how many a driver attached.

Sparse, because most nodes attach little; what a gang without volumes never looks at is never
copied for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mooring.brain.storage import Catalogue
from mooring.model.volumes import Claim, Volume

Amounts = NDArray[np.int64]


class Attachments:
    """`users`: claim or disk -> node -> how many mount it there; `writers` of disks likewise."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.here: dict[int, Counter[Volume]] = {}
        self.users: dict[str, dict[int, int]] = {}
        self.writers: Counter[str] = Counter()
        #: Driver -> how many distinct volumes it has attached, by node.
        self.attached: dict[str, Amounts] = {}
        #: Claims without a volume of their own yet -> the one that they were given meanwhile.
        self.given: dict[str, str] = {}
        self._own: dict[tuple[Volume, int], list[str]] = {}
        self._taken: set[str] = set()
        #: Claims that wait -> how many volumes are left for them that reach each node.
        self._left: dict[Claim, Amounts] = {}

    def copy(self) -> Attachments:
        twin = Attachments(self.catalogue)
        twin.here = {node: Counter(volumes) for node, volumes in self.here.items()}
        twin.users = {key: dict(nodes) for key, nodes in self.users.items()}
        twin.writers = Counter(self.writers)
        twin.attached = {driver: counts.copy() for driver, counts in self.attached.items()}
        twin.given = dict(self.given)
        twin._own = {key: list(names) for key, names in self._own.items()}
        twin._taken = set(self._taken)
        twin._left = {claim: counts.copy() for claim, counts in self._left.items()}
        return twin

    def same_as(self, other: Attachments) -> bool:
        return self.here == other.here

    def on_node(self, node: int) -> tuple[tuple[Volume, int], ...]:
        found = self.here.get(node, Counter())
        return tuple(sorted(found.items(), key=lambda item: repr(item[0])))

    def counts(self, driver: str) -> Amounts:
        found = self.attached.get(driver)
        return np.zeros(len(self.catalogue), dtype=np.int64) if found is None else found

    def left(self, claim: Claim) -> Amounts:
        """How many volumes that it could be given reach each node."""
        found = self._left.get(claim)
        if found is None:
            found = np.zeros(len(self.catalogue), dtype=np.int64)
            for volume in self.catalogue.candidates(claim):
                if volume.name not in self._taken:
                    found[self.catalogue.reached(volume.affinity)] += 1
            self._left[claim] = found
        return found

    def take(self, volumes: Iterable[Volume], node: int) -> None:
        for volume in volumes:
            self.here.setdefault(node, Counter())[volume] += 1
            if volume.own is not None:
                self._attach(volume, node, 1)
                given = self._give_one(volume.own, node)
                self._own.setdefault((volume, node), []).append(given)
                continue
            nodes = self.users.setdefault(key_of(volume), {})
            if node not in nodes:
                self._attach(volume, node, 1)
            nodes[node] = nodes.get(node, 0) + 1
            self.writers[volume.disk] += bool(volume.disk) and not volume.read_only
            claim = self.catalogue.claim_of(volume)
            if claim is not None and not claim.volume and claim.name not in self.given:
                self.given[claim.name] = self._give_one(claim, node)

    def give_back(self, volumes: Iterable[Volume], node: int) -> None:
        for volume in volumes:
            here = self.here[node]
            here[volume] -= 1
            if not here[volume]:
                del here[volume]
            if not here:
                del self.here[node]
            if volume.own is not None:
                self._attach(volume, node, -1)
                self._hand_over(self._own[volume, node].pop(), -1)
                continue
            key = key_of(volume)
            nodes = self.users[key]
            nodes[node] -= 1
            if not nodes[node]:
                del nodes[node]
                self._attach(volume, node, -1)
            self.writers[volume.disk] -= bool(volume.disk) and not volume.read_only
            if not nodes:
                del self.users[key]
                self._hand_over(self.given.pop(volume.claim, ""), -1)

    def _attach(self, volume: Volume, node: int, sign: int) -> None:
        driver = self.catalogue.driver(volume)
        if driver:
            counts = self.attached.get(driver)
            if counts is None:
                counts = self.attached[driver] = self.counts(driver)
            counts[node] += sign

    def _give_one(self, claim: Claim, node: int) -> str:
        """The name of a volume that is there already, if this claim takes such a one here."""
        catalogue = self.catalogue
        if not catalogue.waits(claim):
            return ""
        for volume in catalogue.candidates(claim):
            if volume.name not in self._taken and node in catalogue.reached(volume.affinity):
                self._hand_over(volume.name, 1)
                return volume.name
        return ""

    def _hand_over(self, name: str, sign: int) -> None:
        """The volume goes to a claim, or comes back; an empty name is no volume."""
        if not name:
            return
        if sign > 0:
            self._taken.add(name)
        else:
            self._taken.discard(name)
        volume = self.catalogue.volumes[name]
        for claim, left in self._left.items():
            if volume.serves(claim):
                left[self.catalogue.reached(volume.affinity)] -= sign


def key_of(volume: Volume) -> str:
    return f"disk {volume.disk}" if volume.disk else f"claim {volume.claim}"
