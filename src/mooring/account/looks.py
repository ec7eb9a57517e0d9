"""Records of looks (kind `looks` of samples/M.jsonl) as values. Another version may have written
them: what does not look right is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from mooring.record.journal import JsonValue, Line

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
class Call:
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
    stack: tuple[Call, ...] = ()

    @property
    def peers(self) -> tuple[str, ...]:
        """Members at the other end of the connections that it waits at."""
        return tuple(one.removeprefix(_PEER) for one in self.at if one.startswith(_PEER))

    @property
    def file_system(self) -> str:
        """Of the file that it reads or writes; empty if it is none."""
        return next((one.removeprefix(_FILE) for one in self.at if one.startswith(_FILE)), "")

    @property
    def own_call(self) -> Call | None:
        """The innermost frame of the program."""
        return next((one for one in self.stack if one.own), None)


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
class Clock:
    """Of a main thread: seconds that it ran, and was ready without a CPU, within a span."""

    span_s: float = 0.0
    ran_s: float = 0.0
    ready_s: float = 0.0
    disk_s: float = 0.0
    process_s: float = 0.0
    """All threads of the process ran for so long."""

    def plus(self, other: Clock) -> Clock:
        return Clock(
            self.span_s + other.span_s,
            self.ran_s + other.ran_s,
            self.ready_s + other.ready_s,
            self.disk_s + other.disk_s,
            self.process_s + other.process_s,
        )


@dataclass(frozen=True)
class Surroundings:
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
    clock: Clock = Clock()
    card: str = ""
    moved: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Member -> bytes sent to it and received from it."""
    machine: Surroundings = Surroundings()
    python_threads: int = 0
    helpers: int = 0
    io: Reads = Reads()
    refused: bool = False
    """The kernel did not let the launcher read the process."""
    has_python: bool = True
    has_mpi: bool = False
    """An MPI library is loaded."""


def read_looks(lines: Iterable[Line], window: Window) -> list[RankLooks]:
    """Of one member's journal; the last attempt alone, by local rank."""
    told = [line for line in lines if line.get("kind") == "looks"]
    if told:
        last = (told[-1].get("epoch"), told[-1].get("attempt"))
        told = [line for line in told if (line.get("epoch"), line.get("attempt")) == last]
    by_pid: dict[int, list[Line]] = {}
    for line in told:
        pid = line.get("pid")
        if isinstance(pid, int):
            by_pid.setdefault(pid, []).append(line)
    found = [_rank(pid, records, window) for pid, records in by_pid.items()]
    return sorted((one for one in found if one.looks), key=lambda one: (one.rank, one.pid))


def _rank(pid: int, records: list[Line], window: Window) -> RankLooks:
    looks: list[Look] = []
    clock, moved, machine, io = Clock(), dict[str, int](), Surroundings(), Reads()
    threads = helpers = 0
    for record in records:
        inside = [one for one in _looks(record) if window[0] <= one.at_s <= window[1]]
        trains = [one for one in inside if not _starts(one)]
        if not trains:
            continue
        looks += trains
        if len(trains) == len(inside):
            clock = clock.plus(_clock(record, window))
        machine = _machine(record, machine)
        io = _reads(record, io)
        for member, counts in _mapping(record.get("tcp")).items():
            both = _mapping(counts)
            moved[member] = moved.get(member, 0) + int(
                _number(both.get("sent")) + _number(both.get("received"))
            )
        threads = max(threads, int(_number(record.get("python_threads"))))
        helpers = max(helpers, int(_number(record.get("helpers"))))
    return RankLooks(
        rank=int(_number(records[-1].get("r"))),
        pid=pid,
        looks=tuple(looks),
        clock=clock,
        card=str(records[-1].get("card") or ""),
        moved=moved,
        machine=machine,
        python_threads=threads,
        helpers=helpers,
        io=io,
        refused=records[-1].get("refused") is True,
        has_python=records[-1].get("no_python") is not True,
        has_mpi=any(record.get("mpi") is True for record in records),
    )


