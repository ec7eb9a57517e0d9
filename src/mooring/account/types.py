"""What an account says: values only. Every share is a part of the rank's wall time, 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from mooring.record.journal import JsonValue
from mooring.stacks.categories import Category


class Activity(StrEnum):
    """What the time of a step is spent on. Of one rank the shares of all of them add up to 1."""

    FRAMEWORK = "framework"
    """On a CPU, the innermost Python frame being a library's, or in a library's own threads."""
    OWN = "own code"
    """On a CPU, the innermost Python frame being the program's."""
    CPU_WAIT = "waiting for a CPU"
    """Ready to run, and no CPU free."""
    NETWORK = "network"
    """Waits while bytes move: the card limits."""
    OTHERS = "waiting for others"
    """Waits for another member and no bytes move: in a collective, or at a server."""
    INPUT = "input"
    """Loads data, or waits for what loads it (processes or threads of its own)."""
    DISK = "disk"
    """Blocked on a file, or on output that is not taken as fast as it comes."""
    SLEEP = "sleeping"
    DEVICE = "device"
    UNSEEN = "unexplained"


#: On a CPU.
COMPUTING = (Activity.FRAMEWORK, Activity.OWN)


@dataclass(frozen=True)
class LineShare:
    """A line of the program: the innermost one that is not a library's."""

    file: str
    line: int
    function: str
    share: float
    """Of the rank's time; all activities together."""
    by: Mapping[Activity, float] = field(default_factory=lambda: MappingProxyType({}))
    """The same, divided by activity."""
    thread: str = ""
    """`thread` or `process`: it was seen in another thread or child process, which the main thread
    waited for."""
    calls: tuple[str, ...] = ()
    """Names that the line calls, as its text has them: `("Allreduce",)`."""

    @property
    def place(self) -> str:
        """`train.py:41 accuracy()`."""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line} {self.function}()"


@dataclass(frozen=True)
class WaitFor:
    """Whom a rank waits for while no bytes move, and what that one does meanwhile."""

    member: str
    """Empty: for others, nobody in particular."""
    share: float
    rank: int | None = None
    """The local rank of it; None: the member has one, or it is not known."""
    doing: Activity | None = None
    """What the other does most, apart from waiting."""
    line: LineShare | None = None
    """Where the other does it."""


@dataclass(frozen=True)
class NetworkUse:
    """A rank's card while the rank waited with bytes on their way."""

    card: str
    sent_mbps: float
    """Mean while the rank was in the network; of another's card, of all looks at that."""
    received_mbps: float
    limit_mbps: float | None = None
    """In each direction; None where nobody said it: then `most_mbps` was the fullest moment."""
    most_mbps: float = 0.0
    full: float = 0.0
    """Part of all looks (0 to 1) at which one direction or the other was nearly full; a card that
    is full in turns, in then out, is full."""
    to: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Member -> share of the bytes that were moved with it."""
    of: str = ""
    """Whose card it is: a member; empty: the rank's own."""


@dataclass(frozen=True)
class OtherThreads:
    """Threads of a process in Python beside the main one."""

    python: int = 0
    """Threads with Python frames, main thread included."""
    gil_wait: float = 0.0
    """Part of the looks at which the main thread waited while another Python thread ran."""


