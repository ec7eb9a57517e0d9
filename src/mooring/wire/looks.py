"""Looks of samples/MEMBER.jsonl: what one process was seen doing within some seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from mooring.wire.fields import item, object_of
from mooring.wire.record import MemberRecord
from mooring.wire.values import (
    FLAG,
    NUMBER,
    NUMBERS,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    list_of,
    map_of,
    row_as,
)


class SeenCall(NamedTuple):
    """A frame. Files of libraries begin with `~` and have no lines."""

    file: str
    function: str
    line: int
    names: tuple[str, ...]
    """That the line calls."""


class SeenThread(NamedTuple):
    """What a thread does."""

    letter: str
    """The kernel's state."""
    system_call: str
    waits_at: tuple[str, ...]
    """`peer:MEMBER`, `pipe`, `local` (a socket within the machine), `file:KIND`, `device`."""
    calls: tuple[int, ...]
    """Numbers of the record's calls, from the innermost."""


_THREAD = row_as(
    SeenThread,
    (TEXT, TEXT, TEXTS, WHOLES),
    "state letter, system call, what it waits at, numbers of its `calls` from the innermost",
)
_CALL = row_as(SeenCall, (TEXT, TEXT, WHOLE, TEXTS), "file, function, line, names that it calls")


@dataclass(frozen=True)
class SeenPlace:
    """What a process does, its main thread first."""

    main: SeenThread | None = item(_THREAD, None, "the main thread")
    by: str = item(TEXT, "", "while that waits, who works: `thread`, `native` or `process`")
    helper: SeenThread | None = item(_THREAD, None, "what that one does")
    running: int = item(WHOLE, 0, "how many such ones ran, at most 2")
    members: tuple[str, ...] = item(
        TEXTS, (), "members at whose connections other threads wait", key="at"
    )


@dataclass(frozen=True)
class ReadCounts:
    """What a process and its helpers read."""

    asked_bytes: float = item(NUMBER, 0.0, "in calls of read(2)")
    calls: float = item(NUMBER, 0.0, "of read(2)")
    fetched_bytes: float = item(NUMBER, 0.0, "from disks, or a network file system")
    helper_cpu_s: float = item(NUMBER, 0.0, "CPU time that the helpers used or waited for")
    files: int = item(WHOLE, 0, "data files that were seen open")
    kinds: Mapping[str, float] = item(
        map_of(NUMBER), MappingProxyType({}), "kind of file system → files seen open on it"
    )


@dataclass(frozen=True)
class TcpCounts:
    """The member's connections with one other."""

    sent_bytes: float = item(NUMBER, 0.0, "payload", key="sent")
    received_bytes: float = item(NUMBER, 0.0, "payload", key="received")
    retransmits: float = item(NUMBER, 0.0, "segments sent again")
    busy_s: float = item(NUMBER, 0.0, "with data on its way")
    rwnd_s: float = item(NUMBER, 0.0, "held up by the receiver's window")
    sndbuf_s: float = item(NUMBER, 0.0, "held up by the send buffer")
    rtt_ms: float = item(NUMBER, 0.0, "round trip")


@dataclass(frozen=True)
class MachineChange:
    """The member's machine since the last such record."""

    span_s: float = item(NUMBER, 0.0, "so long")
    cpus: int = item(WHOLE, 0, "how many CPUs it has")
    busy_s: float = item(NUMBER, 0.0, "CPU time of everybody")
    cpu_pressure_s: float | None = item(NUMBER, None, "somebody waited for a CPU")
    io_pressure_s: float | None = item(NUMBER, None, "somebody waited for a disk")
    memory_pressure_s: float | None = item(NUMBER, None, "somebody waited for memory")

    @property
    def pressure_s(self) -> dict[str, float]:
        """cpu, io, memory → seconds, where the kernel keeps them."""
        kept = {
            "cpu": self.cpu_pressure_s,
            "io": self.io_pressure_s,
            "memory": self.memory_pressure_s,
        }
        return {name: span_s for name, span_s in kept.items() if span_s is not None}


@dataclass(frozen=True)
class Looks(MemberRecord):
    """Looks at one process."""

    kind: ClassVar[str] = "looks"
    pid: int | None = item(WHOLE, None, "its process id")
    rank: int = item(WHOLE, 0, "its place among the member's processes", key="r")
    from_s: float = item(NUMBER, 0.0, "unix seconds of its beginning", key="from")
    span_s: float = item(NUMBER, 0.0, "until the last look")
    looks: tuple[tuple[float, ...], ...] = item(
        list_of(NUMBERS),
        (),
        "[milliseconds after `from`, number of the place (-1: more places than are kept), kB/s in "
        "and out over the card in the 10 ms before, kB on their way in its connections]",
    )
    places: tuple[SeenPlace, ...] = item(list_of(object_of(SeenPlace)), (), "what it does there")
    calls: tuple[SeenCall, ...] = item(list_of(_CALL), (), "frames of all places")
    main_s: tuple[float, ...] = item(
        NUMBERS,
        (),
        "seconds that the main thread ran, was ready without a CPU, waited for a disk, and that "
        "the whole process ran",
        key="main",
    )
    helpers: int = item(WHOLE, 0, "its child processes")
    python_threads: int = item(WHOLE, 0, "threads that run Python")
    io: ReadCounts | None = item(object_of(ReadCounts), None, "what it read")
    card: str = item(TEXT, "", "network card of the member's address")
    tcp: Mapping[str, TcpCounts] = item(
        map_of(object_of(TcpCounts)),
        MappingProxyType({}),
        "in one record of a member: member → its connections; `other`: one of several at that "
        "address, `outside`: nobody of the job",
    )
    machine: MachineChange | None = item(
        object_of(MachineChange), None, "in one record of a member: the machine"
    )
    mpi: bool = item(FLAG, False, "an MPI library is loaded")
    refused: bool = item(FLAG, False, "the kernel does not let the launcher read the process")
    no_python: bool = item(FLAG, False, "it runs no Python")
    error: str = item(TEXT, "", "why nobody looks any more; nothing else is said then")
