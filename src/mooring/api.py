"""The Python API: what the command line does, for programs.

result = mooring.run("job.yaml", set=["roles.worker.replicas=4"], on_progress=print)
print(result.phase, result.report.examples_per_s)

with mooring.start("job.yaml") as run:
    for line in run.logs(follow=True):
        print(line.member, line.text)
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring import app, frameworks
from mooring.backends.local.holders import with_holders
from mooring.backends.local.nodes import local_snapshot
from mooring.handle import Run, RunResult, StopRequests, result_of
from mooring.model.cluster import Snapshot
from mooring.model.plan import Plan, Refusal
from mooring.placing import plan_job
from mooring.record import RunRecord
from mooring.report.progress import Progress, progress_of
from mooring.report.view import RunView
from mooring.run_loop import RunEnd
from mooring.spec import API_VERSION, TrainingJob, load_job, parse_job
from mooring.spec.load import check_job

__all__ = ["AnyJob", "Job", "Progress", "Run", "RunResult", "run", "start"]

_CALLBACK_FAILED = "on_progress failed"


@dataclass(frozen=True)
class Job:
    """A validated job and the folder that its paths are relative to."""

    spec: TrainingJob
    folder: Path
    source: str = "job"

    @classmethod
    def from_file(cls, path: str | Path, set: Sequence[str] = ()) -> Job:
        """Raises mooring.BadInput with every problem of the file."""
        path = Path(path)
        return cls(load_job(path, set), path.absolute().parent, str(path))._checked()

    @classmethod
    def from_text(cls, text: str, folder: str | Path = ".", set: Sequence[str] = ()) -> Job:
        return cls(parse_job(text, "job", set), Path(folder).absolute())._checked()

    @classmethod
    def from_dict(cls, document: Mapping[str, object], folder: str | Path = ".") -> Job:
        """A job file as data; `apiVersion` and `kind` may be left out."""
        header = {"apiVersion": API_VERSION, "kind": "TrainingJob"}
        return cls(check_job({**header, **document}, "job"), Path(folder).absolute())._checked()

    def _checked(self) -> Job:
        frameworks.expand(self.spec, self.source)
        return self

    def plan(self, nodes: int | None = None, nic_mbps: int | None = None) -> Plan | Refusal:
        """Where each member would go on this machine now. Starts nothing."""
        where = app.choose_nodes(None if nodes is None else str(nodes), nic_mbps)
        snapshot: Snapshot = local_snapshot(where.virtual_nodes, where.nic_mbps)
        answer = plan_job(self.spec, snapshot, self.source)[1]
        return with_holders(answer) if isinstance(answer, Refusal) else answer


#: A job, the path of a job file, or what a job file says as data.
AnyJob = Job | TrainingJob | str | Path | Mapping[str, object]


def run(
    job: AnyJob,
    *,
    set: Sequence[str] = (),
    nodes: int | None = None,
    nic_mbps: int | None = None,
    directory: str | Path | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    every_s: float = 1.0,
) -> RunResult:
    """Run a job to its end on this machine.

    `set`: overrides for a job file, as `moor run --set`. `on_progress` is called in this thread
    every `every_s` seconds and once at the end; an error that it raises stops the job and comes out
    here.

    In the main thread Ctrl-C, SIGTERM and SIGHUP stop the job cleanly, and are then passed on to
    whoever handled them before: Ctrl-C ends in KeyboardInterrupt. No handler stays behind.
    """
    watcher = _Watcher(on_progress, every_s)
    result = _carry_out(
        job_of(job, set),
        _where(nodes, nic_mbps),
        directory,
        watcher.started,
        watcher.stops.take,
        watcher.tick,
    )
    ended = result_of(result)
    watcher.tell_end()
    for number in dict.fromkeys(result.signals):
        signal.raise_signal(number)
    return ended


def start(
    job: AnyJob,
    *,
    set: Sequence[str] = (),
    nodes: int | None = None,
    nic_mbps: int | None = None,
    directory: str | Path | None = None,
) -> Run:
    """Start a job on this machine and go on; see `Run` for what can be asked of it.

    Raises mooring.BadInput, mooring.NotInstalled or mooring.Refused if nothing was started. The
    run ends with this process.
    """
    ready, where = job_of(job, set), _where(nodes, nic_mbps)
    return Run(
        lambda on_start, stop_when: _carry_out(ready, where, directory, on_start, stop_when),
        ready.spec.metadata.name,
    )


def _carry_out(
    job: Job,
    where: app.NodeChoice,
    directory: str | Path | None,
    on_start: Callable[[RunRecord], None],
    stop_when: Callable[[], str | None],
    on_tick: Callable[[], None] = lambda: None,
) -> RunEnd:
    return app.run_job(
        job.spec,
        job_dir=job.folder,
        where=where,
        directory=None if directory is None else Path(directory),
        source=job.source,
        on_start=on_start,
        on_tick=on_tick,
        stop_when=stop_when,
        stops_by_signal=False,
    )


def _where(nodes: int | None, nic_mbps: int | None) -> app.NodeChoice:
    return app.choose_nodes(None if nodes is None else str(nodes), nic_mbps)


def job_of(job: AnyJob, set: Sequence[str]) -> Job:
    """Raises BadInput, or TypeError for what is no job."""
    if isinstance(job, str | Path):
        return Job.from_file(job, set)
    if set:
        raise TypeError("`set` changes a job file: give its path, or change the job itself")
    if isinstance(job, Mapping):
        return Job.from_dict(job)
    if isinstance(job, TrainingJob):
        return Job(job, Path.cwd())._checked()
    if isinstance(job, Job):
        return job
    found = type(job).__name__
    raise TypeError(f"a job is a path, a mapping, a mooring.Job or a TrainingJob, not {found}")


class _Watcher:
    """Calls back with the progress now and then, from the thread that carries the run."""

    def __init__(self, on_progress: Callable[[Progress], object] | None, every_s: float) -> None:
        self._on_progress, self._every_s = on_progress, every_s
        self.stops = StopRequests()
        self._view: RunView | None = None
        self._due_s = 0.0
        self._error: BaseException | None = None

    def started(self, run: RunRecord) -> None:
        self.stops.run, self._view = run, RunView(run)

    def tick(self) -> None:
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + self._every_s
            self._tell()

    def tell_end(self) -> None:
        """The last value, and the error of the callback, if there was one."""
        if self._error is None:
            self._tell()
        if self._error is not None:
            raise self._error

    def _tell(self) -> None:
        if self._on_progress is None or self._view is None or self._error is not None:
            return
        self._view.update()
        progress = progress_of(self._view)
        try:
            self._on_progress(progress)
        except BaseException as error:
            self._error = error
            self.stops.ask(_CALLBACK_FAILED)
