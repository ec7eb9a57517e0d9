"""What a training script may call: `step` to report progress, `identity` and `budget` to ask.

Standard library only, and harmless outside Mooring: `step` then does nothing, `identity` describes
a single member and `budget` this process, so that the same script runs alone.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: What follows this on a line of standard output is read by the launcher and not logged.
STEP_PREFIX = "::mooring:: "
_STDOUT = 1


def step(
    examples: int | None = None,
    loss: float | None = None,
    step: int | None = None,
    total: int | None = None,
) -> None:
    """Report one step (or a burst of them).

    examples: trained on since the last report; loss: its current value; step: how many steps
    are done; total: how many there will be. All optional; anything that `int` or `float`
    understands is accepted.
    """
    if "MOORING_MEMBER" not in os.environ:
        return
    value = None if loss is None else float(loss)
    document = {
        "step": None if step is None else int(step),
        "examples": None if examples is None else int(examples),
        # JSON has no NaN: a loss that is none says so by being null.
        "loss": value if value is not None and math.isfinite(value) else None,
        "total": None if total is None else int(total),
    }
    tell(document)


def tell(document: Mapping[str, object]) -> None:
    """Hand one document to the launcher. Keep it below 4 KiB: see PIPE_BUF in pipe(7)."""
    if "MOORING_MEMBER" not in os.environ:
        return
    try:
        # What `print` still buffers goes first, so that the buffer is never cut within a line.
        sys.stdout.flush()
        # One write below PIPE_BUF: processes that share the pipe never interleave within a line.
        os.write(_STDOUT, f"{STEP_PREFIX}{json.dumps(document)}\n".encode())
    except (OSError, ValueError):
        # Standard output is closed or its reader is gone: no reason to stop training.
        return


@dataclass(frozen=True)
class Identity:
    """Who this process is. `rank` is None in roles without ranks (parameter servers)."""

    job: str = ""
    role: str = "worker"
    index: int = 0
    rank: int | None = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    epoch: int = 0
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Role -> `host:port` of its members, by index."""

    @property
    def member(self) -> str:
        return f"{self.role}-{self.index}"


def identity() -> Identity:
    """This process's identity; outside Mooring that of a single member."""
    env = os.environ
    if "MOORING_MEMBER" not in env:
        return Identity()
    # Ranks that mpirun started learn their number from it.
    rank = env.get("MOORING_RANK", env.get("OMPI_COMM_WORLD_RANK"))
    local_rank = env.get("MOORING_LOCAL_RANK", env.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    peers = json.loads(env.get("MOORING_PEERS", "{}"))
    return Identity(
        job=env.get("MOORING_JOB", ""),
        role=env.get("MOORING_ROLE", "worker"),
        index=int(env.get("MOORING_INDEX", "0")),
        rank=None if rank is None else int(rank),
        world_size=int(env.get("MOORING_WORLD_SIZE", "1")),
        local_rank=int(local_rank),
        local_world_size=int(env.get("MOORING_LOCAL_WORLD_SIZE", "1")),
        epoch=int(env.get("MOORING_EPOCH", "0")),
        peers=MappingProxyType({role: tuple(found) for role, found in peers.items()}),
    )


@dataclass(frozen=True)
class Budget:
    """What this process may use. Other local processes of its member use the same CPUs."""

    cpus: tuple[int, ...]
    """Those that it may run on now."""
    cpu_millis: int
    """What the member asked for, or fewer where a quota or the CPUs are less."""
    threads: int
    """That a pool of threads should have in this process."""
    memory_bytes: int | None
    """Of the whole member; None if nobody limits it."""
    local_rank: int
    devices: tuple[str, ...]
    """GPUs as in CUDA_VISIBLE_DEVICES; empty if that is not set."""


def budget() -> Budget:
    """What this process may use; outside Mooring what it sees by itself."""
    env = os.environ
    if hasattr(os, "sched_getaffinity"):
        cpus = tuple(sorted(os.sched_getaffinity(0)))
    else:
        cpus = tuple(range(os.cpu_count() or 1))
    memory = env.get("MOORING_MEMORY_BYTES")
    devices = env.get("CUDA_VISIBLE_DEVICES", "")
    return Budget(
        cpus=cpus,
        cpu_millis=int(env.get("MOORING_CPU_MILLIS", str(1000 * len(cpus)))),
        threads=int(env.get("MOORING_THREADS", str(len(cpus)))),
        memory_bytes=None if memory is None else int(memory),
        local_rank=identity().local_rank,
        devices=tuple(part.strip() for part in devices.split(",") if part.strip()),
    )
