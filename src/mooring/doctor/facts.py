"""What the doctor knows: figures of a run's members and nodes, or of one machine. Values only.

Rates are taken over the window in which the job trained: from the first step that any member
reported to the last, or from the start of a member's processes where nobody reports steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from mooring.account import Account
from mooring.account.looks import RankLooks
from mooring.model.member import Duty
from mooring.spec import TrainingJob
from mooring.stacks.categories import Category
from mooring.variables import PartFacts


@dataclass(frozen=True)
class Use:
    """What a member used within the window: differences of the launcher's running totals."""

    span_s: float
    samples: int
    cpu_s: float = 0.0
    wait_s: float | None = None
    """Ready to run without a CPU, summed over threads; None where the launcher did not count it."""
    switches: int = 0
    throttled_s: float = 0.0
    throttled_periods: int = 0
    periods: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0

    @property
    def cpus(self) -> float:
        """CPUs in use, on average."""
        return self.cpu_s / self.span_s

    @property
    def runnable(self) -> float | None:
        """Threads that ran or wanted to, on average."""
        return None if self.wait_s is None else (self.cpu_s + self.wait_s) / self.span_s

    @property
    def moved_bytes(self) -> int:
        return self.received_bytes + self.sent_bytes


@dataclass(frozen=True)
class GpuFacts:
    """A card of a member while the job trained: means of what NVML told; None: it did not."""

    index: int
    busy_percent: float | None = None
    memory_bytes: int = 0
    memory_used_bytes: int = 0
    rx_mbytes_per_s: float | None = None
    tx_mbytes_per_s: float | None = None
    link_mbytes_per_s: float | None = None
    """What its PCIe lanes can carry in one direction."""
    processes: int | None = None
    cell: int | None = None
    """The NUMA cell that it hangs off."""


@dataclass(frozen=True)
class CardTraffic:
    """A network card that a member's sockets talk through, with the NUMA cell that it is on."""

    name: str
    cell: int
    received_mbps: float
    sent_mbps: float


@dataclass(frozen=True)
class Repeats:
    """Something that was seen to begin again and again, and for how long each time."""

    every_s: float
    lasts_s: float


@dataclass(frozen=True)
class ReadFacts:
    """What a trainer and its loaders read: `asked` of the system, `fetched` from disks."""

    asked_bytes_per_s: float = 0.0
    calls_per_s: float = 0.0
    fetched_bytes_per_s: float = 0.0
    file_systems: tuple[str, ...] = ()
    """Types of those that files were open on, most first."""
    files: int = 0
    """Data files that were seen open, of those looked at once a second."""
    main_cpus: float | None = None
    """CPU time that the trainer's main thread used or waited for, a second; None: nobody looked."""
    loader_cpus: float | None = None
    """The same of all its loaders together."""


@dataclass(frozen=True)
class StackFacts:
    """What the main thread of one trainer was seen doing within the window."""

    looks: int
    shares: Mapping[Category, float]
    places: Mapping[Category, str] = field(default_factory=lambda: MappingProxyType({}))
    """Category -> the line of the user's program at which it was seen most."""
    repeats: Mapping[Category, Repeats] = field(default_factory=lambda: MappingProxyType({}))
    loaders: int = 0
    """Processes that the trainer started to prepare data."""
    reads: ReadFacts | None = None

    def share(self, *categories: Category) -> float:
        return sum(self.shares.get(category, 0.0) for category in categories)


