"""How the same training program is started: by Mooring, and by what people use today."""

from __future__ import annotations

import json
import os
import secrets
import shutil
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
from moored import Moor
from results import JOBS

from mooring.backends.local import netns, owners
from mooring.backends.local.machine import this_machine
from mooring.backends.local.virtual import VirtualNetwork, cut

PROGRAMS = JOBS / "versus"
_DEADLINE_S = 900.0


@dataclass(frozen=True)
class Outcome:
    """One run from its command to its end."""

    wall_s: float
    step_ms: float
    around_s: float
    """Everything that was no step: starting, importing, connecting, ending."""


@dataclass(frozen=True)
class Way:
    """A command, and what of the environment belongs to it. `copies` run side by side."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    copies: int = 1

    def run(self, steps: int) -> Outcome:
        """Raises SystemExit with the output if a copy fails: a benchmark of failures is none."""
        with ExitStack() as stack:
            folders = [
                Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="versus-")))
                for _ in range(self.copies)
            ]
            began_s = time.monotonic()
            running = [self._started(folder, steps) for folder in folders]
            outputs = [one.communicate(timeout=_DEADLINE_S)[0] for one in running]
            wall_s = time.monotonic() - began_s
            for process, output in zip(running, outputs, strict=True):
                if process.returncode != 0:
                    raise SystemExit(f"{' '.join(self.argv)}\n{output.decode(errors='replace')}")
            clocks = [_read_clock(folder) for folder in folders]
        step_ms = sum(clock["step_ms"] for clock in clocks) / len(clocks)
        busy_s = max(clock["steps"] * clock["mean_step_ms"] for clock in clocks) / 1000
        return Outcome(wall_s, step_ms, wall_s - busy_s)

    def _started(self, folder: Path, steps: int) -> subprocess.Popen[bytes]:
        env = {**self.env, "VERSUS_OUT": str(folder), "VERSUS_STEPS": str(steps)}
        return subprocess.Popen(
            self.argv,
            cwd=PROGRAMS,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )


def _read_clock(folder: Path) -> dict[str, float]:
    files = list(folder.glob("*.json"))
    if len(files) != 1:
        raise SystemExit(f"{len(files)} ranks wrote down their steps, not the first alone")
    document: dict[str, float] = json.loads(files[0].read_text())
    return document


def tools() -> Path:
    """The folder of the interpreter's programs: torchrun, torchx, moor."""
    return Path(sys.executable).parent


def environment(moor: Moor) -> dict[str, str]:
    """As after activating the environment; the thread counts of whoever runs this left out."""
    env = moor.env()
    return {name: value for name, value in env.items() if not name.endswith("_NUM_THREADS")}


@contextmanager
def job_file(framework: str, roles: Mapping[str, Any], **more: Any) -> Iterator[Path]:
    """The job as a newcomer writes it: framework, command, counts, and nothing else."""
    spec = {"framework": framework, **more, "workingDir": str(PROGRAMS), "roles": dict(roles)}
    document = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "versus"},
        "spec": spec,
    }
    with tempfile.TemporaryDirectory(prefix="versus-job-") as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        yield path


def moor_way(moor: Moor, job: Path, *options: str, copies: int = 1) -> Way:
    return Way((str(tools() / "moor"), "run", str(job), *options), environment(moor), copies)


def peer_way(moor: Moor, argv: Sequence[str], copies: int = 1, **env: str) -> Way:
    return Way(tuple(argv), {**environment(moor), **env}, copies)


@contextmanager
def four_nodes(nic_mbps: int) -> Iterator[dict[str, str]]:
    """Virtual nodes as `moor run --nodes 4` makes them: variables for tf_config.sh that put the
    chief, the server and both workers on a node each."""
    token = secrets.token_hex(4)
    nodes = cut(this_machine(), 4, nic_mbps, 4000)
    owners.claim(token)
    network = VirtualNetwork(token, nodes)
    try:
        network.make()
        names = [Path(network.namespace_of(node.name)).name for node in network.nodes]
        members = ("CHIEF_0", "PS_0", "WORKER_0", "WORKER_1")
        places = {
            member: f"ip netns exec {name}" for member, name in zip(members, names, strict=True)
        }
        places |= {f"ADDRESS_{at}": node.address for at, node in enumerate(network.nodes)}
        yield places
    finally:
        network.close()
        owners.release(token)


def torchrun(ranks: int) -> list[str]:
    return [str(tools() / "torchrun"), "--standalone", f"--nproc-per-node={ranks}", "ddp.py"]


def torchx(ranks: int) -> list[str]:
    return [
        *(str(tools() / "torchx"), "run", "--scheduler", "local_cwd"),
        *("dist.ddp", "-j", f"1x{ranks}", "--script", "ddp.py"),
    ]


def mpirun(ranks: int) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "-np", str(ranks), sys.executable, "mpi.py"]


def missing(peer: str) -> str:
    """Why this peer cannot be run here; empty if it can."""
    if peer in ("torchrun", "torchx") and not (tools() / peer).exists():
        return f"no {peer} in {tools()}"
    if peer == "mpirun" and shutil.which("mpirun") is None:
        return "no mpirun on the PATH"
    if peer == "virtual nodes":
        return netns.why_not() or ""
    if peer == "ray" and not (tools() / "ray").exists():
        return "Ray is not installed: pip install -r requirements/versus.txt"
    return ""
