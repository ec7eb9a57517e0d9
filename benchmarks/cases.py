"""A run with something wrong in it, or nothing: how it is described and carried out."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from moored import Moor

from mooring.record import RunRecord
from mooring.record.runs import open_run

_TIMEOUT_S = 400
Disturb = Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """`finding` is the id that must come first; empty: nothing may be found.

    `job` is a file, or a spec that one is made from. `disturb` gets the run's folder once there is
    one, and is a context manager around the rest of the run.
    """

    name: str
    finding: str
    job: Path | Mapping[str, Any]
    settings: tuple[str, ...] = ()
    nodes: int = 0
    nic_mbps: int = 0
    disturb: Disturb | None = None
    prefix: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def run_case(moor: Moor, case: Case) -> RunRecord:
    """The run of a case, ended well."""
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=moor.home))
    job = case.job if isinstance(case.job, Path) else _write(case.job, moor.home)
    command = [*case.prefix, sys.executable, "-m", "mooring", "run", str(job), "-o", str(folder)]
    for setting in case.settings:
        command += ["--set", setting]
    if case.nodes:
        command += ["--nodes", str(case.nodes), "--nic-mbps", str(case.nic_mbps)]
    bench = {"BENCH_OUT": tempfile.mkdtemp(prefix="out-", dir=moor.home)}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=moor.env({**bench, **case.env}),
    )
    try:
        with case.disturb(folder) if case.disturb else nullcontext():
            output, _ = process.communicate(timeout=_TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{case.name}: moor run failed:\n{output}")
    run = open_run(folder)
    assert run is not None
    return run


def _write(spec: Mapping[str, Any], folder: Path) -> Path:
    head = {"apiVersion": "mooring.dev/v1", "kind": "TrainingJob", "metadata": {"name": "case"}}
    path = Path(tempfile.mkdtemp(prefix="job-", dir=folder)) / "job.yaml"
    path.write_text(yaml.safe_dump({**head, "spec": dict(spec)}, sort_keys=False))
    return path
