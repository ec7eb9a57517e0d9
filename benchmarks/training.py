"""Running `jobs/mlp.py` twice at the same time, under `moor run` or as bare processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moored import Moor
from results import JOBS
from steps import Steps, read_steps

MLP = JOBS / "mlp.yaml"
WORKERS = 2
#: What the launcher sets for a member that holds one CPU.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def new_folder(moor: Moor) -> Path:
    return Path(tempfile.mkdtemp(prefix="steps-", dir=moor.home))


def variables(folder: Path) -> dict[str, str]:
    return {"BENCH_OUT": str(folder), "BENCH_COUNT": str(WORKERS)}


def command(seconds: float, *more: str) -> list[str]:
    return ["python", "mlp.py", "--seconds", str(seconds), *more]


def moored(
    moor: Moor, argv: Sequence[str], settings: Sequence[str] = ()
) -> tuple[list[Steps], dict[str, Any]]:
    """The steps of both workers under `moor run`, and its report."""
    folder = new_folder(moor)
    report = moor.run(MLP, settings=[command_setting(argv), *settings], env=variables(folder))
    return read_steps(folder, WORKERS), report


def bare(moor: Moor, argv: Sequence[str]) -> list[Steps]:
    """The same two processes, pinned to the same CPUs with the same threads, without Mooring."""
    folder = new_folder(moor)
    cpus = sorted(os.sched_getaffinity(0))
    running = []
    for index in range(WORKERS):
        env = {**moor.env(variables(folder)), **_ONE_THREAD, "BENCH_INDEX": str(index)}
        process = subprocess.Popen(
            [sys.executable, *argv[1:]], cwd=JOBS, env=env, stdout=subprocess.DEVNULL
        )
        # Before the program has loaded anything: threads that it starts inherit the CPU.
        os.sched_setaffinity(process.pid, {cpus[index]})
        running.append(process)
    try:
        if any(process.wait() for process in running):
            raise SystemExit("a bare training process failed")
    finally:
        for process in running:
            process.kill()
            process.wait()
    return read_steps(folder, WORKERS)


def command_setting(argv: Sequence[str]) -> str:
    quoted = ", ".join(f'"{word}"' for word in argv)
    return f"command=[{quoted}]"
