"""The words after `--` of `moor run`, and the options that stand for a job file there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

Function = TypeVar("Function", bound=Callable[..., object])

SOURCE = "moor run"
_INTERPRETERS = {".py": "python", ".sh": "sh"}
#: A script's first line, and the formats of Linux and macOS.
_PROGRAMS_BEGIN = (b"#!", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_JOB_FILES = (".yaml", ".yml", ".json")


class RunCommand(click.Command):
    """Takes the words after `--` as the `command`, untouched, and sees who forgot the `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        command: tuple[str, ...] = ()
        if "--" in args:
            at = args.index("--")
            args, command = args[:at], tuple(args[at + 1 :])
            if not command and not ctx.resilient_parsing:
                raise click.UsageError("There is no command after '--'.", ctx)
        elif not ctx.resilient_parsing:
            # A shell that completes a line parses what is not finished yet.
            # A word that is no possible path is no program: the job file's reader refuses it.
            with suppress(OSError):
                self._refuse_program(ctx, args)
        rest = super().parse_args(ctx, args)
        ctx.params["command"] = command
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options that stand for a job file have a section of their own."""
        own = {field.name for field in fields(CommandOptions)}
        with_file: list[tuple[str, str]] = []
        without: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                (without if param.name in own else with_file).append(record)
        with formatter.section("Options"):
            formatter.write_dl(with_file)
        with formatter.section("Without a job file"):
            formatter.write_dl(without)

    def _refuse_program(self, ctx: click.Context, args: list[str]) -> None:
        at = next(self._words(ctx, args), None)
        if at is None or Path(args[at]).suffix in _JOB_FILES or Path(args[at]).is_dir():
            return
        word, rest = args[at], args[at + 1 :]
        if _is_program(word) or (rest and not rest[0].startswith("-")):
            starter = _INTERPRETERS.get(Path(word).suffix)
            # Without a slash it would be looked for on the PATH.
            program = f"./{word}" if "/" not in word and Path(word).is_file() else word
            command = [starter, word] if starter else [program]
            line = shlex.join(["moor", "run", *args[:at], "--", *command, *rest])
            what = "a Python script" if word.endswith(".py") else "no job file"
            raise click.UsageError(f"{word!r} is {what}. To run a program: {line}", ctx)

    def _words(self, ctx: click.Context, args: list[str]) -> Iterator[int]:
        """The places of words that are neither options nor their values."""
        with_value = {
            name
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not param.is_flag and not param.count
            for name in (*param.opts, *param.secondary_opts)
        }
        is_value = False
        for at, word in enumerate(args):
            if is_value:
                is_value = False
            elif word.startswith("-"):
                is_value = word in with_value
            else:
                yield at


def _is_program(word: str) -> bool:
    """A script by its name, or what the kernel would run."""
    if Path(word).suffix in _INTERPRETERS:
        return True
    try:
        with Path(word).open("rb") as file:
            return file.read(4).startswith(_PROGRAMS_BEGIN)
    except (OSError, ValueError):
        return False


@dataclass(frozen=True)
class CommandOptions:
    """What is said of a command that has no job file; None: nothing."""

    workers: int | None = None
    framework: str | None = None
    processes: int | None = None
    ps: int | None = None
    cpus: str | None = None
    memory: str | None = None
    gpus: str | None = None
    name: str | None = None
    save: Path | None = None


#: Where each of them stands in a job file.
FIELDS = {
    "workers": "roles.worker.replicas",
    "framework": "framework",
    "processes": "roles.worker.processes",
    "ps": "roles.ps.replicas",
    "cpus": "roles.worker.resources.cpu",
    "memory": "roles.worker.resources.memory",
    "gpus": "roles.worker.resources.gpu",
    "name": "metadata.name",
}


def _complete_framework(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from mooring import frameworks

    return [CompletionItem(name) for name in frameworks.names() if name.startswith(incomplete)]


_OPTIONS = (
    click.option(
        "--workers",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="So many members run the command. Default: 1.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Processes (ranks) of each worker. Default: 1.",
    ),
    click.option(
        "--framework",
        metavar="NAME",
        shell_complete=_complete_framework,
        help="pytorch, tensorflow, mpi, indexed or another that is installed. Default: what the "
        "script imports.",
    ),
    click.option(
        "--ps",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="N parameter servers, and a chief (tensorflow).",
    ),
    click.option("--cpus", metavar="C", help="CPUs of each worker."),
    click.option("--memory", metavar="M", help="Memory of each worker, such as 4Gi."),
    click.option("--gpus", metavar="G", help="GPUs of each worker."),
    click.option("--name", metavar="NAME", help="What the job is called. Default: as its script."),
    click.option(
        "--save",
        type=click.Path(path_type=Path),
        metavar="JOB.yaml",
        help="Write the job that is run into this new file.",
    ),
)


def command_options(function: Function) -> Function:
    """Adds the options of a job without a file; the function gets them as `without_file`."""

    @wraps(function)
    def gathered(*args: Any, **values: Any) -> object:
        own = {field.name: values.pop(field.name) for field in fields(CommandOptions)}
        return function(*args, without_file=CommandOptions(**own), **values)

    decorated: Any = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def refuse_beside_file(options: CommandOptions) -> None:
    """With a job file these options would contradict it. Raises BadInput."""
    from mooring.model.errors import BadInput, Problem

    given = [each.name for each in fields(options) if getattr(options, each.name) is not None]
    problems = []
    for name in given:
        value = getattr(options, name)
        accepted = "a command after '--' instead of the file"
        if name in FIELDS:
            accepted = f"--set {FIELDS[name]}={value}, or {accepted}"
        problems.append(Problem(f"--{name}", f"{value} beside a job file", accepted))
    if problems:
        raise BadInput(SOURCE, problems)
