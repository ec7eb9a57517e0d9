"""The Python API: what the command line does, for programs.

job = mooring.Job.from_file("job.yaml", set=["roles.worker.replicas=4"])
result = mooring.run(job, nodes=2)
print(result.phase, result.report.examples_per_s)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring import app, frameworks
from mooring.bodies.local.nodes import local_snapshot
from mooring.model.cluster import Snapshot
from mooring.model.plan import Plan, Refusal
from mooring.placing import plan_job
from mooring.report.figures import Report
from mooring.report.finish import write_report
from mooring.spec import TrainingJob, load_job, parse_job


@dataclass(frozen=True)
class Job:
    """A validated job and the folder that its paths are relative to."""

    spec: TrainingJob
    folder: Path
    source: str = "job"

    @classmethod
    def from_file(cls, path: str | Path, set: Sequence[str] = ()) -> Job:
        """Raises mooring.model.errors.BadInput with every problem of the file."""
        path = Path(path)
        job = cls(load_job(path, set), path.absolute().parent, str(path))
        frameworks.expand(job.spec, job.source)
        return job

    @classmethod
    def from_text(cls, text: str, folder: str | Path = ".", set: Sequence[str] = ()) -> Job:
        job = cls(parse_job(text, "job", set), Path(folder).absolute())
        frameworks.expand(job.spec, job.source)
        return job

    def plan(self, nodes: int | None = None, nic_mbps: int | None = None) -> Plan | Refusal:
        """Where each member would go on this machine now. Starts nothing."""
        where = app.choose_nodes(None if nodes is None else str(nodes), nic_mbps)
        snapshot: Snapshot = local_snapshot(where.virtual_nodes, where.nic_mbps)
        return plan_job(self.spec, snapshot, self.source)[1]


@dataclass(frozen=True)
class RunResult:
    """How a run ended, its figures, and where its files are."""

    phase: str
    reason: str
    report: Report
    directory: Path

    @property
    def succeeded(self) -> bool:
        return self.phase == "Succeeded"


def run(
    job: Job,
    *,
    nodes: int | None = None,
    nic_mbps: int | None = None,
    directory: str | Path | None = None,
) -> RunResult:
    """Run a job to its end on this machine; SIGINT and SIGTERM stop it cleanly."""
    result = app.run_job(
        job.spec,
        job_dir=job.folder,
        where=app.choose_nodes(None if nodes is None else str(nodes), nic_mbps),
        directory=None if directory is None else Path(directory),
        source=job.source,
    )
    report = write_report(result.run)
    return RunResult(result.phase.value, result.reason, report, result.run.root)
