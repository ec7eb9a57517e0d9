"""`moor run` as a user starts it: a real process, with a state home of the benchmark's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Moor:
    """Each run gets a folder of its own below `home`."""

    home: Path

    def env(self, more: Mapping[str, str] = {}) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "MOORING_HOME": str(self.home), **more}
        # An installation has its byte code; without, every start would compile Mooring anew.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        return env

    def run(
        self,
        job: Path,
        *,
        settings: Sequence[str] = (),
        nodes: int = 0,
        env: Mapping[str, str] = {},
    ) -> dict[str, Any]:
        """Run a job to its end and return its report; a run that fails ends the benchmark."""
        return self.finished(job, settings=settings, nodes=nodes, env=env).report()

    def finished(
        self,
        job: Path,
        *,
        settings: Sequence[str] = (),
        nodes: int = 0,
        nic_mbps: int = 0,
        env: Mapping[str, str] = {},
        more: Sequence[str] = (),
    ) -> Started:
        """A run that has ended well; with `--fix` in `more`, the one after its probe."""
        with self.started(
            job, settings=settings, nodes=nodes, nic_mbps=nic_mbps, env=env, more=more
        ) as run:
            output, _ = run.process.communicate()
            if run.process.returncode != 0:
                raise SystemExit(f"moor run failed:\n{output}")
            return run

    @contextmanager
    def started(
        self,
        job: Path,
        *,
        settings: Sequence[str] = (),
        nodes: int = 0,
        nic_mbps: int = 0,
        env: Mapping[str, str] = {},
        more: Sequence[str] = (),
    ) -> Iterator[Started]:
        """A run in the background; killed at the end if it is still there."""
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self.home))
        command = [sys.executable, "-m", "mooring", "run", str(job), "-o", str(folder), *more]
        for setting in settings:
            command += ["--set", setting]
        if nodes:
            command += ["--nodes", str(nodes)]
        if nic_mbps:
            command += ["--nic-mbps", str(nic_mbps)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env(env),
        )
        try:
            yield Started(process, folder)
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=60)


@dataclass(frozen=True)
class Started:
    """A run and where its files are."""

    process: subprocess.Popen[str]
    folder: Path

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report

    def log(self, member: str) -> str:
        return (self.folder / "logs" / f"{member}.log").read_text(encoding="utf-8")

    def events(self) -> list[dict[str, Any]]:
        return lines(self.folder / "events.jsonl")

    def launcher_pids(self) -> list[int]:
        return [line["pid"] for line in self._said("ready")]

    def worker_pids(self) -> list[int]:
        return [pid for line in self._said("running") for pid in line["pids"]]

    def _said(self, kind: str) -> list[dict[str, Any]]:
        paths = sorted((self.folder / "samples").glob("*.jsonl"))
        return [line for path in paths for line in lines(path) if line["kind"] == kind]

    def phase_at_s(self, phase: str) -> float | None:
        """When (unix seconds) the run entered a phase, if it has."""
        for event in self.events():
            if event["kind"] == "phase" and event["phase"] == phase:
                return float(event["t"])
        return None


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that another process is appending to."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def temporary_moor() -> Iterator[Moor]:
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as folder:
        yield Moor(Path(folder))
