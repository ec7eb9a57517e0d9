"""`moor serve` in a process of its own, as a test starts, kills and asks it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.backends.local.queue.client import ServiceClient
from mooring.backends.local.queue.folders import QueueHome
from support.moor import Moor, leftovers
from support.waiting import until


@dataclass
class Service:
    """A service with a state home of its own. `arguments` are those of `moor serve`."""

    moor: Moor
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> QueueHome:
        return QueueHome(self.moor.home / "queue")

    @property
    def client(self) -> ServiceClient:
        return ServiceClient(self.home)

    @property
    def log(self) -> Path:
        return self.moor.home / "service.log"

    def start(self) -> None:
        self.launch()
        self.until_listening()

    def until_listening(self) -> None:
        until(lambda: self.client.is_there() or self._died(), "the service listens", 60)
        assert not self._died(), self.log.read_text()

    def launch(self) -> None:
        """Without waiting until it listens."""
        self.moor.home.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mooring", "serve", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self.moor.env, **self.env},
            )

    def _died(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0, self.log.read_text()

    def submit(self, *files: Path) -> list[str]:
        """The ids of the jobs."""
        answer = self.moor("submit", *files)
        assert answer.returncode == 0, answer.stderr
        return [line.split()[0] for line in answer.stdout.splitlines()]

    def job(self, job_id: str) -> dict[str, Any]:
        return self.client.get(f"/jobs/{job_id}")

    def state(self, job_id: str) -> str:
        return str(self.job(job_id)["state"])

    def until_state(self, job_id: str, *states: str, deadline_s: float = 60) -> dict[str, Any]:
        what = f"{job_id} is {' or '.join(states)}"
        until(lambda: self.state(job_id) in states, what, deadline_s)
        return self.job(job_id)

    def until_ended(self, job_id: str, deadline_s: float = 60) -> dict[str, Any]:
        return self.until_state(job_id, "ended", deadline_s=deadline_s)

    def left(self) -> list[str]:
        """Whatever runs of this home have left on this machine."""
        return [what for run in self.moor.runs() for what in leftovers(run)]


@contextmanager
def service_in(
    home: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """A service that listens; at the end it and all its jobs are ended."""
    service = Service(Moor(home), arguments, env or {})
    service.start()
    try:
        yield service
    finally:
        if service._died():
            service.start()
        for job in service.client.get("/jobs?unfinished=true")["jobs"]:
            service.client.post(f"/jobs/{job['id']}/stop", {"now": True})
        until(lambda: not service.client.get("/jobs?unfinished=true")["jobs"], "all jobs end", 60)
        service.stop()


def supervisors(home: Path) -> list[int]:
    """Process ids of the supervisors of jobs of this home."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"mooring.supervise" in command and any(
                argument.startswith(os.fsencode(home)) for argument in command
            ):
                found.append(int(entry.name))
    return found
