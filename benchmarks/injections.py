"""Causes of lost time as jobs: each with what is wrong, and what the doctor should say first."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cases import Case
from results import EXAMPLES, JOBS

from mooring.backends.local import cgroups
from mooring.record.plan_file import read_holdings
from mooring.record.runs import open_run

_PYTHON = [sys.executable, "-S"]
_WAIT_S = 60.0


def compute(*arguments: str, **spec: Any) -> dict[str, Any]:
    """Members that compute; `worker` is the role's own fields."""
    role = spec.pop("worker", {})
    command = [*_PYTHON, str(JOBS / "compute.py"), *arguments]
    return {"framework": "indexed", "command": command, "roles": {"worker": role}, **spec}


def beside(*arguments: str) -> dict[str, Any]:
    """PyTorch that does something beside training; the doctor needs py-spy to see it."""
    command = [sys.executable, str(JOBS / "beside.py"), "--seconds", "10", *arguments]
    return {"framework": "indexed", "command": command, "roles": {"worker": {}}}


def traffic(*arguments: str, ps: Mapping[str, Any], worker: Mapping[str, Any]) -> dict[str, Any]:
    """Servers and workers that move bytes."""
    command = [*_PYTHON, str(JOBS / "traffic.py"), *arguments]
    return {
        "framework": "tensorflow",
        "command": command,
        "roles": {"ps": dict(ps), "worker": dict(worker)},
    }


def _until(condition: Callable[[], Any], what: str) -> Any:
    give_up = time.monotonic() + _WAIT_S
    while time.monotonic() < give_up:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"waited in vain for {what}")


@contextmanager
def quota(folder: Path) -> Iterator[None]:
    """A twentieth of a CPU, set from outside as an administrator would."""
    run = _until(lambda: open_run(folder), "the run")

    def limit() -> bool:
        for group in cgroups.left_tokens().get(run.info.token, []):
            for name, text in (("cpu.cfs_quota_us", "5000"), ("cpu.max", "5000 100000")):
                for path in group.rglob(name):
                    if path.parent != group:
                        path.write_text(text)
                        return True
        return False

    _until(limit, "its control groups")
    yield


