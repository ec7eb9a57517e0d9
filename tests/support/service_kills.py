"""The service killed at random moments while jobs wait, start, run and end: what must be true then.

Each program writes a line when it begins and one when it ends, so that a job that ran twice, or not
at all, is seen whatever the queue says of it.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mooring.backends.local.queue.client import NoService, ServiceFailed
from mooring.spec import load_job
from support.moor import write_job
from support.service import Service, supervisors
from support.waiting import until

_PROGRAM = """import os, sys, time
def note(word):
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, (word + chr(10)).encode())
    os.close(fd)
note('begin')
time.sleep(float(sys.argv[2]))
note('end')
"""


@dataclass
class Campaign:
    """Jobs and kills by one seed. `accepted` jobs were promised, of `unknown` ones nobody knows
    whether the service had taken them when it was killed."""

    service: Service
    folder: Path
    seed: int
    accepted: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def carry_out(self, kills: int) -> None:
        for _ in range(kills):
            for _ in range(self.chance.randint(0, 3)):
                self._submit()
            if self.accepted and self.chance.random() < 0.2:
                self._stop(self.chance.choice(sorted(self.accepted)))
            self._pause(0.8)
            self.service.kill()
            # Also while it starts and takes up what the one before it left.
            self.service.launch()
            if self.chance.random() < 0.5:
                self.service.until_listening()
        self.service.until_listening()

    def check(self, deadline_s: float) -> None:
        """Everybody ended once, nobody twice, and nothing is left."""
        service = self.service
        until(
            lambda: not service.client.get("/jobs?unfinished=true")["jobs"],
            f"all jobs of seed {self.seed} end",
            deadline_s,
        )
        for name, job_id in self.accepted.items():
            phase, lines = service.job(job_id)["phase"], self._lines(name)
            if name in self.stopped:
                assert phase in ("Stopped", "Succeeded"), (job_id, service.job(job_id))
                assert lines.count("begin") <= 1, (job_id, lines)
            else:
                assert phase == "Succeeded", (job_id, service.job(job_id))
            if phase == "Succeeded":
                assert lines == ["begin", "end"], (job_id, lines)
        for name in self.unknown:
            assert self._lines(name) in ([], ["begin", "end"]), name
        until(lambda: not supervisors(service.moor.home), "supervisors end", 30)
        assert service.left() == []

    def _submit(self) -> None:
        name = f"j{len(self.accepted) + len(self.unknown)}"
        cpu = self.chance.choice([0, 1, 1, 2])
        path = write_job(
            self.folder,
            name=name,
            framework="indexed",
            command=[
                sys.executable,
                "-S",
                "-c",
                _PROGRAM,
                str(self._file(name)),
                str(self.chance.choice([0.0, 0.1, 0.5])),
            ],
            roles={"worker": {"replicas": 1, **({"resources": {"cpu": cpu}} if cpu else {})}},
            gracePeriod="1s",
        )
        document = {"job": _document(path), "folder": str(self.folder), "source": str(path)}
        try:
            self.accepted[name] = str(self.service.client.post("/jobs", document)["id"])
        except (NoService, ServiceFailed):
            self.unknown.add(name)

    def _stop(self, name: str) -> None:
        self.stopped.add(name)
        with suppress(NoService, ServiceFailed):
            self.service.client.post(f"/jobs/{self.accepted[name]}/stop", {"now": True})

    def _pause(self, most_s: float) -> None:
        """A moment by chance: what the service does in it is what it is killed in."""
        time.sleep(self.chance.uniform(0.0, most_s))

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.lines"

    def _lines(self, name: str) -> list[str]:
        file = self._file(name)
        return file.read_text().split() if file.exists() else []


def _document(path: Path) -> object:
    return load_job(path, ()).to_dict()