@dataclass(frozen=True)
class MemberFacts:
    """One member: what it was given, what it was told, what it did."""

    name: str
    role: str
    node: str = ""
    held_cpus: frozenset[int] = frozenset()
    exclusive: bool = False
    asked_millis: int = 0
    memory_limit_bytes: int | None = None
    memory_enforced: bool = False
    budget_millis: int | None = None
    quota_millis: int | None = None
    threads_told: int | None = None
    threads_kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Thread counts that the user had set, so that the budget did not."""
    processes: int = 1
    allowed_cpus: frozenset[int] = frozenset()
    """CPUs that its processes may really run on."""
    seen_cpus: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    threads: int = 0
    peak_memory_bytes: int = 0
    shm_used_bytes: int = 0
    shm_bytes: int = 0
    use: Use | None = None
    """None: too few samples."""
    steps: int = 0
    steps_per_s: float | None = None
    examples_per_s: float | None = None
    stacks: tuple[StackFacts, ...] = ()
    """One a process that trains; empty where nobody looked."""
    stacks_note: str = ""
    """Why nobody could look."""
    looks: tuple[RankLooks, ...] = field(default=(), repr=False)
    """One a process, as the launcher saw it while the member trained."""
    pinned: bool = True
    pinning_note: str = ""
    memory: tuple[tuple[float, int], ...] = ()
    """(seconds, resident bytes) of its samples within the window."""
    out_of_memory: bool = False
    gpus: tuple[GpuFacts, ...] = ()
    gpu_error: str = ""
    memory_cells: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """NUMA cell -> bytes of its memory there; empty where nobody looked."""
    nics: tuple[CardTraffic, ...] = ()
    """Cards whose cell is known."""

    @property
    def usable_cpus(self) -> float:
        """CPUs that it could use at most: its set, or the quota where that is less."""
        count = float(len(self.allowed_cpus or self.held_cpus) or 1)
        return count if self.quota_millis is None else min(count, self.quota_millis / 1000)


@dataclass(frozen=True)
class CpuPlace:
    """A CPU of a node, with the L3 cache and the NUMA cell that it belongs to."""

    cpu: int
    l3: int
    cell: int


@dataclass(frozen=True)
class NicFacts:
    """A node's network card within the window; the shares are of its limit, None without one."""

    node: str
    limit_mbps: int | None
    received_mbps: float
    sent_mbps: float
    in_turns: float | None = None
    """The share of time for which it was in use, in short intervals by the fuller direction of
    each: a card that is filled in turns, in and then out, is full. None: nobody counted so."""

    @property
    def busy(self) -> float | None:
        """Of the fuller direction: the parts of a full-duplex card fill up apart, but those who
        send first and then receive find it as full as both together."""
        if not self.limit_mbps:
            return None
        one_way = max(self.received_mbps, self.sent_mbps) / self.limit_mbps
        return max(one_way, min(1.0, self.in_turns or 0.0))

    @property
    def alternates(self) -> bool:
        """It is the turns that fill it, and no direction alone."""
        if not self.limit_mbps or self.in_turns is None:
            return False
        return self.in_turns > 1.2 * max(self.received_mbps, self.sent_mbps) / self.limit_mbps


@dataclass(frozen=True)
class MachineFacts:
    """The machine that all members ran on, within the window. Virtual nodes are parts of it."""

    cpus: int
    used_cpus: float
    """By everybody: this job, other programs, the system."""
    available_bytes: int = 0
    """Memory that was left at the end of the window."""


class Trait(StrEnum):
    """What kind of program it is, as far as it was seen inside it."""

    KERAS_2 = "keras-2"
    """Layers of Keras 2 have variables on parameter servers."""
    KERAS_3 = "keras-3"
    SDK_STRATEGY = "sdk-strategy"
    """The strategy is `mooring.tensorflow.strategy()`, which the job's `variables` direct."""


@dataclass(frozen=True)
class EndFacts:
    """An ended run between the last step that anybody reported and its end."""

    after_s: float
    run_s: float
    """The whole run, from the start of its members."""
    member: str
    """Who reported the last step."""
    silent_s: float | None = None
    """Of it after the last line of that member's log; None where there is no log."""
    runnable: float | None = None
    """Threads of the member that ran or wanted to meanwhile, on average; None: too few samples."""

    @property
    def idle_s(self) -> float:
        """Without a step and without a line in the log."""
        return self.after_s if self.silent_s is None else min(self.after_s, self.silent_s)