def _looks(record: Line) -> list[Look]:
    calls = [_call(one) for one in _list(record.get("calls"))]
    places = [_place(_mapping(one), calls) for one in _list(record.get("places"))]
    from_s = _number(record.get("from"))
    found = []
    rows = _list(record.get("looks"))
    lasts_s = min(_MOST_LASTS_S, max(0.01, _number(record.get("span_s")) / max(1, len(rows))))
    for row in rows:
        numbers = [_number(one) for one in _list(row)]
        if len(numbers) >= 5:
            number = int(numbers[1])
            place = places[number] if 0 <= number < len(places) else None
            received, sent, queued = numbers[2:5]
            at_s = from_s + numbers[0] / 1000
            found.append(Look(at_s, place, received, sent, queued, lasts_s))
    return found


def _starts(look: Look) -> bool:
    """It imports modules: that is no part of a step. Without steps the window has no beginning."""
    stack = look.place.main.stack if look.place is not None else ()
    return any(one.file.startswith(_IMPORTS) for one in stack)


def _place(told: Mapping[str, JsonValue], calls: Sequence[Call]) -> Place:
    helper = told.get("helper")
    return Place(
        main=_spot(told.get("main"), calls),
        by=str(told.get("by") or ""),
        helper=_spot(helper, calls) if isinstance(helper, list) else None,
        running=int(_number(told.get("running"))),
        members=tuple(str(one) for one in _list(told.get("at"))),
    )


def _spot(told: JsonValue, calls: Sequence[Call]) -> Spot:
    parts = _list(told)
    if len(parts) < 4:
        return Spot("?")
    numbers = [int(_number(one)) for one in _list(parts[3])]
    return Spot(
        letter=str(parts[0]),
        call=str(parts[1]),
        at=tuple(str(one) for one in _list(parts[2])),
        stack=tuple(calls[one] for one in numbers if 0 <= one < len(calls)),
    )


def _call(told: JsonValue) -> Call:
    parts = [*_list(told), "", "", 0, []][:4]
    return Call(
        str(parts[0]) or "~",
        str(parts[1]),
        int(_number(parts[2])),
        tuple(map(str, _list(parts[3]))),
    )


def _clock(record: Line, window: Window) -> Clock:
    """Only of a record within the window: what was before is start-up."""
    told = [_number(one) for one in _list(record.get("main"))]
    from_s, span_s = _number(record.get("from")), _number(record.get("span_s"))
    inside = from_s >= window[0] - _BEFORE_S and from_s + span_s <= window[1] + _AFTER_S
    if len(told) < 4 or not inside:
        return Clock()
    return Clock(span_s, *told[:4])


def _reads(record: Line, before: Reads) -> Reads:
    told = _mapping(record.get("io"))
    if not told:
        return before
    kinds = dict(before.kinds)
    for kind, count in _mapping(told.get("kinds")).items():
        kinds[kind] = kinds.get(kind, 0.0) + _number(count)
    return Reads(
        before.span_s + _number(record.get("span_s")),
        before.asked_bytes + _number(told.get("asked_bytes")),
        before.calls + _number(told.get("calls")),
        before.fetched_bytes + _number(told.get("fetched_bytes")),
        before.helper_cpu_s + _number(told.get("helper_cpu_s")),
        max(before.files, int(_number(told.get("files")))),
        kinds,
    )


def _machine(record: Line, before: Surroundings) -> Surroundings:
    told = _mapping(record.get("machine"))
    if not told:
        return before
    suffix = "_pressure_s"
    pressure = dict(before.pressure_s)
    for name in told:
        if name.endswith(suffix):
            kind = name.removesuffix(suffix)
            pressure[kind] = pressure.get(kind, 0.0) + _number(told.get(name))
    return Surroundings(
        before.span_s + _number(told.get("span_s")),
        int(_number(told.get("cpus"))),
        before.busy_s + _number(told.get("busy_s")),
        pressure,
    )


def _number(value: JsonValue) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else 0.0  # type: ignore[arg-type]


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
