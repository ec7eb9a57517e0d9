"""Starting real launchers from the packed file, as a body does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.wire import UnknownRecord, read_record
from support.waiting import until

PYTHON = sys.executable


class Started:
    """A launcher with the folder that its contract, log and samples are in."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    def records(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "samples.jsonl"
        if not path.exists():
            return []
        records = [json.loads(line) for line in path.read_text().splitlines() if line]
        for record in records:
            assert not isinstance(read_record(record), UnknownRecord)
        return [record for record in records if record["kind"] == kind]

    def first(self, kind: str) -> dict[str, Any]:
        return until(lambda: self.records(kind), f"a {kind} record")[0]

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def wait_for_log(self, text: str) -> str:
        """The text of the first log line that holds `text`, without time, stream and rank."""
        found = until(lambda: [line for line in self.log() if text in line], f"{text!r} in the log")
        return found[0].split(" ", 3)[3]

    def open_gate(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def drop_lifeline(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self, deadline_s: float = 20.0) -> int:
        return self.process.wait(deadline_s)


class Launchers:
    """Starts launchers below one folder and ends whatever a failed test left."""

    def __init__(self, archive: Path, folder: Path, python: Sequence[str] = (PYTHON,)) -> None:
        self.archive = archive
        self.python = python
        self._folder = folder
        self._all: list[Started] = []

    def start(
        self,
        argv: Sequence[str] = (),
        *,
        environ: Mapping[str, str] | None = None,
        **contract: Any,
    ) -> Started:
        folder = self._folder / f"member-{len(self._all)}"
        folder.mkdir()
        document = {
            "version": 1,
            # Its processes are marked with it: no other test may take them for its own.
            "run": f"launcher-test-{os.getpid()}",
            "job": "job",
            "member": "worker-0",
            "argv": list(argv),
            "cwd": str(folder),
            "gate": "open",
            "log_path": str(folder / "log"),
            "sample_path": str(folder / "samples.jsonl"),
            "sample_interval_s": 0.1,
            "grace_s": 5.0,
            **contract,
        }
        path = folder / "contract.json"
        path.write_text(json.dumps(document))
        process = subprocess.Popen(
            [*self.python, "-I", "-S", str(self.archive), "run", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "stderr").open("wb"),
            start_new_session=True,
            env=dict(os.environ if environ is None else environ),
        )
        started = Started(folder, process)
        self._all.append(started)
        return started

    def close(self) -> None:
        for started in self._all:
            if started.process.poll() is None:
                started.process.kill()
            started.process.wait()
            if started.process.stdin is not None:
                started.process.stdin.close()


def is_gone(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return fields[0] in ("Z", "X")
