"""Records of looks, put together: what each process of a member was seen doing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from mooring.wire.looks import Looks, SeenPlace, SeenThread

Window = tuple[float, float]
#: A record may begin a little before the step that the window begins with: its launcher begins a
#: new one there. Before is start-up. It may end later after the last step.
_BEFORE_S, _AFTER_S = 0.3, 1.5
_MOST_LASTS_S = 10.0
_PEER = "peer:"
_FILE = "file:"
_LIBRARY = "~"
_IMPORTS = "~<frozen importlib"


@dataclass(frozen=True)
class SampledFrame:
    """One frame; `calls`: names that its line calls, of lines of the program."""

    file: str
    function: str
    line: int
    calls: tuple[str, ...] = ()

    @property
    def own(self) -> bool:
        return not self.file.startswith(_LIBRARY)


@dataclass(frozen=True)
class Spot:
    """What a thread does: the kernel's letter, its system call, at what, frames innermost first."""

    letter: str
    call: str = ""
    at: tuple[str, ...] = ()
    stack: tuple[SampledFrame, ...] = ()

    @property
    def peers(self) -> tuple[str, ...]:
        """Members at the other end of the connections that it waits at."""
        return tuple(one.removeprefix(_PEER) for one in self.at if one.startswith(_PEER))

    @property
    def file_system(self) -> str:
        """Of the file that it reads or writes; empty if it is none."""
        return next((one.removeprefix(_FILE) for one in self.at if one.startswith(_FILE)), "")

    @property
    def own_call(self) -> SampledFrame | None:
        """The innermost frame of the program."""
        return next((frame for frame in self.stack if frame.own), None)


@dataclass(frozen=True)
class Place:
    """A main thread and, while it waits, who works in its process or below it."""

    main: Spot
    by: str = ""
    """`thread`, `native` (a thread without Python) or `process`."""
    helper: Spot | None = None
    running: int = 0
    members: tuple[str, ...] = ()
    """At whose connections other threads of the process wait."""


@dataclass(frozen=True)
class Look:
    """A moment: where the process was (None: more places than a record holds), and the card."""

    at_s: float
    place: Place | None
    received_kbytes_per_s: float = 0.0
    sent_kbytes_per_s: float = 0.0
    queued_kbytes: float = 0.0
    lasts_s: float = 1.0
    """The time that it stands for: looks become rarer with time."""


@dataclass(frozen=True)
class ThreadTime:
    """Of a main thread: seconds that it ran, and was ready without a CPU, within a span."""

    span_s: float = 0.0
    ran_s: float = 0.0
    ready_s: float = 0.0
    disk_s: float = 0.0
    process_s: float = 0.0
    """All threads of the process ran for so long."""

    def plus(self, other: ThreadTime) -> ThreadTime:
        return ThreadTime(
            self.span_s + other.span_s,
            self.ran_s + other.ran_s,
            self.ready_s + other.ready_s,
            self.disk_s + other.disk_s,
            self.process_s + other.process_s,
        )


@dataclass(frozen=True)
class MachineLoad:
    """The member's machine while it was looked at: CPUs, and CPU seconds of everybody."""

    span_s: float = 0.0
    cpus: int = 0
    busy_s: float = 0.0
    pressure_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """cpu, io, memory -> seconds in which somebody waited for it."""


@dataclass(frozen=True)
class Reads:
    """What a process and its helpers read within a span."""

    span_s: float = 0.0
    asked_bytes: float = 0.0
    calls: float = 0.0
    fetched_bytes: float = 0.0
    """From disks, or a network file system."""
    helper_cpu_s: float = 0.0
    """CPU time that main threads of the helpers used or waited for."""
    files: int = 0
    """Data files that were seen open, at most within one record."""
    kinds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Kind of file system -> files seen open on it."""


@dataclass(frozen=True)
class RankLooks:
    """All looks at one process within a window."""

    rank: int
    pid: int
    looks: tuple[Look, ...]
    clock: ThreadTime = ThreadTime()
    card: str = ""
    moved: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Member -> bytes sent to it and received from it."""
    machine: MachineLoad = MachineLoad()
    python_threads: int = 0
    helpers: int = 0
    io: Reads = Reads()
    refused: bool = False
    """The kernel did not let the launcher read the process."""
    has_python: bool = True
    has_mpi: bool = False
    """An MPI library is loaded."""


