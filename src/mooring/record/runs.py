"""One run's directory, and finding a run again by name.

run.json          who runs it (pid and start time), when, on what
job.yaml          the job after defaults and overrides
start.json        what it was started with beside the job
plan.json         where each member went, and why
events.jsonl      every change of state
samples/M.jsonl   what member M's launcher measured
stacks-at-stall.txt  everybody's stacks in full, of a run that came to a standstill
logs/M.log        what member M printed
members/M/        M's contract and files
files/            copies of the job's files
files.json        which they were, so that nothing else is removed with them
.spare            room on the disk for the last entries of events.jsonl, while the run lives
released          empty; exists once the run holds nothing any more
stop              exists once somebody has asked a program that carries the run to stop it
report.json       the figures, once the run has ended
pinned            empty; exists while the run is to be kept (`moor pin`)
output.log        what `moor` itself printed, of a run with `--detach`
fix.json          the probe before it and the remedies, of a run with `--fix`
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil

from mooring.model.errors import BadInput, RunFailed
from mooring.record.private import make_folder, write_whole
from mooring.record.process_mark import is_alive, is_dead, mark_of
from mooring.record.state_home import runs_dir

RELEASED = "released"
#: run.json is small, and so is each of its texts.
_MOST_BYTES = 64 * 1024
#: In the year 5138; a calendar ends some time after.
_END_OF_TIME_S = 1e11
_TOKEN = re.compile(r"[0-9a-f]{6}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True)
class RunInfo:
    """What never changes during a run. `token` names its namespaces, bridges and cgroups."""

    id: str
    token: str
    job: str
    pid: int
    pid_started_s: float
    created_s: float
    host: str
    version: str
    virtual_nodes: int = 0
    source: str = ""
    stops_by_signal: bool = True
    """False: its process is a program that does more than this run; `stop_file` stops it."""
    pid_mark: str = ""
    """Of the process (`process_mark`); '' in runs of earlier versions, which have seconds only."""
    queue_job: str = ""
    """The job's id in the queue of `moor serve`; '' for a run that did not come from there."""

    @property
    def start_mark(self) -> str:
        return self.pid_mark or str(self.pid_started_s)


@dataclass(frozen=True)
class RunName:
    """What a run will be called, chosen before it has a folder: its id and its token."""

    id: str
    token: str


def new_run_name(job: str) -> RunName:
    """`JOB-MMDD-HHMMSS-xxxx` by the local time, and a token whose beginning it ends with."""
    token = secrets.token_hex(3)
    return RunName(f"{job}-{time.strftime('%m%d-%H%M%S')}-{token[:4]}", token)


