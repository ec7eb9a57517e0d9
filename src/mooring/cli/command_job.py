"""`moor run -- python train.py`: a job from a command and some options, without a job file."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from mooring.cli.run_command import FIELDS, SOURCE, CommandOptions

if TYPE_CHECKING:
    from mooring.model.errors import Problem
    from mooring.spec import TrainingJob

_LONGEST_NAME = 40


@dataclass(frozen=True)
class CommandJob:
    """The job that a command line asks for, and the folder that its paths are relative to."""

    job: TrainingJob
    folder: Path
    note: str
    """Which framework it is, and why."""
    text: str
    """The job file that `--save` writes."""


def job_of_command(
    command: Sequence[str],
    options: CommandOptions,
    overrides: Sequence[str],
    variables: Mapping[str, str],
) -> CommandJob:
    """The job of a command, run in the current folder. Raises BadInput."""
    from mooring import frameworks
    from mooring.model.errors import BadInput
    from mooring.spec import parse_job
    from mooring.spec.write import dump_yaml

    here = Path.cwd()
    _check_program(command, here)
    framework, reason = _framework(tuple(command), options, here)
    folder = _check_save(options.save) if options.save is not None else here
    spec = _spec(command, options, framework)
    if variables:
        spec["env"] = dict(variables)
    if folder != here:
        spec["workingDir"] = os.path.relpath(here, folder)
    document = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": options.name or _name(tuple(command))},
        "spec": spec,
    }
    try:
        job = parse_job(dump_yaml(document), SOURCE, overrides)
        frameworks.expand(job, SOURCE)
    except BadInput as error:
        raise BadInput(SOURCE, [_by_option(each) for each in error.problems]) from None
    used = job.spec.framework
    note = f"framework: {used} ({reason if used == framework else '--set'})"
    return CommandJob(job, folder, note, _file_text(job, command, options, reason))


def save(path: Path, text: str) -> str:
    """Write the job file; what to say about it. Never over a file that is there."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        return f"{path} was not written: {error.strerror}"
    return f"wrote {path}"


def _check_save(path: Path) -> Path:
    from mooring.model.errors import BadInput

    folder = path.absolute().parent
    if path.exists() or path.is_symlink():
        raise BadInput.at(SOURCE, "--save", f"{path}, which exists", "a new file")
    if not os.access(folder, os.W_OK):
        raise BadInput.at(SOURCE, "--save", str(path), "a file in a folder that you may write to")
    return folder


def _check_program(command: Sequence[str], here: Path) -> None:
    from mooring.frameworks.commands import python_command
    from mooring.model.errors import BadInput

    first = command[0]
    if first.endswith(".py") and not os.access(here / first, os.X_OK):
        line = shlex.join(["moor", "run", "--", "python", *command])
        raise BadInput.at(SOURCE, "COMMAND", f"{first!r}, which is no program", f"{line}")
    if first.endswith(".py") and "/" not in first:
        raise BadInput.at(SOURCE, "COMMAND", repr(first), f"python {first}, or ./{first}")
    python = python_command(command)
    if python is not None and python.script and not (here / python.script).exists():
        found = f"{python.script!r}, which is not in {here}"
        raise BadInput.at(SOURCE, "COMMAND", found, "a script that exists")


def _framework(command: tuple[str, ...], options: CommandOptions, here: Path) -> tuple[str, str]:
    """The framework and why it is that one."""
    from mooring.backends.local.sources import imports_of, scan
    from mooring.frameworks.commands import python_command
    from mooring.frameworks.engines import framework_of_imports, framework_of_program
    from mooring.frameworks.imports import Imports
    from mooring.model.errors import BadInput

    if options.framework is not None:
        if options.ps is not None and options.framework != "tensorflow":
            found = f"{options.ps} with framework {options.framework}"
            raise BadInput.at(SOURCE, "--ps", found, "it only with framework tensorflow")
        return options.framework, "--framework"
    if options.ps is not None:
        return "tensorflow", "--ps"
    first = PurePosixPath(command[0]).name
    if (by_program := framework_of_program(first)) is not None:
        return by_program, f"the command is {first}"
    words = ("python", *command) if command[0].endswith(".py") else command
    python = python_command(words)
    if python is None:
        return "indexed", "each worker is told its index and the count"
    imports = imports_of(python, here, follow=False) or Imports()
    # Through modules of its own it is enough that an engine is named.
    indirect = Imports(sometimes=scan(python, here).names)
    found_by = framework_of_imports(imports) or framework_of_imports(indirect)
    if found_by is None:
        return "indexed", f"{python.said} imports no engine"
    return found_by[0], f"{python.said} imports {found_by[1]}"