@dataclass(frozen=True)
class RankAccount:
    """One process that trains (or serves): its main thread's time."""

    member: str
    role: str
    node: str
    rank: int
    """Local: 0 for the first process of the member."""
    looks: int
    span_s: float
    """From the first look to the last."""
    step_s: float | None
    """None: no steps are known."""
    parts: Mapping[Activity, float]
    """Shares that add up to 1 (what was not understood is UNSEEN)."""
    lines: tuple[LineShare, ...] = ()
    """Most first."""
    waits: tuple[WaitFor, ...] = ()
    """How OTHERS divides; most first."""
    network: NetworkUse | None = None
    phases: Mapping[Category, float] = field(default_factory=lambda: MappingProxyType({}))
    """Share of the time within checkpoints, logging, evaluation, as names tell: they lie across
    the activities."""
    spins: float = 0.0
    """Part of OTHERS and NETWORK during which it kept a CPU busy (MPI polls)."""
    threads: OtherThreads = OtherThreads()
    cpus: float | None = None
    """CPUs that all threads of the process used, on average."""
    loaders: int = 0
    """Processes that it started."""
    file_systems: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Kind of file system -> share of the time in reads or writes of files on it."""
    serves: bool = False
    """A server: what it waits for is a request."""
    note: str = ""
    """What could not be seen and what would show it."""

    def share(self, *activities: Activity) -> float:
        return sum(self.parts.get(activity, 0.0) for activity in activities)

    @property
    def functions(self) -> tuple[LineShare, ...]:
        """Its lines put together by function, at the line that was seen most; most first."""
        groups: dict[tuple[str, str, str], list[LineShare]] = {}
        for line in self.lines:
            groups.setdefault((line.file, line.function, line.thread), []).append(line)
        merged = [
            replace(
                max(group, key=lambda line: line.share),
                share=sum(line.share for line in group),
                by={
                    activity: sum(line.by.get(activity, 0.0) for line in group)
                    for activity in Activity
                    if any(activity in line.by for line in group)
                },
            )
            for group in groups.values()
        ]
        return tuple(sorted(merged, key=lambda line: -line.share))

    @property
    def adds_up(self) -> bool:
        return self.share(Activity.UNSEEN) <= 0.05

    def document(self) -> dict[str, JsonValue]:
        return {
            "member": self.member,
            "role": self.role,
            "node": self.node,
            "rank": self.rank,
            "looks": self.looks,
            "span_s": round(self.span_s, 3),
            "step_ms": None if self.step_s is None else round(self.step_s * 1000, 3),
            "parts": {activity.value: round(share, 4) for activity, share in self.parts.items()},
            "lines": [_line(line) for line in self.lines],
            "functions": [_line(function) for function in self.functions],
            "waits": [
                {
                    "for": wait.member,
                    "rank": wait.rank,
                    "share": round(wait.share, 4),
                    "doing": None if wait.doing is None else wait.doing.value,
                    "line": None if wait.line is None else wait.line.place,
                }
                for wait in self.waits
            ],
            "network": None if self.network is None else _network(self.network),
            "phases": {activity.value: round(share, 4) for activity, share in self.phases.items()},
            "spins": round(self.spins, 4),
            "python_threads": self.threads.python,
            "gil_wait": round(self.threads.gil_wait, 4),
            "cpus": None if self.cpus is None else round(self.cpus, 3),
            "loaders": self.loaders,
            "file_systems": {kind: round(share, 4) for kind, share in self.file_systems.items()},
            "serves": self.serves,
            "adds_up": self.adds_up,
            "note": self.note,
        }


@dataclass(frozen=True)
class RoleAccount:
    """The mean of a role's ranks."""

    role: str
    ranks: int
    step_s: float | None
    parts: Mapping[Activity, float]
    serves: bool = False

    def share(self, *activities: Activity) -> float:
        return sum(self.parts.get(activity, 0.0) for activity in activities)

    def document(self) -> dict[str, JsonValue]:
        return {
            "role": self.role,
            "ranks": self.ranks,
            "step_ms": None if self.step_s is None else round(self.step_s * 1000, 3),
            "parts": {activity.value: round(share, 4) for activity, share in self.parts.items()},
            "serves": self.serves,
        }


@dataclass(frozen=True)
class MachineUse:
    """The machine that a node's members run on, while they were looked at."""

    node: str
    cpus: int
    busy_cpus: float
    """CPUs in use, by everybody."""
    others_cpus: float
    """Of them by processes that are not the job's. Nodes on one machine (virtual ones) show the
    same figures."""
    pressure: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """cpu, io, memory -> part of the time in which somebody waited for it; empty where the kernel
    keeps no pressure."""

    def document(self) -> dict[str, JsonValue]:
        return {
            "node": self.node,
            "cpus": self.cpus,
            "busy_cpus": round(self.busy_cpus, 3),
            "others_cpus": round(self.others_cpus, 3),
            "pressure": {kind: round(share, 4) for kind, share in self.pressure.items()},
        }


@dataclass(frozen=True)
class Account:
    """Of a run. `ranks` in the order of members; `note`: why there is none, or not of everybody."""

    ranks: tuple[RankAccount, ...] = ()
    roles: tuple[RoleAccount, ...] = ()
    slowest: RankAccount | None = None
    """The rank that the others wait for, or else the one with the least time spent waiting."""
    note: str = ""
    machines: tuple[MachineUse, ...] = ()

    def of(self, member: str, rank: int = 0) -> RankAccount | None:
        return next((one for one in self.ranks if (one.member, one.rank) == (member, rank)), None)

    @property
    def trainers(self) -> tuple[RankAccount, ...]:
        return tuple(rank for rank in self.ranks if not rank.serves)

    def mean(self, *activities: Activity) -> float:
        """Of the ranks that train."""
        shares = [trainer.share(*activities) for trainer in self.trainers]
        return sum(shares) / len(shares) if shares else 0.0

    def document(self) -> dict[str, JsonValue]:
        return {
            "roles": [role.document() for role in self.roles],
            "ranks": [rank.document() for rank in self.ranks],
            "slowest": None
            if self.slowest is None
            else {"member": self.slowest.member, "rank": self.slowest.rank},
            "machines": [machine.document() for machine in self.machines],
            "note": self.note,
        }


def _line(line: LineShare) -> dict[str, JsonValue]:
    return {
        "place": line.place,
        "file": line.file,
        "line": line.line,
        "function": line.function,
        "share": round(line.share, 4),
        "by": {activity.value: round(share, 4) for activity, share in line.by.items()},
        "thread": line.thread,
        "calls": list(line.calls),
    }


def _network(use: NetworkUse) -> dict[str, JsonValue]:
    return {
        "card": use.card,
        "of": use.of,
        "sent_mbps": round(use.sent_mbps, 3),
        "received_mbps": round(use.received_mbps, 3),
        "limit_mbps": use.limit_mbps,
        "most_mbps": round(use.most_mbps, 3),
        "full": round(use.full, 4),
        "to": {member: round(share, 4) for member, share in use.to.items()},
    }
