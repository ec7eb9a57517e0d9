"""What a run needs before it is placed: folders, files, the environment, and its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from mooring.backends.local import staging
from mooring.backends.local.inherited import kept_names, kept_values
from mooring.backends.local.programs import Programs, look_at
from mooring.model.member import Gang
from mooring.record import RunRecord
from mooring.record.start import Start, read_start
from mooring.spec import TrainingJob


@dataclass(frozen=True)
class Given:
    """What a user gives beside the job.

    variables: of `--env-file`: members inherit them, and nowhere are they written down;
    again: the run that is repeated, with its interpreter and its copies of `files`;
    check: whether to look first for what the programs import;
    environment: what members inherit in place of this process's own variables;
    files_dir: where copies of the job's `files` were put when it was submitted.
    """

    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    env_files: tuple[str, ...] = ()
    again: RunRecord | None = None
    check: bool = True
    environment: Mapping[str, str] | None = None
    files_dir: Path | None = None


@dataclass(frozen=True)
class Prepared:
    """A job as this machine finds it. `copies` are its files, to be taken from `files_dir`."""

    job_dir: Path
    working_dir: Path
    files_dir: Path
    copies: Sequence[str]
    inherited: Mapping[str, str]
    programs: Programs
    given: Given

    def start(self, nic_mbps: int | None) -> Start:
        """What the run's record keeps of it."""
        python = self.programs.interpreter
        return Start(
            folder=str(self.job_dir.absolute()),
            nic_mbps=nic_mbps,
            python=python.path if python is not None else "",
            python_version=python.version if python is not None else "",
            python_origin=python.origin if python is not None else "",
            hashes=self.programs.hashes,
            env_files=self.given.env_files,
            names=tuple(kept_names(self.inherited, self.given.variables, self.programs.texts)),
            values=kept_values(self.inherited),
        )


def prepare(
    job: TrainingJob, gang: Gang, job_dir: Path, given: Given, source: str = "job"
) -> Prepared:
    """Look at all of it. Raises BadInput, or NotInstalled if a program is certain to fail."""
    files_dir = staging.files_dir(job, given.files_dir or job_dir, given.again)
    # Without a folder of its own a job with files runs in their copies.
    working_dir = staging.working_dir(job, job_dir if job.spec.working_dir else files_dir, source)
    copies = staging.check_files(job, files_dir, source)
    around = os.environ if given.environment is None else given.environment
    inherited = {**around, **given.variables}
    before = read_start(given.again) if given.again is not None else None
    programs = look_at(
        job,
        gang,
        job_dir=job_dir,
        working_dir=working_dir,
        inherited=inherited,
        source=source,
        again=before.python if before is not None else "",
    )
    if given.check:
        programs.check()
    return Prepared(job_dir, working_dir, files_dir, copies, inherited, programs, given)
