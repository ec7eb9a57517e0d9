"""The contract: the one JSON document that a launcher is started with.

Backends write it and `launcher/contract.py`, which imports nothing of the package, reads it: keys
that are missing have the defaults that they have here, and unknown ones are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from mooring.wire.fields import item, object_of, write_changed
from mooring.wire.values import FLAG, NUMBER, TEXT, TEXTS, WHOLE, WHOLES, list_of, map_of

if TYPE_CHECKING:
    from mooring.record.journal import JsonValue

CONTRACT_VERSION = 1


@dataclass(frozen=True)
class LocalProcess:
    """One process of the member, all with the same argv."""

    local_rank: int | None = item(WHOLE, None, "its local rank")
    env: Mapping[str, str] = item(map_of(TEXT), MappingProxyType({}), "its own variables")


@dataclass(frozen=True)
class Peer:
    """A member as this one reaches it; with `count` so many, `{}` standing for the index."""

    member: str = item(TEXT, "", "its name")
    host: str = item(TEXT, "", "must resolve before the member starts")
    ports: tuple[int, ...] = item(WHOLES, (), "bytes to and from these are counted for it")
    first: int = item(WHOLE, 0, "with `count`: the first index")
    count: int | None = item(WHOLE, None, "how many members the entry stands for")


@dataclass(frozen=True)
class StepsWanted:
    """How a step is recognised in what a program prints."""

    source: str = item(TEXT, "sdk", "`auto`, `sdk` or `regex`")
    pattern: str | None = item(TEXT, None, "of `regex`, with named groups")
    examples_per_step: int | None = item(WHOLE, None, "for programs that do not say")


@dataclass(frozen=True)
class Meeting:
    """Where a gang of pods comes together."""

    host: str = item(TEXT, "", "of the first member")
    port: int = item(WHOLE, 0, "there")
    leads: bool = item(FLAG, False, "this member is that one")
    members: int = item(WHOLE, 1, "how many must come")
    token_env: str = item(TEXT, "", "the variable with the gang's token, which it uses up")


@dataclass(frozen=True)
class RankAgent:
    """Serve ranks on this port instead of running `argv` (MPI)."""

    port: int = item(WHOLE, 0, "where commands are taken")
    token: str = item(TEXT, "", "who holds it may run commands")
    token_env: str = item(TEXT, "", "in pods: the variable with the token")


@dataclass(frozen=True)
class Contract:
    """Everything about one attempt of a member. `member`, `cwd` and the two paths are required."""

    run: str = item(TEXT, "", "the run's id")
    job: str = item(TEXT, "", "the job's name")
    member: str = item(TEXT, "", "the member's name")
    role: str = item(TEXT, "", "its role")
    index: int = item(WHOLE, 0, "its index within the role")
    epoch: int = item(WHOLE, 0, "which start of the gang this is")
    attempt: int = item(WHOLE, 0, "which start of the member")
    argv: tuple[str, ...] = item(TEXTS, (), "the program; empty only with `agent`")
    env: Mapping[str, str] = item(
        map_of(TEXT),
        MappingProxyType({}),
        "variables of all local processes, over those that the launcher inherits; the shell's own "
        "are not in it",
    )
    packed_env: Mapping[str, str] = item(
        map_of(TEXT),
        MappingProxyType({}),
        "in pods: more of them, each value compressed (zlib, base64)",
    )
    cwd: str = item(TEXT, "", "the folder that they run in; in pods relative to the job's files")
    processes: tuple[LocalProcess, ...] | None = item(
        list_of(object_of(LocalProcess)), None, "one by default, of local rank 0"
    )
    gate: str = item(
        TEXT,
        "open",
        "`stdin`: wait for the line `go` there, and end of file at any time means that the "
        "supervisor died; `meeting`: wait for the gang; `open`",
    )
    meeting: Meeting | None = item(object_of(Meeting), None, "in pods: where the gang meets")
    cgroup_procs: tuple[str, ...] = item(
        TEXTS, (), "files that the launcher writes its process id to before anything else"
    )
    netns: str | None = item(TEXT, None, "path of a network namespace to enter")
    hosts_file: str | None = item(
        TEXT,
        None,
        "path that is bound over `/etc/hosts`, in mounts of its own; the launcher then also takes "
        "the host name `JOB-MEMBER`",
    )
    cpus: tuple[int, ...] | None = item(WHOLES, None, "affinity; null: not pinned")
    exclusive: bool = item(FLAG, False, "whether those CPUs are its own")
    cells: tuple[int, ...] = item(WHOLES, (), "NUMA cells that memory should come from")
    cpu_millis: int | None = item(WHOLE, None, "CPU that the member asked for")
    memory_bytes: int | None = item(WHOLE, None, "memory that it asked for")
    gpus: tuple[int, ...] | None = item(
        WHOLES, None, "for `CUDA_VISIBLE_DEVICES`; null leaves it alone"
    )
    threads: int | None = item(WHOLE, None, "of each local process; null or `auto`: the budget's")
    share_threads: int | None = item(
        WHOLE,
        None,
        "without `threads`: at most so many, so that members that share CPUs have no more threads "
        "than CPUs together",
    )
    sharers: int = item(
        WHOLE, 1, "without `threads`, in pods: how many members divide the CPUs that it may use"
    )
    peers: tuple[Peer, ...] = item(
        list_of(object_of(Peer)), (), "whose names must resolve, and whom bytes are counted for"
    )
    resolve_timeout_s: float = item(NUMBER, 60.0, "how long names, or the gang, may take")
    steps: StepsWanted | None = item(object_of(StepsWanted), None, "how a step is recognised")
    log_path: str = item(TEXT, "", "what the programs print is appended to it")
    sample_path: str = item(TEXT, "", "the journal that it appends to")
    sample_interval_s: float = item(
        NUMBER, 1.0, "between samples; stretched if sampling would use more than 1 % of a CPU"
    )
    grace_s: float = item(NUMBER, 10.0, "between SIGTERM and SIGKILL")
    looks: bool = item(FLAG, True, "whether the launcher looks at what its programs do")
    look_sharers: int | None = item(
        WHOLE,
        None,
        "members that run on the same CPUs and divide what looks may cost there; `sharers` if null",
    )
    watcher: int | None = item(
        WHOLE,
        None,
        "process that may read the programs' stacks at a standstill, where Yama restricts that",
    )
    agent: RankAgent | None = item(object_of(RankAgent), None, "of members that serve ranks")
    files: Mapping[str, str] = item(
        map_of(TEXT), MappingProxyType({}), "in pods: name → text of the framework's files"
    )
    files_dir: str = item(TEXT, "", "in pods: where they are written")
    archive: str | None = item(TEXT, None, "in pods: the job's own files, packed")
    echo: bool = item(FLAG, False, "in pods: what programs print is the container's output too")


def contract_document(contract: Contract) -> dict[str, JsonValue]:
    """As JSON: the version, what is required, and what is not as by default."""
    return {
        "version": CONTRACT_VERSION,
        "member": contract.member,
        "cwd": contract.cwd,
        "log_path": contract.log_path,
        "sample_path": contract.sample_path,
        **write_changed(contract),
    }
