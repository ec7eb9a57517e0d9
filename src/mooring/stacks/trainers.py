"""Which processes of a member train: the first Python on each way down from its launcher.

Below it are its loaders. Programs that only start others (shells, mpirun, torchrun) are passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Python programs that start trainers and wait.
_STARTERS = (
    "torchrun",
    "torch.distributed.run",
    "torch/distributed/run.py",
    "accelerate",
    "horovodrun",
)
_HELPERS = ("resource_tracker", "semaphore_tracker", "forkserver", "compile_worker")


@dataclass(frozen=True)
class TrainerProcess:
    """One process; `program` is its executable's name."""

    pid: int
    program: str
    arguments: tuple[str, ...] = ()

    @property
    def trains(self) -> bool:
        starts = any(name in word for word in self.arguments[:4] for name in _STARTERS)
        return self.program.startswith("python") and not starts


def trainers(
    roots: Iterable[TrainerProcess], below: Callable[[int], Sequence[TrainerProcess]]
) -> list[int]:
    """Process ids in the order of the tree; `below` gives a process's children."""
    found: list[int] = []
    level = list(roots)
    while level:
        found += [one.pid for one in level if one.trains]
        level = [child for one in level if not one.trains for child in below(one.pid)]
    return found


def trainers_of(launcher_pid: int) -> list[int]:
    return trainers(children(launcher_pid), children)


def loaders_of(pid: int) -> list[int]:
    """Processes that a trainer started to prepare data: Pythons, but for helpers of libraries."""
    return [
        child.pid
        for child in children(pid)
        if child.program.startswith("python")
        and not any(name in word for word in child.arguments for name in _HELPERS)
    ]


def children(pid: int) -> list[TrainerProcess]:
    found: list[TrainerProcess] = []
    for child in _child_pids(pid):
        with suppress(psutil.Error):
            process = psutil.Process(child)
            program = process.exe().rsplit("/", 1)[-1]
            found.append(TrainerProcess(child, program, tuple(process.cmdline())))
    return found


def _child_pids(pid: int) -> list[int]:
    """As the kernel lists them by thread; psutil would read every process of the machine."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return sorted(found)
