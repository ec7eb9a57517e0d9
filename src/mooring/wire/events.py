"""Records of events.jsonl: what a run's own process notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from mooring.model.status import MemberState, Phase
from mooring.wire.fields import item, object_of
from mooring.wire.record import Record
from mooring.wire.values import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    choice_of,
    list_of,
    map_of,
    map_of_optional,
    pair_of,
    triple_of,
)


@dataclass(frozen=True)
class Surroundings(Record):
    """Where the run is, written once at its start."""

    kind: ClassVar[str] = "body"
    enforces: str = item(TEXT, "", "how members are held, in a sentence")
    nic_mbps: Mapping[str, int | None] = item(
        map_of_optional(WHOLE),
        MappingProxyType({}),
        "node → limit of its network card in Mbit/s, null without one",
        key="nodes",
    )
    topology: Mapping[str, tuple[tuple[int, int, int], ...]] = item(
        map_of(list_of(triple_of("CPU, L3 cache, NUMA cell"))),
        MappingProxyType({}),
        "node → its CPUs",
    )
    total_steps: int | None = item(WHOLE, None, "steps in all, as the job file says")


@dataclass(frozen=True)
class MemberChanged(Record):
    """A member is in another state."""

    kind: ClassVar[str] = "member"
    member: str = item(TEXT, "", "its name")
    state: MemberState = item(choice_of(MemberState), MemberState.WAITING, "its state from now on")
    epoch: int = item(WHOLE, 0, "starts of the gang before")
    attempt: int = item(WHOLE, 0, "starts of the member before")
    exit_code: int | None = item(WHOLE, None, "once it has ended")
    reason: str = item(TEXT, "", "why it ended, in a sentence")


@dataclass(frozen=True)
class PhaseChanged(Record):
    """The run is in another phase."""

    kind: ClassVar[str] = "phase"
    phase: Phase = item(choice_of(Phase), Phase.PENDING, "its phase from now on")
    epoch: int = item(WHOLE, 0, "starts of the gang before")
    reason: str = item(TEXT, "", "why, in a sentence")


@dataclass(frozen=True)
class NodeTraffic(Record):
    """Counters of the virtual nodes' network cards."""

    kind: ClassVar[str] = "nodes"
    moved_bytes: Mapping[str, tuple[int, int]] = item(
        map_of(pair_of("received, sent")),
        MappingProxyType({}),
        "node → bytes through its card so far",
        key="bytes",
    )
    busy_s: Mapping[str, float] = item(
        map_of(NUMBER),
        MappingProxyType({}),
        "node → seconds that its card was in use so far, by the fuller direction of each 25 ms",
    )


@dataclass(frozen=True)
class MachineUsed(Record):
    """The machine as a whole, everybody's processes included."""

    kind: ClassVar[str] = "machine"
    cpu_s: float = item(NUMBER, 0.0, "CPU time that all processes used since the machine started")
    cpus: int = item(WHOLE, 0, "how many CPUs it has")
    available_bytes: int = item(WHOLE, 0, "memory that a program could still have")
    memory_bytes: int = item(WHOLE, 0, "all memory")


@dataclass(frozen=True)
class NoStacks(Record):
    """Nobody looks at what the programs do."""

    kind: ClassVar[str] = "stacks"
    reason: str = item(TEXT, "", "why")


@dataclass(frozen=True)
class StalledProcess:
    """A process at a standstill."""

    member: str = item(TEXT, "", "whose it is; with its process id if the member has several")
    pid: int = item(WHOLE, 0, "its process id")
    state: str = item(TEXT, "", "what the kernel says of its main thread")
    kernel: str = item(TEXT, "", "where in the kernel that waits")
    stack: tuple[str, ...] = item(TEXTS, (), "its Python calls, innermost first")
    note: str = item(TEXT, "", "why there is no stack")

    @property
    def place(self) -> str:
        """`all_reduce (distributed_c10d.py:3048) ← main (train.py:30)`, or what the kernel says."""
        if self.stack:
            return " ← ".join(self.stack)
        return ", ".join(part for part in (self.state, self.kernel, self.note) if part)


@dataclass(frozen=True)
class StallNoted(Record):
    """The run stands still, or goes on again."""

    kind: ClassVar[str] = "stall"
    over: bool = item(FLAG, False, "steps are made again; nothing else is said then")
    lasts_s: float = item(NUMBER, 0.0, "since the last step")
    usual_s: float | None = item(NUMBER, None, "what a step took before")
    hang: bool = item(FLAG, False, "nobody works: it will not go on by itself")
    says: str = item(TEXT, "", "the standstill in a sentence")
    missing: tuple[str, ...] = item(TEXTS, (), "members that others wait for")
    file: str = item(TEXT, "", "where everybody's stacks are, in the run's folder")
    processes: tuple[StalledProcess, ...] = item(
        list_of(object_of(StalledProcess)), (), "where each process is"
    )


@dataclass(frozen=True)
class NotesLost(Record):
    """The disk was full: so much of this file is missing."""

    kind: ClassVar[str] = "lost"
    notes: int = item(WHOLE, 0, "records that could not be written")


EVENTS: tuple[type[Record], ...] = (
    Surroundings,
    MemberChanged,
    PhaseChanged,
    NodeTraffic,
    MachineUsed,
    NoStacks,
    StallNoted,
    NotesLost,
)
