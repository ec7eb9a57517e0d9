"""What does the machine's queue cost with a thousand jobs in it?

A service with a state home of its own; one job holds all CPUs, so that the others wait, and each
asks for a CPU. Measured: `moor ps` as a user calls it, the service's own CPU time for one job more
(submitted over its socket, with the round that follows), and the share of a CPU that it takes while
nothing happens, with nobody and with all of them in the queue.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from results import Machine, options, say, show, write

from mooring.backends.local.queue.client import ServiceClient
from mooring.backends.local.queue.folders import QueueHome

#: A round follows a submission within this time; the next one is not disturbed by it.
_SETTLED_S = 0.5


@dataclass(frozen=True)
class Service:
    """A service that runs, and its process."""

    home: Path
    client: ServiceClient
    process: psutil.Process

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "MOORING_HOME": str(self.home)}

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def idle_share(self, seconds: float) -> float:
        before_s, began_s = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_s() - before_s) / (time.monotonic() - began_s)

    def submit(self, name: str, cpu: int) -> None:
        command = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
        role = {"replicas": 1, "resources": {"cpu": cpu}}
        job: dict[str, Any] = {
            "apiVersion": "mooring.dev/v1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"framework": "indexed", "command": command, "roles": {"worker": role}},
        }
        self.client.post("/jobs", {"job": job, "folder": str(self.home), "source": name})


def main() -> None:
    parser = options(__doc__, pairs=20, seconds=20)
    parser.add_argument("--jobs", type=int, default=1000, help="that wait in the queue")
    arguments = parser.parse_args()
    machine = Machine()
    with _service() as service:
        say(f"nothing in the queue, {arguments.seconds:.0f} s")
        empty_share = service.idle_share(arguments.seconds)
        empty_ps_s = _ps_s(service, arguments.pairs)
        service.submit("holder", len(os.sched_getaffinity(0)))
        _until_running(service)
        say(f"submitting {arguments.jobs} jobs")
        began_s, before_s = time.monotonic(), service.cpu_s()
        for number in range(arguments.jobs):
            service.submit(f"job{number}", 1)
        took_s = time.monotonic() - began_s
        filled_cpu_s = service.cpu_s() - before_s
        time.sleep(2.0)
        say(f"`moor ps` and one job more, {arguments.pairs} times each")
        full_ps_s = _ps_s(service, arguments.pairs)
        more_s = [_one_more_s(service, number) for number in range(arguments.pairs)]
        say(f"nothing happens, {arguments.seconds:.0f} s")
        full_share = service.idle_share(arguments.seconds)
        memory_bytes = service.process.memory_info().rss
    rows = [
        ["moor ps, nobody waits", _ms(empty_ps_s), f"{max(empty_ps_s) * 1000:.0f} ms", ""],
        ["moor ps", _ms(full_ps_s), f"{max(full_ps_s) * 1000:.0f} ms", "500 ms"],
        ["service CPU for one job more", _ms(more_s), f"{max(more_s) * 1000:.0f} ms", "50 ms"],
        ["service CPU, idle, nobody waits", f"{empty_share:.2%}", "", "0.5 %"],
        ["service CPU, idle", f"{full_share:.2%}", "", "0.5 %"],
        ["submitting them all", f"{took_s:.1f} s", f"{filled_cpu_s:.1f} s of CPU", ""],
        ["service memory", f"{memory_bytes / 2**20:.0f} MiB", "", ""],
    ]
    title = f"the machine's queue with {arguments.jobs} jobs that wait"
    show(title, ["", "median", "worst", "goal"], rows)
    figures = {
        "jobs": arguments.jobs,
        "empty_ps_s": _rounded(empty_ps_s),
        "full_ps_s": _rounded(full_ps_s),
        "one_more_cpu_s": _rounded(more_s),
        "empty_idle_share": round(empty_share, 5),
        "full_idle_share": round(full_share, 5),
        "submitting_s": round(took_s, 2),
        "submitting_cpu_s": round(filled_cpu_s, 2),
        "memory_bytes": memory_bytes,
    }
    write("service", machine, figures)


@contextmanager
def _service() -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        client = ServiceClient(QueueHome(home / "queue"))
        process = subprocess.Popen(
            [sys.executable, "-m", "mooring", "serve"],
            env={**os.environ, "MOORING_HOME": str(home)},
            stderr=subprocess.DEVNULL,
        )
        try:
            while not client.is_there():
                time.sleep(0.05)
            time.sleep(2.0)
            yield Service(home, client, psutil.Process(process.pid))
            for job in client.get("/jobs?unfinished=true")["jobs"]:
                client.post(f"/jobs/{job['id']}/stop", {"now": True})
            while client.get("/jobs?unfinished=true")["jobs"]:
                time.sleep(0.1)
        finally:
            process.terminate()
            process.wait()


def _until_running(service: Service) -> None:
    while service.client.get("/jobs/holder-1")["state"] != "running":
        time.sleep(0.05)


def _ps_s(service: Service, times: int) -> list[float]:
    took = []
    for _ in range(times):
        began_s = time.monotonic()
        command = [sys.executable, "-m", "mooring", "ps"]
        subprocess.run(command, env=service.env, stdout=subprocess.DEVNULL, check=True)
        took.append(time.monotonic() - began_s)
    return took


def _one_more_s(service: Service, number: int) -> float:
    before_s = service.cpu_s()
    service.submit(f"more{number}", 1)
    time.sleep(_SETTLED_S)
    return service.cpu_s() - before_s


def _ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f} ms"


def _rounded(seconds: list[float]) -> list[float]:
    return [round(one, 4) for one in seconds]


if __name__ == "__main__":
    main()
