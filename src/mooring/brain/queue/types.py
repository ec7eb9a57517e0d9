"""The values that the queue takes and gives: waiting and running gangs, pools, decisions.

All frozen: a decision is a pure function of them. A job's name is its key everywhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from itertools import count
from typing import Protocol, Self, runtime_checkable

from mooring.brain.packing import SearchBudget
from mooring.brain.want import kinds_of
from mooring.model.member import Gang, Member, MemberId
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

DEFAULT_POOL = "default"

#: So much of anything is no limit. Kubernetes counts to 2^63 - 1, and sums stay below it.
UNLIMITED = 1 << 62

#: Thousandths of a CPU, bytes, thousandths of a device: plain integers, because the queue adds up
#: a lot of them.
Amount = tuple[int, int, int]
NOTHING: Amount = (0, 0, 0)


class Planner(Protocol):
    """What the queue needs of a cluster. `place` changes nothing; a job is held under its name."""

    def place(self, gang: Gang) -> Plan | Refusal: ...

    def assume(self, gang: Gang, plan: Plan) -> None: ...

    def release(self, job: str) -> None: ...

    def copy(self) -> Self: ...


@runtime_checkable
class Packer(Protocol):
    """A planner that can also place several gangs at once."""

    def packable(self, gangs: Sequence[Gang]) -> bool:
        """Could `pack` do anything for these?"""

    def pack(self, gangs: Sequence[Gang], budget: SearchBudget) -> tuple[Plan, ...] | None:
        """Plans that fit together and are taken in this order; None if none was found."""


@runtime_checkable
class Foresees(Protocol):
    """A planner that can say cheaply whether there is a place."""

    def may_fit(self, *gangs: Gang) -> bool:
        """False: there surely is none for all of these, whatever the order, and neither would there
        be if others held more. True says nothing."""

    def has_room(self, gang: Gang) -> bool | None:
        """Would `place` give a plan for the whole gang? None: it has to be asked."""

    def crowded_out(self, gang: Gang, other: Gang, now: Self) -> bool:
        """True: there surely is no place for `gang` here once `other` has one, whichever `now`
        gives it. `now` is this planner with more held. False says nothing."""


@runtime_checkable
class Impartial(Protocol):
    """A planner that can say whether the name of a gang matters to it."""

    def nameless(self, gang: Gang) -> bool:
        """True: any other gang of this shape would get the very same slots in its place."""


@cache
def can(planner: type, kind: type) -> bool:
    """Is it such a planner? Looking at a protocol takes as long as deciding a small queue."""
    return issubclass(planner, kind)


def amount_of(resources: Resources) -> Amount:
    return (resources.cpu_millis, resources.memory_bytes, resources.gpu_millis)


def resources_of(amount: Sequence[int]) -> Resources:
    cpu_millis, memory_bytes, gpu_millis = amount
    return Resources(cpu_millis, memory_bytes, gpu_share_millis=gpu_millis)


def charge_of(gang: Gang) -> Amount:
    """What the gang takes away from others: whole CPUs for exclusive members."""
    kinds = kinds_of(gang)
    counted = list(zip(kinds.wants, kinds.sizes, strict=True))
    return (
        sum(want.cpu_millis * count for want, count in counted),
        sum(want.memory_bytes * count for want, count in counted),
        sum(want.asked.gpu_millis * count for want, count in counted),
    )


#: Shapes by number, because they are compared a lot. A number is never given twice: one that is
#: forgotten is only not recognised.
_SHAPES: dict[Hashable, int] = {}
_NUMBERS = count()
_MOST_SHAPES = 10_000


def _number(shape: Hashable) -> int:
    if len(_SHAPES) >= _MOST_SHAPES:
        _SHAPES.clear()
    known = _SHAPES.get(shape)
    if known is None:
        known = _SHAPES[shape] = next(_NUMBERS)
    return known


@dataclass(frozen=True)
class QueuedGang:
    """A gang that asks to run.

    `min_available` members are enough to start (None: all of them). `expected_s` is how long it
    will run from its start, if somebody knows.
    """

    gang: Gang
    priority: int = 0
    pool: str = DEFAULT_POOL
    arrived_s: float = 0.0
    preemptible: bool = True
    min_available: int | None = None
    expected_s: float | None = None

    @property
    def job(self) -> str:
        return self.gang.job

    @cached_property
    def most(self) -> int:
        return len(self.gang.members)

    @cached_property
    def least(self) -> int:
        if self.min_available is not None:
            return max(1, min(self.min_available, self.most))
        return self.most if self.gang.all_or_nothing else 1

    @cached_property
    def _by_worth(self) -> tuple[Member, ...]:
        """The members in the order in which they are kept.

        One of each role comes first, then servers, whose number a framework cannot change, then
        the others by index, so that ranks stay without gaps.
        """
        servers = set(self.gang.server_roles)

        def worth(item: tuple[int, Member]) -> tuple[bool, bool, int, int]:
            position, member = item
            return member.id.index != 0, member.id.role not in servers, member.id.index, position

        ordered = sorted(enumerate(self.gang.members), key=worth)
        return tuple(member for _, member in ordered)

    @cached_property
    def shape(self) -> int:
        """The number of all that a planner sees of it besides the job's name: gangs of one shape
        are refused alike."""
        kinds = kinds_of(self.gang)
        whole = [
            getattr(self.gang, each.name)
            for each in fields(self.gang)
            if each.name not in ("job", "members")
        ]
        indexes = tuple(member.id.index for member in self.gang.members)
        return _number((kinds.wants, kinds.of, indexes, tuple(whole)))

    @cached_property
    def _sized(self) -> dict[int, tuple[Gang, Amount]]:
        return {}

    def sized(self, size: int) -> tuple[Gang, Amount]:
        """The gang with that many members, to be placed whole, and what it is charged."""
        known = self._sized.get(size)
        if known is None:
            members = self.gang.members
            if size < self.most:
                kept = {member.id for member in self._by_worth[:size]}
                members = tuple(member for member in members if member.id in kept)
            gang = self.gang
            if size < self.most or not gang.all_or_nothing:
                gang = replace(gang, members=members, all_or_nothing=True)
            known = self._sized[size] = (gang, charge_of(gang))
        return known


@dataclass(frozen=True)
class RunningGang:
    """A gang that holds what its plan says. `plan` may cover fewer members than were asked for."""

    queued: QueuedGang
    plan: Plan
    started_s: float

    @property
    def job(self) -> str:
        return self.queued.job

    @property
    def pool(self) -> str:
        return self.queued.pool

    @cached_property
    def size(self) -> int:
        return len(self.plan.placements)

    @property
    def gang(self) -> Gang:
        return self.queued.sized(self.size)[0]

    @cached_property
    def charge(self) -> Amount:
        return self.queued.sized(self.size)[1]

    def end_s(self, now_s: float) -> float | None:
        """When it is expected to end; None if nobody knows, or if it should have by now."""
        expected = self.queued.expected_s
        if expected is None or self.started_s + expected < now_s:
            return None
        return self.started_s + expected


@dataclass(frozen=True)
class PoolSpec:
    """A pool's part of the cluster.

    `guaranteed` is its own; beyond that it borrows what others leave unused, up to `cap` in all
    (None: no limit; `UNLIMITED` of a kind: none of that). `weight` divides what is borrowed. A kind
    of resource that no pool mentions, in guarantee or cap, is not divided at all.
    """

    name: str
    guaranteed: Resources = Resources()
    cap: Resources | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"pool {self.name}: weight {self.weight} is not above 0")


@dataclass(frozen=True)
class QueuePolicy:
    """`ageing_per_s` points of priority are gained for each second of waiting."""

    ageing_per_s: float = 1 / 60
    most_tried: int = 100
    """Gangs of one pool that are looked at in one round although they cannot start."""
    most_trials: int = 64
    """Sets of victims that are tried out for one gang."""
    most_searches: int = 8
    """Gangs of one pool for which victims are sought in vain in one round."""
    most_repacked: int = 16
    """Gangs of one round that are placed anew for the sake of one more."""
    most_packing: int = 20_000
    """Steps of one packing that is sought for the gangs of one round; five times as many for all
    of the round, and for each set of gangs that arrived together."""


@dataclass(frozen=True)
class QueueState:
    """All that `decide` knows besides the cluster, which holds exactly the `running` gangs.

    `capacity` is what the cluster has for the queue in all, running gangs included.
    """

    capacity: Resources
    waiting: tuple[QueuedGang, ...] = ()
    running: tuple[RunningGang, ...] = ()
    pools: tuple[PoolSpec, ...] = ()
    policy: QueuePolicy = field(default_factory=QueuePolicy)
    place: str = "the cluster"
    """What sentences call all the nodes together."""


@dataclass(frozen=True)
class Admit:
    """Start it so. `borrowed` is what its pool then holds beyond its guarantee for it, if any."""

    job: str
    plan: Plan
    borrowed: Resources | None = None


@dataclass(frozen=True)
class Preempt:
    """Stop the whole gang and let it wait again; `for_job` is admitted in the same round."""

    job: str
    for_job: str
    reason: str


@dataclass(frozen=True)
class Shrink:
    """Stop these members; the others stay where they are."""

    job: str
    members: tuple[MemberId, ...]
    for_job: str
    reason: str


@dataclass(frozen=True)
class Grow:
    """Start the members that `plan` has more; the others stay where they are."""

    job: str
    plan: Plan


@dataclass(frozen=True)
class Wait:
    job: str
    sentence: str


Decision = Admit | Preempt | Shrink | Grow | Wait
