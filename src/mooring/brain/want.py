"""What matters about a member for placing it. Members with equal wants are interchangeable."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.cluster import Toleration
from mooring.model.member import Member, Pinning
from mooring.model.resources import Resources


@dataclass(frozen=True)
class Want:
    """`cpu_millis` is what is charged: whole CPUs for an exclusive member."""

    role: str
    asked: Resources
    cpu_millis: int
    whole_cpus: int
    pinned: Pinning
    ports: frozenset[int]
    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]

    @property
    def exclusive(self) -> bool:
        return self.whole_cpus > 0

    @property
    def memory_bytes(self) -> int:
        return self.asked.memory_bytes

    @property
    def gpus(self) -> int:
        return self.asked.gpus


def want_of(member: Member) -> Want:
    millis = member.resources.cpu_millis
    whole = max(1, -(-millis // 1000)) if member.pinning is Pinning.EXCLUSIVE else 0
    return Want(
        role=member.id.role,
        asked=member.resources,
        cpu_millis=whole * 1000 or millis,
        whole_cpus=whole,
        pinned=member.pinning,
        ports=frozenset(port for port in member.ports.values() if port),
        selector=tuple(sorted(member.node_selector.items())),
        tolerations=member.tolerations,
    )
