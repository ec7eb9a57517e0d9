"""Where the queue keeps what it knows, in the state home. Everything is its owner's alone.

queue/service.sock      where the service listens
queue/service.lock      held by the one service there is
queue/queue.sqlite3     the queue: jobs, their states, what happened
queue/pools.yaml        the last pools file that was valid
queue/token             who shows it may come in over TCP
queue/jobs/ID/          a job, from its submission until its record is removed:
    job.json            the job, after overrides
    submission.json     what was submitted beside it
    environment.json    the submitter's variables; removed when the job has ended
    files/              copies of the job's files
    lock                held by its supervisor
    wanted.json         what the service wants of the supervisor now
    admission-N.json    what the N-th admission gives: a run's name and a plan
    supervisor-N.json   which process supervises that run
    outcome-N.json      how that ended
    supervisor.log      what supervisors printed
    end.json            how the job ended
    left                a `moor run` that waited has gone on without the queue, or has ended
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mooring.backends.local.queue.documents import (
    Admission,
    Document,
    End,
    Environment,
    Outcome,
    Submission,
    SupervisorName,
    Wanted,
)
from mooring.model.errors import BadInput
from mooring.record.private import make_folder, write_whole
from mooring.record.state_home import state_home
from mooring.spec import TrainingJob
from mooring.spec.load import check_job

#: An environment of the largest size that a kernel takes is below.
_MOST_BYTES = 16 << 20
_MOST_REASON_BYTES = 1 << 12
_Read = TypeVar("_Read", bound=Document)


@dataclass(frozen=True)
class JobFolder:
    """The files of one job in the queue. Readers answer None for what is missing or no longer
    what was written."""

    root: Path

    @property
    def job_file(self) -> Path:
        return self.root / "job.json"

    @property
    def files_dir(self) -> Path:
        return self.root / "files"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @property
    def log_file(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def environment_file(self) -> Path:
        return self.root / "environment.json"

    def create(self, job: TrainingJob, submission: Submission, environment: Environment) -> None:
        """Raises OSError, with nothing left behind."""
        try:
            make_folder(self.root)
            write_whole(self.environment_file, environment.model_dump_json())
            write_whole(self.job_file, json.dumps(job.to_dict()))
            # Last: a folder that has it is whole.
            write_whole(self.root / "submission.json", submission.model_dump_json())
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def forget_environment(self) -> None:
        with suppress(OSError):
            self.environment_file.unlink(missing_ok=True)

    def job(self, source: str) -> TrainingJob:
        """Raises BadInput, also where there is no job that can be read."""
        try:
            with self.job_file.open("rb") as file:
                data = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError, RecursionError) as error:
            found = f"{self.job_file}, which cannot be read: {error}"
            raise BadInput.at(source, "job", found, "the job as it was submitted") from error
        return check_job(data, source)

    def submission(self) -> Submission | None:
        return _read(self.root / "submission.json", Submission)

    def environment(self) -> Environment | None:
        return _read(self.environment_file, Environment)

    @property
    def wanted_file(self) -> Path:
        return self.root / "wanted.json"

    def wanted(self) -> Wanted | None:
        return _read(self.wanted_file, Wanted)

    def write_wanted(self, wanted: Wanted) -> None:
        write_whole(self.wanted_file, wanted.model_dump_json())

    def admission(self, number: int) -> Admission | None:
        return _read(self.root / f"admission-{number}.json", Admission)

    def write_admission(self, admission: Admission) -> None:
        path = self.root / f"admission-{admission.number}.json"
        write_whole(path, admission.model_dump_json())

    def supervisor(self, number: int) -> SupervisorName | None:
        return _read(self.root / f"supervisor-{number}.json", SupervisorName)

    def write_supervisor(self, number: int, name: SupervisorName) -> None:
        write_whole(self.root / f"supervisor-{number}.json", name.model_dump_json())

    def outcome(self, number: int) -> Outcome | None:
        return _read(self._outcome_file(number), Outcome)

    def write_outcome(self, number: int, outcome: Outcome) -> None:
        write_whole(self._outcome_file(number), outcome.model_dump_json())

    @property
    def left_file(self) -> Path:
        return self.root / "left"

    def left(self) -> str | None:
        """Why the process that waited for its turn waits no more; None while it does."""
        try:
            with self.left_file.open("rb") as file:
                return file.read(_MOST_REASON_BYTES).decode(errors="replace")
        except OSError:
            return None

    def write_left(self, reason: str) -> None:
        write_whole(self.left_file, reason)

    def has_outcome(self, number: int) -> bool:
        return self._outcome_file(number).exists()

    def _outcome_file(self, number: int) -> Path:
        return self.root / f"outcome-{number}.json"

    def end(self) -> End | None:
        return _read(self.root / "end.json", End)

    def write_end(self, end: End) -> None:
        write_whole(self.root / "end.json", end.model_dump_json())


def _read(path: Path, kind: type[_Read]) -> _Read | None:
    try:
        with path.open("rb") as file:
            return kind.model_validate_json(file.read(_MOST_BYTES))
    except (OSError, ValidationError, RecursionError):
        return None


@dataclass(frozen=True)
class QueueHome:
    """The queue's part of a state home."""

    root: Path

    @property
    def socket(self) -> Path:
        return self.root / "service.sock"

    @property
    def lock_file(self) -> Path:
        return self.root / "service.lock"

    @property
    def database(self) -> Path:
        return self.root / "queue.sqlite3"

    @property
    def token_file(self) -> Path:
        return self.root / "token"

    @property
    def pools_file(self) -> Path:
        """The pools that a service without `--pools` reads, if it is there."""
        return self.root.parent / "pools.yaml"

    @property
    def kept_pools_file(self) -> Path:
        """The last pools file that was valid."""
        return self.root / "pools.yaml"

    @property
    def jobs_dir(self) -> Path:
        return self.root / "jobs"

    def job(self, job_id: str) -> JobFolder:
        return JobFolder(self.jobs_dir / job_id)

    def make(self) -> None:
        make_folder(self.root)
        make_folder(self.jobs_dir)


def queue_home() -> QueueHome:
    """That of this user; nothing is made."""
    return QueueHome(state_home() / "queue")