def _spec(command: Sequence[str], options: CommandOptions, framework: str) -> dict[str, Any]:
    from mooring.frameworks.commands import RANK_STARTERS

    asked = {"cpu": options.cpus, "memory": options.memory, "gpu": options.gpus}
    resources = {name: _number(value) for name, value in asked.items() if value is not None}
    worker: dict[str, Any] = {"replicas": options.workers or 1}
    if options.processes is not None:
        worker["processes"] = options.processes
    if resources:
        worker["resources"] = resources
    spec: dict[str, Any] = {"framework": framework}
    if framework == "mpi":
        starts_ranks = PurePosixPath(command[0]).name in RANK_STARTERS
        words = list(command) if starts_ranks else ["mpirun", *command]
        return {**spec, "roles": {"launcher": {"command": words}, "worker": worker}}
    if framework == "tensorflow":
        spec["strategy"] = "all-reduce" if options.ps is None else "parameter-server"
    spec["command"] = list(command)
    servers = {} if options.ps is None else {"chief": {}, "ps": {"replicas": options.ps}}
    return {**spec, "roles": {**servers, "worker": worker}}


def _number(text: str) -> int | float | str:
    """As YAML reads it: `2` is a number, `500m` a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _name(command: tuple[str, ...]) -> str:
    from mooring.backends.local.programs import program_name

    plain = re.sub(r"[^a-z0-9]+", "-", program_name(command).lower()).strip("-")
    named = plain if plain[:1].isalpha() else f"job-{plain}".strip("-")
    return named[:_LONGEST_NAME].rstrip("-")


def _by_option(problem: Problem) -> Problem:
    """A problem at the option that led to it: there is no file with a line."""
    options = {f"spec.{path}": f"--{name}" for name, path in FIELDS.items()}
    options["metadata.name"] = "--name"
    return replace(problem, path=options.get(problem.path, problem.path), line=None)


def _file_text(
    job: TrainingJob, command: Sequence[str], options: CommandOptions, reason: str
) -> str:
    """A job file that loads to `job`, with what its reader may want to change in comments."""
    from mooring.spec import parse_job
    from mooring.spec.document import parse_document

    text = job.to_yaml()
    lines = text.splitlines()
    comments: dict[tuple[str | int, ...], str] = {
        ("spec", "framework"): "" if reason.startswith("--") else reason,
        ("spec", "roles", "worker", "replicas"): "members; each may be on a machine of its own",
        ("spec", "roles", "worker", "processes"): "processes (ranks) in each member",
    }
    places = parse_document(text, SOURCE).lines
    for path, comment in comments.items():
        if path in places and comment and comment.isprintable():
            lines[places[path] - 1] += f"    # {comment}"
    name = options.save.name if options.save is not None else "job.yaml"
    given = [(name, getattr(options, name)) for name in FIELDS]
    words = [word for name, value in given if value is not None for word in (f"--{name}", value)]
    line = shlex.join(["moor", "run", *map(str, words), "--", *command])
    head = [f"# Made from: {line}"] if line.isprintable() else []
    head.append(f"# Check it: moor validate {name}. Run it: moor run {name}")
    tail = ["  # timeLimit: 10m", "  # failurePolicy: {restart: gang, maxRestarts: 2}"]
    commented = "\n".join([*head, *lines, *tail]) + "\n"
    return commented if parse_job(commented, SOURCE) == job else text
