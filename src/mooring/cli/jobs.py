"""Commands about job files: init, validate, schema; and shell completion."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from mooring.cli import options
from mooring.cli.say import emit, say


def _complete_framework(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from mooring import frameworks

    return [CompletionItem(name) for name in frameworks.names() if name.startswith(incomplete)]


@click.command()
@click.argument(
    "framework", metavar="[FRAMEWORK]", default="tensorflow", shell_complete=_complete_framework
)
@click.option("--directory", "-d", type=click.Path(path_type=Path), default=Path(), help="Where.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def init(framework: str, directory: Path, force: bool) -> None:
    """Write a commented starter job and a training script that works."""
    from mooring import frameworks
    from mooring.model.errors import BadInput

    if framework not in frameworks.names():
        known = ", ".join(frameworks.names())
        raise BadInput.at("moor init", "FRAMEWORK", repr(framework), f"one of {known}")
    files = frameworks.starter_files(framework)
    if not files:
        raise BadInput.at(
            "moor init", "FRAMEWORK", f"{framework!r}, which has no starter", "another framework"
        )
    taken = [name for name in files if (directory / name).exists()]
    if taken and not force:
        raise BadInput.at(
            "moor init",
            str(directory / taken[0]),
            "a file that exists",
            "an empty place (-d FOLDER), or --force to overwrite",
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
        say(f"wrote {directory / name}")
    _say_what_is_missing(directory)
    say(f"next: moor run {directory / 'job.yaml'}")


def _say_what_is_missing(directory: Path) -> None:
    """What the starter imports and the Python that would run it does not have."""
    from mooring import frameworks
    from mooring.backends.local.programs import look_at
    from mooring.spec import load_job

    path = directory / "job.yaml"
    if not path.exists():
        return
    job = load_job(path)
    folder = directory.absolute()
    gang = frameworks.expand(job, str(path))
    programs = look_at(
        job, gang, job_dir=folder, working_dir=folder, inherited=os.environ, source=str(path)
    )
    if programs.missing:
        say(f"not installed: {programs.said_of_missing}")


@click.command()
@click.argument(
    "job_files", metavar="JOB.yaml...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options.overrides
def validate(job_files: tuple[Path, ...], overrides: tuple[str, ...]) -> int:
    """Check job files: every problem with its field, what was found, what is accepted."""
    from mooring import frameworks
    from mooring.cli.console import counted
    from mooring.model.errors import BadInput
    from mooring.spec import load_job

    code = 0
    for path in job_files:
        try:
            job = load_job(path, overrides)
            gang = frameworks.expand(job, str(path))
        except BadInput as error:
            code = 2
            for problem in error.problems:
                say(f"{error.source}: {problem}", err=True)
            continue
        counts = ", ".join(f"{role.replicas} {name}" for name, role in job.spec.roles.items())
        say(f"{path}: ok: {job.spec.framework}, {counts} ({counted(len(gang.members), 'member')})")
    return code


@click.command()
def schema() -> None:
    """Print the JSON schema of job files, for editors and other programs."""
    from mooring.spec.schema import job_schema

    emit(json.dumps(job_schema(), indent=2))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script: eval "$(moor completion bash)"."""
    from mooring.cli.main import cli

    script = get_completion_class(shell)
    assert script is not None
    emit(script(cli, {}, "moor", "_MOOR_COMPLETE").source())
