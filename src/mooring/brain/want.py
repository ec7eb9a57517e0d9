"""What matters about a member for placing it. Members with equal wants are interchangeable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mooring.model.affinity import ANYWHERE, NodeWish
from mooring.model.cluster import Toleration
from mooring.model.member import Gang, Member, Pinning
from mooring.model.resources import Resources
from mooring.model.volumes import Volume


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
    wish: NodeWish = ANYWHERE
    image: str = ""
    volumes: tuple[Volume, ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash((self.role, self.asked, self.whole_cpus, self.selector, self.tolerations))

    def __hash__(self) -> int:
        """Wants are keys of nearly everything that is remembered."""
        return self._hash

    @cached_property
    def exclusive(self) -> bool:
        return self.whole_cpus > 0

    @cached_property
    def memory_bytes(self) -> int:
        return self.asked.memory_bytes

    @cached_property
    def gpus(self) -> int:
        return self.asked.gpus

    @cached_property
    def gpu_share(self) -> int:
        """Thousandths of one device, beside which others may hold shares of it."""
        return self.asked.gpu_share_millis

    @cached_property
    def handed_cpus(self) -> int:
        """CPUs that a static kubelet gives to its pod alone. Pods with whole devices are made
        Guaranteed, so they get theirs as soon as they ask for whole ones."""
        if self.gpus and not self.cpu_millis % 1000:
            return self.cpu_millis // 1000
        return self.whole_cpus

    @cached_property
    def cuts(self) -> bool:
        """Does it take CPUs or devices for itself, so that which ones matters?"""
        return self.whole_cpus > 0 or self.asked.gpus > 0 or self.asked.gpu_share_millis > 0


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
        wish=member.wish,
        image=member.image,
        volumes=member.volumes,
    )


@dataclass(frozen=True)
class Kinds:
    """The distinct wants of a gang, in order of appearance, and which one each member has."""

    wants: tuple[Want, ...]
    of: tuple[int, ...]
    sizes: tuple[int, ...]

    @cached_property
    def roles(self) -> Counter[str]:
        """How many members each role has."""
        found: Counter[str] = Counter()
        for want, size in zip(self.wants, self.sizes, strict=True):
            found[want.role] += size
        return found

    def __getitem__(self, position: int) -> Want:
        return self.wants[self.of[position]]

    def __len__(self) -> int:
        return len(self.of)

    def counts_in(self, roles: Sequence[str]) -> list[tuple[Want, int]]:
        """The wants of these roles, each with how many members have it."""
        return [
            (want, size)
            for want, size in zip(self.wants, self.sizes, strict=True)
            if want.role in roles
        ]


#: Equal wants of different gangs are one object, so that they are seen to be equal at once.
_KNOWN: dict[Want, Want] = {}
_MOST_KNOWN = 10_000
_KINDS = "kinds of its members"


def kinds_of(gang: Gang) -> Kinds:
    """Worked out once for each gang, and kept beside its fields: nothing that it says changes."""
    kept = vars(gang)
    found = kept.get(_KINDS)
    if found is None:
        found = kept[_KINDS] = _kinds_of(gang)
    assert isinstance(found, Kinds)
    return found


def _known(want: Want) -> Want:
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    return _KNOWN.setdefault(want, want)


def _kinds_of(gang: Gang) -> Kinds:
    numbers: dict[Want, int] = {}
    latest: dict[str, tuple[Member, int]] = {}
    of: list[int] = []
    for member in gang.members:
        known = latest.get(member.id.role)
        # Members of a role nearly always equal the one before: cheaper to see than to hash.
        if known is not None and _alike(member, known[0]):
            of.append(known[1])
            continue
        number = numbers.setdefault(_known(want_of(member)), len(numbers))
        latest[member.id.role] = (member, number)
        of.append(number)
    sizes = [0] * len(numbers)
    for number in of:
        sizes[number] += 1
    return Kinds(tuple(numbers), tuple(of), tuple(sizes))


def _alike(member: Member, other: Member) -> bool:
    return (
        (member.resources is other.resources or member.resources == other.resources)
        and member.pinning is other.pinning
        and member.image == other.image
        and (member.volumes is other.volumes or member.volumes == other.volumes)
        and member.ports == other.ports
        and member.node_selector == other.node_selector
        and member.tolerations == other.tolerations
        and (member.wish is other.wish or member.wish == other.wish)
    )