@contextmanager
def neighbours(folder: Path) -> Iterator[None]:
    """Programs that never rest, on the member's own CPU, three times as heavy as it is.

    In a session of its own each: Linux weighs all processes of one session as one.
    """
    held = _until(lambda: read_holdings(folder / "plan.json"), "the plan")
    burn = f"import os\nos.sched_setaffinity(0, {set(held[0].slot.cpus)})\nwhile True: pass"
    burners = [subprocess.Popen([*_PYTHON, "-c", burn], start_new_session=True) for _ in range(24)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


#: Before a command: /dev/shm has 8 MiB for it.
SMALL_SHM = (
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount -t tmpfs -o size=8m t /dev/shm && exec "$@"',
    "sh",
)
#: What /sys says; the memory and the CPUs are the machine's own.
_TWO_CELLS = ("sh", str(JOBS / "two-cells.sh"))
_NO_GROUPS = ("unshare", "-m", "sh", "-c", 'umount -R /sys/fs/cgroup; exec "$@"', "sh")
_PLAIN = EXAMPLES / "wide-deep" / "plain.yaml"
_LARGE = "command=[python, plain.py, --rows, '1000000', --steps, '32', --burst, '4', --judge, '0']"
_ONE = {"resources": {"cpu": 1}}
_TWO = {"replicas": 2}
_BENCH = {"BENCH_COUNT": "2"}


def injected() -> Sequence[Case]:
    own = {"pinning": "exclusive", "worker": _ONE}
    return (
        Case("80 threads, PyTorch", "cpu-threads", JOBS / "mlp.yaml",
             ("threads=80", "pinning=shared"), env=_BENCH),
        Case("80 threads, TensorFlow", "cpu-threads", EXAMPLES / "wide-deep" / "job.yaml",
             ("threads=80",)),
        Case("a program that starts 40 threads", "cpu-threads", compute("--threads", "40")),
        Case("a CPU quota", "cpu-throttled", compute(worker=_ONE), disturb=quota),
        Case("two members bound to one CPU", "cpu-overlap", compute("--bind", worker=_TWO)),
        Case("others on exclusive CPUs", "cpu-neighbour", compute(**own), disturb=neighbours),
        Case("a loader beside the trainer", "cpu-starved", compute("--loader", **own)),
        Case("CPUs that nobody uses", "cpu-idle",
             compute("--work", "0", "--pause", "0.1", worker={"resources": {"cpu": 2}})),
        Case("a program that leaves its own CPUs", "cpu-not-pinned", compute("--widen", **own),
             prefix=_NO_GROUPS),
        Case("threads between two caches", "cpu-wandering",
             compute("--hop", "--work", "0.005", "--pause", "0.05", threads=1),
             prefix=_TWO_CELLS),
        Case("memory on the other NUMA cell", "mem-remote",
             compute("--memory", "120", "--on", "1"), prefix=_TWO_CELLS),
        Case("memory close to its limit", "mem-limit",
             compute("--memory", "60", worker={"resources": {"memory": "64Mi"}})),
        Case("a full /dev/shm", "shm-full", compute("--shm", "7.5"), prefix=SMALL_SHM),
        Case("one table on one of two servers, TensorFlow", "ps-hot",
             EXAMPLES / "wide-deep" / "job.yaml",
             ("variables.placement=round-robin",)),
        Case("tables that Keras pulls whole", "ps-whole-table", _PLAIN, (_LARGE,)),
        Case("Adam on every row of a table", "ps-dense-update", _PLAIN,
             (_LARGE, "variables={lookups: rows}")),
        Case("one hot server behind a full card", "ps-hot",
             traffic("--bytes", "400000,20000,20000", "--pause", "0",
                     ps={"replicas": 3}, worker={"replicas": 2}),
             ("placement.preset=spread",), nodes=4, nic_mbps=20),
        Case("more servers than variables", "ps-idle",
             traffic("--bytes", "100000,0,100000,0", ps={"replicas": 4}, worker=_TWO)),
        Case("a server that computes too much", "ps-cpu",
             traffic("--bytes", "20000", "--spin", "0.02", "--narrow", "--pause", "0",
                     ps={}, worker=_TWO)),
        Case("a full card", "ps-nic",
             traffic("--bytes", "500000", "--pause", "0", ps={"nodeName": "node-0"},
                     worker={"replicas": 2, "nodeName": "node-1"}), nodes=2, nic_mbps=20),
        Case("two servers behind one card", "ps-one-nic",
             traffic("--bytes", "250000", "--pause", "0",
                     ps={"replicas": 2, "nodeName": "node-0"},
                     worker={"replicas": 2, "nodeName": "node-1"}), nodes=3, nic_mbps=20),
        Case("a slow worker", "straggler",
             traffic("--bytes", "10000", "--pause", "0.03", "--slow", "1", ps=_TWO, worker=_TWO)),
        Case("a trainer that decodes its data", "input-bound", beside("--cause", "decode")),
        Case("many small files", "input-bound", beside("--cause", "files")),
        Case("a checkpoint after each step", "checkpoint-often", beside("--cause", "save")),
        Case("a thousand log lines a step", "logging-often", beside("--cause", "log")),
        Case("an evaluation after each step", "evaluation-often", beside("--cause", "evaluate")),
    )  # fmt: skip


def healthy() -> Sequence[Case]:
    examples = ("wide-deep", "tf-allreduce", "pytorch-ddp", "mpi-allreduce", "indexed")
    return (
        *(Case(f"examples/{name}", "", EXAMPLES / name / "job.yaml") for name in examples),
        Case("Keras with row lookups and lazy Adam", "", _PLAIN,
             (_LARGE.replace("'32'", "'320'"), "variables={lookups: rows, optimizer: lazy}")),
        Case("two workers of one thread, PyTorch", "", JOBS / "mlp.yaml", ("pinning=shared",),
             env=_BENCH),
        Case("memory on its own NUMA cell", "", compute("--memory", "120", "--on", "0"),
             prefix=_TWO_CELLS),
        Case("PyTorch that saves now and then", "", beside("--cause", "save", "--every", "1000")),
        Case("servers and workers", "", traffic("--bytes", "100000", ps=_TWO, worker=_TWO)),
        Case("the same on cards with room", "", traffic("--bytes", "2000", ps=_TWO, worker=_TWO),
             nodes=2, nic_mbps=100),
    )  # fmt: skip
