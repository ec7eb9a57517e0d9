"""Storage as placing sees it: a cluster's volumes, claims and classes, and what members mount."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mooring.model.affinity import Term
from mooring.model.labels import Labels


class Access(StrEnum):
    """Who may mount a volume at the same time."""

    ONE_NODE = "ReadWriteOnce"
    MANY_READERS = "ReadOnlyMany"
    MANY_NODES = "ReadWriteMany"
    ONE_MEMBER = "ReadWriteOncePod"


class Binding(StrEnum):
    """When a claim gets its volume: at once, or when it is known where its first user goes."""

    IMMEDIATE = "Immediate"
    WAIT = "WaitForFirstConsumer"


@dataclass(frozen=True)
class Claim:
    """What is asked for. `volume` is the one that it has been given, if any."""

    name: str = ""
    storage_class: str = ""
    request_bytes: int = 0
    access: frozenset[Access] = frozenset({Access.ONE_NODE})
    volume: str = ""


@dataclass(frozen=True)
class PersistentVolume:
    """`affinity`: any of these terms must match a node that uses it; none: every node may.

    `labels` name its zone and region; `claim` is who has it, or whom it is kept for.
    """

    name: str
    storage_class: str = ""
    capacity_bytes: int = 0
    access: frozenset[Access] = frozenset({Access.ONE_NODE})
    driver: str = ""
    labels: Labels = ()
    affinity: tuple[Term, ...] = ()
    claim: str = ""

    def serves(self, claim: Claim) -> bool:
        """Could it be given to this claim, which has none yet?"""
        return (
            self.claim in ("", claim.name)
            and self.storage_class == claim.storage_class
            and self.capacity_bytes >= claim.request_bytes
            and claim.access <= self.access
        )


@dataclass(frozen=True)
class StorageClass:
    """`provisioner` is the driver that makes its volumes; empty: they are there already.

    `topologies`: where it can make them, as terms on a node's labels; none: everywhere.
    """

    name: str
    provisioner: str = ""
    binding: Binding = Binding.IMMEDIATE
    topologies: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Storage:
    volumes: tuple[PersistentVolume, ...] = ()
    claims: tuple[Claim, ...] = ()
    classes: tuple[StorageClass, ...] = ()


@dataclass(frozen=True)
class Volume:
    """What a member mounts: a `claim` by name, a claim of its `own`, or a `disk` by its id.

    `exclusive` is a disk of a kind that nobody else may even read meanwhile.
    """

    claim: str = ""
    own: Claim | None = None
    disk: str = ""
    read_only: bool = False
    exclusive: bool = False
