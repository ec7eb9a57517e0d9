"""`moor rerun`: a run once more, and what is different now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.env_options import EnvOptions, env_options, with_env

if TYPE_CHECKING:
    from mooring.record import RunRecord
    from mooring.record.start import Start
    from mooring.spec import TrainingJob


@click.command()
@options.last_run_name
@options.overrides
@options.where
@options.run_folder
@options.stacks
@options.detach
@options.shown
@env_options
def rerun(
    run: str,
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    directory: Path | None,
    stacks: bool,
    detach: bool,
    quiet: bool,
    only: tuple[str, ...],
    environment: EnvOptions,
) -> int:
    """Run the job of a run (by default the last) once more, in its folder and with its Python.

    Files that the job copies are those of that run; other scripts are taken as they are now.
    What is different is said: scripts that have changed, variables that are not set any more.
    """
    from mooring.app import choose_nodes
    from mooring.cli.run import JobStart, Origin, start_job
    from mooring.cli.run_names import find_run
    from mooring.record.start import changes_since, read_start
    from mooring.spec import load_job

    old = find_run(run)
    before = read_start(old)
    job = with_env(load_job(old.job_file, overrides), environment.of_job())
    folder = _folder(old, before, job)
    assert before is not None
    if nodes is None and old.info.virtual_nodes:
        nodes = str(old.info.virtual_nodes)
        nic_mbps = nic_mbps or before.nic_mbps
    files = [Path(name) for name in before.env_files]
    given = environment.given(job, old, tuple(path for path in files if path.exists()))
    changes = [f"{path} is gone" for path in files if not path.exists()]
    copied = bool(job.spec.files) and old.files_dir.is_dir()
    inherited = {**os.environ, **given.variables}
    changes += changes_since(before, inherited, with_programs=not copied)
    head = f"the job of {old.info.id} once more, in {folder}"
    notes = (head, *(f"changed since: {change}" for change in changes))

    def python_changes(new: RunRecord) -> list[str]:
        now = read_start(new)
        if now is None or not before.python or now.python_said == before.python_said:
            return []
        return [f"changed since: python was {before.python_said}, is {now.python_said}"]

    origin = Origin(folder, f"rerun of {old.info.id}", notes)
    where = choose_nodes(nodes, nic_mbps)
    start = JobStart(job, origin, where, given, stacks, directory, python_changes)
    return start_job(start, quiet=quiet, only=only, detach=detach)


def _folder(run: RunRecord, start: Start | None, job: TrainingJob) -> Path:
    """The folder that the job's paths are relative to. Raises BadInput if it is gone and needed."""
    from mooring.model.errors import BadInput

    if start is None:
        accepted = f"a later run; or: moor run {run.job_file}"
        found = "a run that does not say where it was started"
        raise BadInput.at("moor rerun", f"RUN {run.info.id}", found, accepted)
    folder = Path(start.folder)
    # A job whose files were all copied runs in the copies.
    needed = not job.spec.files or job.spec.working_dir or not run.files_dir.is_dir()
    if needed and not folder.is_dir():
        found = f"{folder}, where it ran, is gone"
        raise BadInput.at("moor rerun", f"RUN {run.info.id}", found, "a folder that exists")
    return folder
