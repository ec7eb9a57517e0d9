"""The real command in a real process, with a state home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from mooring.backends.local import cgroups, netns, processes
from mooring.record import RunRecord
from mooring.record.runs import open_run


@dataclass(frozen=True)
class Moor:
    """`moor` with MOORING_HOME in a folder of the test's own."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "MOORING_HOME": str(self.home), "PATH": path}

    def __call__(
        self,
        *arguments: str | Path,
        timeout_s: float = 120,
        env: Mapping[str, str] = {},
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mooring", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**self.env, **env},
            timeout=timeout_s,
            check=False,
            cwd=cwd,
        )

    @contextmanager
    def started(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """`moor` in the background; killed at the end if it is still there."""
        process = subprocess.Popen(
            [sys.executable, "-m", "mooring", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env,
            # Whoever runs the tests in the background ignores it, and so would the command.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def runs(self) -> list[RunRecord]:
        folder = self.home / "runs"
        found = [open_run(entry) for entry in folder.iterdir()] if folder.is_dir() else []
        return [run for run in found if run is not None]

    def only_run(self) -> RunRecord:
        [run] = self.runs()
        return run

    def report(self, run: str = "last") -> dict[str, Any]:
        answer = self("report", run, "-o", "json")
        assert answer.returncode == 0, answer.stderr
        document: dict[str, Any] = json.loads(answer.stdout)
        return document


def write_job(folder: Path, **spec: Any) -> Path:
    """A job file with this spec; `name` is its name."""
    name = spec.pop("name", "job")
    document = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": spec,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def processes_of(run_id: str) -> list[psutil.Process]:
    return processes.marked_processes(run_id)


def leftovers(run: RunRecord) -> list[str]:
    """Whatever a run has left on this machine."""
    left = [f"process {process}" for process in processes_of(run.info.id)]
    left += [str(path) for path in cgroups.left_tokens().get(run.info.token, [])]
    if run.info.token in netns.left_tokens():
        left.append(f"namespaces or bridges with {run.info.token}")
    return left