def read_looks(records: Iterable[Looks], window: Window) -> list[RankLooks]:
    """Of one member's journal; the last attempt alone, by local rank."""
    records = list(records)
    by_pid: dict[int, list[Looks]] = {}
    for record in records:
        if record.pid is not None and record.start == records[-1].start:
            by_pid.setdefault(record.pid, []).append(record)
    ranks = [_rank(pid, of_rank, window) for pid, of_rank in by_pid.items()]
    return sorted((rank for rank in ranks if rank.looks), key=lambda rank: (rank.rank, rank.pid))


def _rank(pid: int, records: list[Looks], window: Window) -> RankLooks:
    looks: list[Look] = []
    clock, moved, machine, io = ThreadTime(), dict[str, int](), MachineLoad(), Reads()
    threads = helpers = 0
    for record in records:
        inside = [look for look in _looks(record) if window[0] <= look.at_s <= window[1]]
        trains = [look for look in inside if not _starts(look)]
        if not trains:
            continue
        looks += trains
        if len(trains) == len(inside):
            clock = clock.plus(_clock(record, window))
        machine = _machine(record, machine)
        io = _reads(record, io)
        for member, counts in record.tcp.items():
            both = int(counts.sent_bytes + counts.received_bytes)
            moved[member] = moved.get(member, 0) + both
        threads = max(threads, record.python_threads)
        helpers = max(helpers, record.helpers)
    return RankLooks(
        rank=records[-1].rank,
        pid=pid,
        looks=tuple(looks),
        clock=clock,
        card=records[-1].card,
        moved=moved,
        machine=machine,
        python_threads=threads,
        helpers=helpers,
        io=io,
        refused=records[-1].refused,
        has_python=not records[-1].no_python,
        has_mpi=any(record.mpi for record in records),
    )


def _looks(record: Looks) -> list[Look]:
    calls = [SampledFrame(*call) for call in record.calls]
    places = [_place(place, calls) for place in record.places]
    looks = []
    lasts_s = min(_MOST_LASTS_S, max(0.01, record.span_s / max(1, len(record.looks))))
    for row in record.looks:
        if len(row) >= 5:
            number = int(row[1])
            place = places[number] if 0 <= number < len(places) else None
            received, sent, queued = row[2:5]
            at_s = record.from_s + row[0] / 1000
            looks.append(Look(at_s, place, received, sent, queued, lasts_s))
    return looks


def _starts(look: Look) -> bool:
    """It imports modules: that is no part of a step. Without steps the window has no beginning."""
    stack = look.place.main.stack if look.place is not None else ()
    return any(frame.file.startswith(_IMPORTS) for frame in stack)


def _place(place: SeenPlace, calls: Sequence[SampledFrame]) -> Place:
    return Place(
        main=_spot(place.main, calls) if place.main is not None else Spot("?"),
        by=place.by,
        helper=_spot(place.helper, calls) if place.helper is not None else None,
        running=place.running,
        members=place.members,
    )


def _spot(thread: SeenThread, calls: Sequence[SampledFrame]) -> Spot:
    return Spot(
        letter=thread.letter,
        call=thread.system_call,
        at=thread.waits_at,
        stack=tuple(calls[call] for call in thread.calls if 0 <= call < len(calls)),
    )


def _clock(record: Looks, window: Window) -> ThreadTime:
    """Only of a record within the window: what was before is start-up."""
    from_s, until_s = record.from_s, record.from_s + record.span_s
    inside = from_s >= window[0] - _BEFORE_S and until_s <= window[1] + _AFTER_S
    if len(record.main_s) < 4 or not inside:
        return ThreadTime()
    return ThreadTime(record.span_s, *record.main_s[:4])


def _reads(record: Looks, before: Reads) -> Reads:
    io = record.io
    if io is None:
        return before
    kinds = dict(before.kinds)
    for kind, count in io.kinds.items():
        kinds[kind] = kinds.get(kind, 0.0) + count
    return Reads(
        before.span_s + record.span_s,
        before.asked_bytes + io.asked_bytes,
        before.calls + io.calls,
        before.fetched_bytes + io.fetched_bytes,
        before.helper_cpu_s + io.helper_cpu_s,
        max(before.files, io.files),
        kinds,
    )


def _machine(record: Looks, before: MachineLoad) -> MachineLoad:
    machine = record.machine
    if machine is None:
        return before
    pressure = dict(before.pressure_s)
    for kind, waited_s in machine.pressure_s.items():
        pressure[kind] = pressure.get(kind, 0.0) + waited_s
    return MachineLoad(
        before.span_s + machine.span_s, machine.cpus, before.busy_s + machine.busy_s, pressure
    )
