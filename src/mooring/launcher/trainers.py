"""Which processes below the launcher train: programs that only start others are passed.

A process with Python in it is a trainer unless it is a known starter (torchrun); its children are
its helpers (loaders). Of other programs the last ones count, so that a rank in C++ is seen too.
"""

from __future__ import annotations

import os

from . import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

_STARTERS = (
    b"torchrun", b"torch.distributed.run", b"torch/distributed/run.py", b"torch.distributed.launch",
    b"accelerate", b"horovodrun", b"deepspeed", b"launcher.pyz", b"mooring.launcher",
)  # fmt: skip
_HELPERS = (b"resource_tracker", b"semaphore_tracker", b"forkserver", b"compile_worker")
_PASSED = frozenset(
    ["sh", "bash", "dash", "ash", "zsh", "busybox", "env", "timeout", "nice", "numactl", "taskset",
     "mpirun", "mpiexec", "orterun", "prterun", "orted", "prted", "hydra_pmi_proxy", "srun", "tini",
     "uv", "time", "stdbuf", "xargs", "sudo", "gosu", "strace", "perf"]
)  # fmt: skip
MOST_TRAINERS, MOST_HELPERS = 16, 16


class Trainer:
    """A process that trains, and those that it started."""

    __slots__ = ("helpers", "pid")

    def __init__(self, pid: int, helpers: list[int]) -> None:
        self.pid, self.helpers = pid, helpers


def find(only_waits: Callable[[int], bool]) -> list[Trainer]:
    """Those below this process, in the order of the tree.

    `only_waits(pid)`: a Python process that waits for its children to end, as `mp.spawn` does; they
    train, not it.
    """
    found: list[Trainer] = []
    level = procfs.children(os.getpid())
    while level and len(found) < MOST_TRAINERS:
        below: list[int] = []
        for pid in level:
            children = procfs.children(pid)
            if _passed(pid, bool(children)) or (children and only_waits(pid)):
                below += [child for child in children if _helps(child)]
            elif not procfs.is_zombie(pid):
                found.append(
                    Trainer(pid, [child for child in children if _helps(child)][:MOST_HELPERS])
                )
        level = below
    return found[:MOST_TRAINERS]


def _passed(pid: int, has_children: bool) -> bool:
    try:
        program = os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return True
    if program.startswith("python"):
        words = _words(pid)[:5]
        return any(name in word for word in words for name in _STARTERS)
    return program in _PASSED or has_children


def _helps(pid: int) -> bool:
    words = _words(pid)
    return bool(words) and not any(name in word for word in words for name in _HELPERS)


def _words(pid: int) -> list[bytes]:
    return procfs.read("/proc/%d/cmdline" % pid)[:4096].split(b"\0")
