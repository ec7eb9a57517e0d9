"""Running `jobs/mlp.py` twice at the same time, under `moor run` or as bare processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moored import Moor
from results import JOBS
from steps import Steps, read_steps

MLP = JOBS / "mlp.yaml"
WORKERS = 2
_START_DEADLINE_S = 120.0
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


@contextmanager
def bare_started(
    moor: Moor, folder: Path, argv: Sequence[str]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The same two processes, pinned to the same CPUs with the same threads, without Mooring."""
    cpus = sorted(os.sched_getaffinity(0))
    running = []
    try:
        for index in range(WORKERS):
            env = {**moor.env(variables(folder)), **_ONE_THREAD, "BENCH_INDEX": str(index)}
            process = subprocess.Popen(
                [sys.executable, *argv[1:]], cwd=JOBS, env=env, stdout=subprocess.DEVNULL
            )
            running.append(process)
            # Before the program has loaded anything: threads that it starts inherit the CPU.
            os.sched_setaffinity(process.pid, {cpus[index]})
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def wait_for_training(folder: Path, alive: Callable[[], bool]) -> None:
    """Until both workers have warmed up."""
    deadline = time.monotonic() + _START_DEADLINE_S
    while len(list(folder.glob("training-*"))) < WORKERS:
        if time.monotonic() > deadline or not alive():
            raise SystemExit("the training did not begin")
        time.sleep(0.02)


def command_setting(argv: Sequence[str]) -> str:
    quoted = ", ".join(f'"{word}"' for word in argv)
    return f"command=[{quoted}]"
