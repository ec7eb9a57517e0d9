"""moor import: manifests of other operators become job files."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from mooring.cli.say import emit, say


@click.command("import")
@click.argument(
    "manifests",
    metavar="MANIFEST.yaml...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write the jobs here."
)
@click.option(
    "--report",
    "style",
    type=click.Choice(["text", "json", "markdown", "none"]),
    default="text",
    show_default=True,
    help="How to list, on standard error, what became of each field.",
)
@click.option(
    "--drop",
    "drops",
    multiple=True,
    metavar="FIELD",
    help="Lose this field, a path as the report prints it; * is any one part. Repeatable.",
)
@click.option(
    "--skip",
    multiple=True,
    metavar="KIND",
    help="Leave documents of this kind (ConfigMap, ...) out. Repeatable.",
)
@click.option(
    "--entrypoint",
    metavar="COMMAND",
    default="",
    help="What the images run where the manifest names no command.",
)
@click.option("--name", metavar="NAME", help="The job's name instead of the manifest's.")
def import_(
    manifests: tuple[Path, ...],
    output: Path | None,
    style: str,
    drops: tuple[str, ...],
    skip: tuple[str, ...],
    entrypoint: str,
    name: str | None,
) -> int:
    """Turn manifests of other operators into jobs.

    The jobs go to standard output, and to standard error a list of what became of each field. A
    field that cannot be kept is an error (exit code 2) unless --drop names it. A file may hold
    several documents; - is standard input.
    """
    from mooring.importers import import_manifests, problems_of, render
    from mooring.model.errors import BadInput
    from mooring.spec.source import name_of, read_text

    try:
        program = shlex.split(entrypoint)
    except ValueError as error:
        raise BadInput.at(
            "moor import", "--entrypoint", f"{entrypoint!r} ({error})", "a command"
        ) from None
    texts = [
        ("stdin", sys.stdin.read()) if str(path) == "-" else (name_of(path), read_text(path))
        for path in manifests
    ]
    results = import_manifests(texts, drops=drops, skip=skip, entrypoint=program, name=name)
    say(render(results, style), err=True, nl=False)
    problems = problems_of(results)
    for refused in problems:
        for problem in refused.problems:
            say(f"{refused.source}: {problem}", err=True)
    if problems:
        return 2
    text = "---\n".join(one.text or "" for one in results)
    if output is None:
        emit(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
    return 0
