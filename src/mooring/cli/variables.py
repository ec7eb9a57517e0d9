"""moor variables: where a model's variables are, what they move, and where they would be better."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.say import emit_json

if TYPE_CHECKING:
    from mooring.variables import Facts


@click.command()
@click.argument("source", metavar="RUN|PATH", shell_complete=options.complete_run)
@click.option(
    "--servers",
    type=click.IntRange(1, 10_000),
    default=2,
    show_default=True,
    help="For a checkpoint or SavedModel: how many servers there would be.",
)
@options.output("table", "json")
def variables(source: str, servers: int, output: str) -> None:
    """Show which variable lives on which parameter server, and what it moves in a step.

    RUN is a TensorFlow run with parameter servers, or a PyTorch run with tables divided over its
    ranks; PATH a checkpoint, a SavedModel or a timeline.json of TensorFlow. The same variables are
    shown under round-robin, balanced and partitioned placement.
    """
    from mooring.variables import compare

    found = compare(_read(source, servers))
    if output == "json":
        emit_json(asdict(found))
        return
    from mooring.cli.console import console
    from mooring.variables.text import render

    console().print(render(found))


def _read(source: str, servers: int) -> Facts:
    from mooring.cli.run_names import find_run
    from mooring.variables import from_files, from_run, from_timeline

    path = Path(source)
    prefix = from_files.prefix_of(path)
    if prefix is not None:
        return from_files.read_checkpoint(prefix, servers)
    if path.suffix == ".json" and path.is_file():
        return from_timeline.read_timeline(path)
    return from_run.read_run(find_run(source))