@dataclass(frozen=True)
class RunRecord:
    """The paths of one run, and the few questions that its files answer."""

    info: RunInfo
    root: Path

    @property
    def job_file(self) -> Path:
        return self.root / "job.yaml"

    @property
    def start_file(self) -> Path:
        return self.root / "start.json"

    @property
    def plan_file(self) -> Path:
        return self.root / "plan.json"

    @property
    def events_file(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def spare_file(self) -> Path:
        return self.root / ".spare"

    @property
    def report_file(self) -> Path:
        return self.root / "report.json"

    @property
    def fix_file(self) -> Path:
        return self.root / "fix.json"

    @property
    def output_file(self) -> Path:
        return self.root / "output.log"

    @property
    def files_dir(self) -> Path:
        return self.root / "files"

    @property
    def copies_file(self) -> Path:
        return self.root / "files.json"

    @property
    def launcher_file(self) -> Path:
        return self.root / "launcher.pyz"

    @property
    def stall_file(self) -> Path:
        return self.root / "stacks-at-stall.txt"

    def log_file(self, member: str) -> Path:
        return self.root / "logs" / f"{member}.log"

    def sample_file(self, member: str) -> Path:
        return self.root / "samples" / f"{member}.jsonl"

    def member_dir(self, member: str) -> Path:
        return self.root / "members" / member

    @property
    def stop_file(self) -> Path:
        """Made by whoever wants the run to stop; `now` in it: without waiting for members."""
        return self.root / "stop"

    @property
    def released_file(self) -> Path:
        """Exists once the run holds nothing any more, though its process may live on a little."""
        return self.root / RELEASED

    @property
    def pinned_file(self) -> Path:
        """Made by whoever wants the run to be kept, however many there are."""
        return self.root / "pinned"

    @property
    def pinned(self) -> bool:
        return self.pinned_file.exists()

    def holds(self) -> bool:
        """Whether what its plan gives it is still its own."""
        return not self.released_file.exists() and self.alive()

    def alive(self) -> bool:
        """Whether the `moor` process that carries this run still exists."""
        return is_alive(self.info.pid, self.info.start_mark)

    def is_of_its_owner(self) -> bool:
        """Whether that process is of the user whose folder this is."""
        try:
            return psutil.Process(self.info.pid).uids().real == self.root.stat().st_uid
        except (psutil.Error, OSError):
            return False

    def is_dead(self) -> bool:
        """Whether that process is certainly gone: nobody can tell from another container."""
        return is_dead(self.info.pid, self.info.start_mark)


def create_run(
    job: str,
    *,
    directory: Path | None,
    virtual_nodes: int,
    source: str,
    version: str,
    stops_by_signal: bool = True,
    name: RunName | None = None,
    queue_job: str = "",
) -> RunRecord:
    """Make a run directory, in the state home or at `directory`, findable by its id.

    `name`: as a queue has chosen it; a second run of that name fails.
    """
    now_s = time.time()
    name = name or new_run_name(job)
    index = runs_dir() / name.id
    try:
        if directory is None:
            root = index
            root.mkdir(mode=0o700)
        else:
            root = directory.absolute()
            if root.exists() and (not root.is_dir() or any(root.iterdir())):
                raise BadInput.at(
                    "moor run -o", str(directory), "something there", "a new or empty folder"
                )
            if root.exists() and root.stat().st_uid != os.geteuid():
                raise BadInput.at(
                    "moor run -o",
                    str(directory),
                    "a folder of another user",
                    "a new folder, or an empty one of your own",
                )
            make_folder(root)
            index.symlink_to(root)
        for folder in ("logs", "samples", "members"):
            make_folder(root / folder)
        info = RunInfo(
            id=name.id,
            token=name.token,
            job=job,
            pid=os.getpid(),
            pid_started_s=now_s,
            created_s=now_s,
            host=os.uname().nodename,
            version=version,
            virtual_nodes=virtual_nodes,
            source=source,
            stops_by_signal=stops_by_signal,
            pid_mark=mark_of(os.getpid()),
            queue_job=queue_job,
        )
        write_whole(root / "run.json", json.dumps(asdict(info), indent=1))
    except OSError as error:
        if index.is_symlink():
            index.unlink()
        raise RunFailed(f"cannot make the run directory: {error}") from error
    return RunRecord(info, root)


def open_run(root: Path) -> RunRecord | None:
    """The run in a directory, or None if there is none that can be read."""
    try:
        with (root / "run.json").open("rb") as file:
            document = json.loads(file.read(_MOST_BYTES))
        info = RunInfo(**document)
        return RunRecord(info, root.resolve()) if _is_sound(info) else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def is_id(text: str) -> bool:
    """Whether this can be the id of a run or of a queue's job, which is also that of its folder."""
    return _ID.fullmatch(text) is not None


def _is_sound(info: RunInfo) -> bool:
    """Whether each field is what Mooring writes: ids and tokens become names of paths."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "str": str,
        "int": int,
        "bool": bool,
        "float": (int, float),
    }
    for each in fields(info):
        value = getattr(info, each.name)
        if not isinstance(value, kinds[str(each.type)]) or (
            isinstance(value, bool) and each.type != "bool"
        ):
            return False
    times = (info.created_s, info.pid_started_s)
    names = _ID.fullmatch(info.id) and _ID.fullmatch(info.job) and _TOKEN.fullmatch(info.token)
    return (
        bool(names) and all(0 <= one < _END_OF_TIME_S for one in times) and 0 < info.pid < 1 << 31
    )


def list_runs() -> list[RunRecord]:
    """Every readable run of this user, oldest first."""
    found = [run for entry in runs_dir().iterdir() if (run := open_run(entry)) is not None]
    return sorted(found, key=lambda run: (run.info.created_s, run.info.id))


def holding_runs() -> list[RunRecord]:
    """The runs of this user that hold something now. Does not read those that have let go."""
    entries = (entry for entry in runs_dir().iterdir() if not (entry / RELEASED).exists())
    return [run for entry in entries if (run := open_run(entry)) is not None and run.holds()]


def find_run(name: str) -> RunRecord:
    """A run by path, id, unique beginning of an id, id of a queue's job or name of a job (the
    latest run of either), or `last`."""
    if os.sep in name or name in (".", ".."):
        run = open_run(Path(name))
        if run is None:
            raise BadInput.at(
                "moor", f"RUN {name}", "no run directory", "a folder that `moor run` made"
            )
        return run
    runs = list_runs()
    if name == "last" and runs:
        return runs[-1]
    exact = [run for run in runs if run.info.id == name]
    by_queue_job = [run for run in runs if name and run.info.queue_job == name]
    by_job = [run for run in runs if run.info.job == name]
    begins = [run for run in runs if run.info.id.startswith(name)]
    for candidates in (exact, by_queue_job[-1:], by_job[-1:], begins):
        if len(candidates) == 1:
            return candidates[0]
    if begins:
        ids = ", ".join(run.info.id for run in begins[-5:])
        found = f"{name!r}, with which several runs begin"
        raise BadInput.at("moor", "RUN", found, f"one of {ids}")
    known = ", ".join(run.info.id for run in runs[-5:]) or "none yet: start one with `moor run`"
    raise BadInput.at("moor", "RUN", repr(name), f"a run, a path or `last` ({known})")
