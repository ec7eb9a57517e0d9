"""Records of samples/MEMBER.jsonl but for measurements: what a member's launcher says of its start,
its progress and its end. The launcher writes them without importing this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from mooring.wire.fields import item, object_of
from mooring.wire.record import MemberRecord
from mooring.wire.values import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    known_choice_of,
    list_of_readable,
    map_of,
)


class HeldCpus(StrEnum):
    """How a member holds its CPUs."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    UNPINNED = "unpinned"


class WhyNotHeld(StrEnum):
    """Why a member does not hold the CPUs that it was given."""

    NO_AFFINITY = "no-affinity"
    OTHER_CPUS = "other-cpus"


class EndCause(StrEnum):
    """How an attempt of a member ended."""

    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"
    OUT_OF_MEMORY = "out-of-memory"
    DEVICE_LOST = "device-lost"
    STOPPED = "stopped"
    GAVE_UP = "gave-up"


@dataclass(frozen=True)
class BudgetSources:
    """What each place says that could limit a member."""

    affinity: int | None = item(WHOLE, None, "CPUs that it may run on")
    cpuset: int | None = item(WHOLE, None, "CPUs of its control group")
    quota_millis: int | None = item(WHOLE, None, "CPU quota of its control group")
    contract_millis: int | None = item(WHOLE, None, "CPU that it asked for")
    memory_limit_bytes: int | None = item(WHOLE, None, "limit of its control group")
    threads: str = item(TEXT, "", "`budget`, `share` or `contract`: where the count comes from")
    kept: Mapping[str, str] = item(
        map_of(TEXT), MappingProxyType({}), "variables of thread counts that were already set"
    )


@dataclass(frozen=True)
class Budget:
    """What one member may use."""

    cpus: tuple[int, ...] = item(WHOLES, (), "CPUs that it may run on")
    cpu_millis: int | None = item(WHOLE, None, "the tightest of all limits")
    threads: int | None = item(WHOLE, None, "threads for each of its processes")
    memory_bytes: int | None = item(WHOLE, None, "the tightest of all limits")
    sources: BudgetSources = item(object_of(BudgetSources), BudgetSources(), "where it comes from")


@dataclass(frozen=True)
class Held:
    """The CPUs that a member was given, and whether it has them."""

    cpus: HeldCpus | None = item(
        known_choice_of(HeldCpus), None, "as `exclusive` and `shared` of the plan; `unpinned`: any"
    )
    why_not: WhyNotHeld | None = item(
        known_choice_of(WhyNotHeld), None, "why it does not hold exactly those; null if it does"
    )
    given: tuple[int, ...] = item(WHOLES, (), "those of the plan")


@dataclass(frozen=True)
class Ready(MemberRecord):
    """The launcher has taken its place; it waits for the gang."""

    kind: ClassVar[str] = "ready"
    pid: int | None = item(WHOLE, None, "the launcher's process id")
    budget: Budget = item(object_of(Budget), Budget(), "what the member may use")
    pinned: bool = item(FLAG, True, "its CPUs are exactly those of the contract")
    held: Held = item(object_of(Held), Held(), "how it holds them")
    notes: tuple[str, ...] = item(TEXTS, (), "what could not be had here, a sentence each")


@dataclass(frozen=True)
class Running(MemberRecord):
    """The member's processes were started."""

    kind: ClassVar[str] = "running"
    pids: tuple[int, ...] = item(WHOLES, (), "of its local processes")


@dataclass(frozen=True)
class Step(MemberRecord):
    """Steps of one local process, at most five lines a second."""

    kind: ClassVar[str] = "step"
    rank: int = item(WHOLE, 0, "local rank", key="r")
    step: int | None = item(WHOLE, None, "as the program counts")
    examples: int | None = item(WHOLE, None, "summed since the last line")
    loss: float | None = item(NUMBER, None, "the last one")
    total: int | None = item(WHOLE, None, "steps in all, if the program says so")
    reports: int | None = item(WHOLE, None, "reports in this line", key="n")

    @property
    def count(self) -> int:
        """Reports that the line stands for."""
        return self.reports or 1


@dataclass(frozen=True)
class Variable:
    """A variable of a model or a part of it, or a use of one that rows are taken from."""

    name: str = item(TEXT, "", "its name")
    shape: tuple[int, ...] | None = item(WHOLES, None, "of the part")
    size_bytes: int | None = item(WHOLE, None, "of the part", key="bytes")
    server: int | None = item(WHOLE, None, "which server holds it")
    part: int = item(WHOLE, 0, "which part it is")
    maker: str = item(TEXT, "", "`tensorflow`, `keras-2` or `keras-3`")
    trainable: bool = item(FLAG, True, "part of the model, not of its optimizer")
    whole: bool | None = item(FLAG, None, "of a use: a lookup pulls all of it")
    written: str = item(TEXT, "", "of a use: `whole` if an update touches every row")
    layer: str = item(TEXT, "", "of a use: `keras`")
    optimizer: str = item(TEXT, "", "of a use: `keras-adam`")


@dataclass(frozen=True)
class Variables(MemberRecord):
    """What the SDK or `inside/` says of the model's variables, as they are made."""

    kind: ClassVar[str] = "variables"
    rank: int = item(WHOLE, 0, "local rank", key="r")
    variables: tuple[Variable, ...] = item(
        list_of_readable(object_of(Variable)), (), "a part or a use each"
    )


@dataclass(frozen=True)
class ProgramSeen:
    """What `inside/` has seen of a program."""

    trait: str = item(TEXT, "", "what kind of program it is")
    note: str = item(TEXT, "", "what could not be looked at, for the report")


@dataclass(frozen=True)
class Program(MemberRecord):
    """Of a program that has made a strategy with parameter servers."""

    kind: ClassVar[str] = "program"
    rank: int = item(WHOLE, 0, "local rank", key="r")
    program: ProgramSeen = item(object_of(ProgramSeen), ProgramSeen(), "what was seen of it")


@dataclass(frozen=True)
class LauncherError(MemberRecord):
    """The launcher gave up; `exit` follows."""

    kind: ClassVar[str] = "error"
    reason: str = item(TEXT, "", "why, in a sentence")


@dataclass(frozen=True)
class Exit(MemberRecord):
    """The attempt has ended, with everything below the launcher."""

    kind: ClassVar[str] = "exit"
    code: int | None = item(WHOLE, None, "as shells write it: 128 + a signal's number")
    cause: EndCause | None = item(
        known_choice_of(EndCause),
        None,
        "`killed`: by a signal that Mooring did not send; `device-lost`: it failed, and the driver "
        "of its cards no longer answers; `stopped`: it was told to end; `gave-up`: its launcher "
        "could not start it, as `error` says",
    )
    rank: int | None = item(WHOLE, None, "the local rank that failed first")
    stopped_by: str = item(TEXT, "", "of `stopped`: the name of a signal, or `supervisor-gone`")
    killed: bool = item(FLAG, False, "of `stopped`: it did not end within the grace period")
    memory_limit_bytes: int | None = item(WHOLE, None, "of `out-of-memory`: the limit")
    peak_bytes: int | None = item(WHOLE, None, "of `out-of-memory`: what its largest process had")
    reason: str = item(TEXT, "", "the same in a sentence")
    codes: tuple[int, ...] = item(WHOLES, (), "of its local processes")
    lost_log_lines: int = item(WHOLE, 0, "lines of its log that a full disk did not take")
    lost_records: int = item(WHOLE, 0, "records of this file that it did not take")