@dataclass(frozen=True)
class StallFacts:
    """A standstill that lasted to the end, or lasts: since when, and where each process was."""

    lasts_s: float
    usual_s: float | None
    says: str
    hang: bool
    missing: tuple[str, ...] = ()
    """Members that others wait for."""
    processes: tuple[tuple[str, str], ...] = ()
    """(member, where it was) of each process; empty where nobody looked."""
    file: str = ""
    """Where everybody's stacks are kept."""


@dataclass(frozen=True)
class RunFacts:
    """A run as far as it has come. `source` is where the figures were read."""

    run: str
    job: TrainingJob
    duties: Mapping[str, Duty]
    """Role -> what it is there for; a role that is not named trains."""
    members: tuple[MemberFacts, ...]
    nics: tuple[NicFacts, ...] = ()
    machine: MachineFacts | None = None
    """None: the members are on several, or nobody looked."""
    node_cpus: Mapping[str, frozenset[int]] = field(default_factory=lambda: MappingProxyType({}))
    """Node -> the CPUs that members on it hold between them."""
    topology: Mapping[str, tuple[CpuPlace, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Node -> its CPUs; empty where the run did not tell."""
    examples_per_s: float | None = None
    stacks_note: str = ""
    """Why nobody looked at the trainers' stacks."""
    steps_per_s: float | None = None
    variables: tuple[PartFacts, ...] = ()
    """As the program's chief tells them; empty where it does not."""
    source: str = ""
    waits_for: str = ""
    """Why it has no place yet."""
    program: frozenset[Trait] = frozenset()
    last_words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Member that failed -> the last lines of its log."""
    end: EndFacts | None = None
    """None: it has not ended, or nobody reported steps."""
    stall: StallFacts | None = None
    """None: it got on, as far as is known."""
    account: Account = Account()
    """Where the time of each rank's step goes; without ranks where nobody looked."""

    @property
    def servers(self) -> tuple[MemberFacts, ...]:
        return self._with_duty(Duty.SERVES)

    @property
    def workers(self) -> tuple[MemberFacts, ...]:
        """Members that train: neither servers nor those that only lead or watch."""
        return self._with_duty(Duty.TRAINS)

    def _with_duty(self, duty: Duty) -> tuple[MemberFacts, ...]:
        return tuple(
            member for member in self.members if self.duties.get(member.role, Duty.TRAINS) is duty
        )


@dataclass(frozen=True)
class CpuClock:
    """One CPU's clock now and at most, and who chooses it."""

    cpu: int
    governor: str
    now_mhz: float | None = None
    most_mhz: float | None = None


@dataclass(frozen=True)
class NodeFacts:
    """This machine, or the container that the doctor runs in."""

    name: str
    online_cpus: int
    allowed_cpus: frozenset[int]
    cpuset_cpus: int | None = None
    quota_millis: int | None = None
    throttled_periods: int = 0
    periods: int = 0
    in_container: bool = False
    thread_env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    memory_limit_bytes: int | None = None
    memory_used_bytes: int | None = None
    shm_bytes: int | None = None
    shm_used_bytes: int = 0
    clocks: tuple[CpuClock, ...] = ()
    gpus: int = 0
    nvml_error: str = ""


@dataclass(frozen=True)
class GangFacts:
    """Pods of others on a cluster that belong to one job: who holds something, and who waits."""

    namespace: str
    name: str
    kind: str
    holding: int
    waiting: int
    gpus: int
    """Cards that those who hold something hold."""
    nodes: tuple[str, ...]
    waited_s: float
    """How long the one that waits longest has waited."""
    together: bool = True
    """Its members surely need each other; tasks of a plain Job may not."""


@dataclass(frozen=True)
class ClusterFacts:
    """A cluster, or one namespace of it. `unseen`: why its pods could not be looked at."""

    name: str
    gangs: tuple[GangFacts, ...] = ()
    unseen: str = ""
