"""The job's working folder and its files, where local members find them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from mooring.model.errors import BadInput, RunFailed
from mooring.record import RunRecord
from mooring.record.private import make_folder
from mooring.spec import TrainingJob


def working_dir(job: TrainingJob, job_dir: Path, source: str) -> Path:
    folder = (job_dir / (job.spec.working_dir or ".")).resolve()
    if not folder.is_dir():
        raise BadInput.at(
            source, "spec.workingDir", f"{job.spec.working_dir!r}", "a folder that exists"
        )
    return folder


def files_dir(job: TrainingJob, job_dir: Path, again: RunRecord | None) -> Path:
    """Where the job's `files` are copied from: a run that is repeated kept them as they were."""
    if again is None or not job.spec.files or not again.files_dir.is_dir():
        return job_dir
    return again.files_dir


def check_files(job: TrainingJob, job_dir: Path, source: str) -> list[str]:
    for index, name in enumerate(job.spec.files):
        if not (job_dir / name).exists():
            raise BadInput.at(
                source,
                f"spec.files[{index}]",
                f"{name!r}, which does not exist",
                "a file or folder",
            )
    return list(job.spec.files)


def copy_files(names: Sequence[str], job_dir: Path, target: Path) -> None:
    try:
        make_folder(target)
        for name in names:
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if (job_dir / name).is_dir():
                shutil.copytree(job_dir / name, copy, dirs_exist_ok=True)
            else:
                shutil.copy2(job_dir / name, copy)
    except OSError as error:
        raise RunFailed(f"cannot copy the job's files: {error}") from error
