"""The environment of the member's processes: the contract's, and what the slot adds to it.

Whatever the user or the image set stays as it is; the budget fills in what nobody decided.
"""

from __future__ import annotations

import os
import sys

from . import budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .contract import Contract

#: What the framework's adapter wants to be done inside the member's programs.
INSIDE = "MOORING_INSIDE"


def build(contract: Contract, held: budget.Budget, notes: list[str]) -> dict[str, str]:
    """What all local processes share. Thread counts that were already set are recorded as kept."""
    env = dict(os.environ)
    env.update(contract.env)
    threads = budget.thread_env(held.threads)
    kept = {name: env[name] for name in threads if name in env}
    if kept:
        held.sources["kept"] = kept
    defaults = dict(
        threads,
        PYTHONUNBUFFERED="1",
        MOORING_RUN=contract.run,
        MOORING_JOB=contract.job,
        MOORING_MEMBER=contract.member,
        MOORING_ROLE=contract.role,
        MOORING_INDEX=str(contract.index),
        MOORING_EPOCH=str(contract.epoch),
        MOORING_CPU_MILLIS=str(held.cpu_millis),
        MOORING_THREADS=str(held.threads),
    )
    if held.memory_bytes is not None:
        defaults["MOORING_MEMORY_BYTES"] = str(held.memory_bytes)
    if contract.gpus is not None:
        devices = ",".join(str(gpu) for gpu in contract.gpus)
        defaults["CUDA_VISIBLE_DEVICES"] = devices
        if env.get("CUDA_VISIBLE_DEVICES", devices) != devices:
            notes.append(
                "holds GPUs [%s], but CUDA_VISIBLE_DEVICES was set to %s"
                % (devices, env["CUDA_VISIBLE_DEVICES"])
            )
    for name, value in defaults.items():
        env.setdefault(name, value)
    if INSIDE in env:
        # A folder within the launcher's own archive: Python imports from there.
        inside = os.path.join(os.path.abspath(sys.argv[0]), "inside")
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [inside, env.get("PYTHONPATH")]))
    env["PWD"] = contract.cwd
    return env


def of_rank(shared: dict[str, str], rank: int, own: dict[str, str]) -> dict[str, str]:
    env = dict(shared, MOORING_LOCAL_RANK=str(rank))
    env.update(own)
    return env
