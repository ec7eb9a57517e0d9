"""Runs of the strangers' programs: with `moor run`, measured, disturbed, and asked about."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from moored import Moor, Started
from strangers_catalogue import PROGRAMS, Setting, merged

_TIMEOUT_S = 120
#: How long a run that stands still is left alone before the doctor is asked.
_STANDING_S = 30
_PERIOD_US = 100_000


@dataclass(frozen=True)
class Outcome:
    """What a run did by its own account; `examples_per_s` is that of all ranks together."""

    examples_per_s: float
    peak_mb: float
    ended: bool


def run(
    moor: Moor, program: str, setting: Setting, seconds: float, must_succeed: bool = True
) -> tuple[Path, Outcome]:
    """Train for so many seconds, to the end."""
    with _running(moor, program, setting, seconds) as (started, out):
        output, _ = started.process.communicate(timeout=_TIMEOUT_S)
        if must_succeed and started.process.returncode != 0:
            raise RuntimeError(f"{program}: moor run failed:\n{output[-3000:]}")
        return started.folder, _outcome(out)


def stand(
    moor: Moor, program: str, setting: Setting, seconds: float, ask: bool
) -> tuple[dict[str, Any], Outcome]:
    """A run that does not end by itself: what the doctor says of it meanwhile, then it is stopped.
    One that does end is as good an answer (`Outcome.ended`)."""
    with _running(moor, program, setting, seconds) as (started, out):
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.process.communicate(timeout=_STANDING_S)
        return doctor(moor, started.folder) if ask else {}, _outcome(out)


def doctor(moor: Moor, folder: Path) -> dict[str, Any]:
    """What `moor doctor RUN --json` prints."""
    command = [sys.executable, "-m", "mooring", "doctor", str(folder), "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=moor.env(), check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"moor doctor failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    return answer if isinstance(answer, dict) else {"findings": answer}


@contextmanager
def _running(
    moor: Moor, program: str, setting: Setting, seconds: float
) -> Iterator[tuple[Started, Path]]:
    out = Path(tempfile.mkdtemp(prefix="out-", dir=moor.home))
    job = out / "job.yaml"
    job.write_text(yaml.safe_dump(job_document(program, setting, out, seconds)))
    with ExitStack() as stack:
        for _ in range(setting.neighbours):
            stack.enter_context(_neighbour())
        started = stack.enter_context(
            moor.started(job, nodes=setting.nodes, nic_mbps=setting.nic_mbps, more=["--quiet"])
        )
        if setting.quota_percent:
            _hold_back(started, setting.quota_percent)
        yield started, out


def job_document(program: str, setting: Setting, out: Path, seconds: float) -> dict[str, Any]:
    """The job file. Its name and the program's are all that it says about the case."""
    script = str(PROGRAMS / f"{program}.py")
    env = {"STRANGER_OUT": str(out), "SECONDS": str(seconds), **setting.env}
    if setting.switch:
        env["SWITCH"] = setting.switch
    base: dict[str, Any] = {"env": env, "timeLimit": "3m"}
    if setting.spec["framework"] == "mpi":
        base["roles"] = {"launcher": {"command": ["mpirun", "python", script]}}
    else:
        base["command"] = ["python", script]
    return {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": program.replace("_", "-")},
        "spec": merged(base, setting.spec),
    }


def _outcome(out: Path) -> Outcome:
    told = [json.loads(path.read_text()) for path in out.glob("rate-*.json")]
    rate = sum(one["examples"] / one["span_s"] for one in told if one["span_s"] > 0)
    return Outcome(rate, max((one["peak_mb"] for one in told), default=0.0), bool(told))


@contextmanager
def _neighbour() -> Iterator[None]:
    """Somebody else's process that computes."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _hold_back(started: Started, percent: int) -> None:
    """Give each member a CPU quota, as a container's limit would, once it is there."""
    deadline = time.monotonic() + 60
    members: Sequence[int] = ()
    while not members:
        if started.process.poll() is not None or time.monotonic() > deadline:
            return
        time.sleep(0.1)
        members = started.launcher_pids()
    for pid in members:
        limit_cpu(pid, percent)


def limit_cpu(pid: int, percent: int) -> Path:
    """Write the quota into the control group that the process is in; version 2 or 1."""
    quota_us = _PERIOD_US * percent // 100
    groups = _groups(Path(f"/proc/{pid}/cgroup").read_text())
    for controller, mounts in (("cpu", ("cpu", "cpu,cpuacct")), ("", ("", "unified"))):
        group = groups.get(controller, "/").strip("/")
        for mount in mounts if group else ():  # never on the machine as a whole
            folder = Path("/sys/fs/cgroup") / mount / group
            if (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
                return folder
            if (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
                return folder
    raise RuntimeError(f"no control group for the CPU of process {pid}")


def _groups(text: str) -> Mapping[str, str]:
    paths = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    return paths
