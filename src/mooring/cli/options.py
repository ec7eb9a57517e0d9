"""Options that several commands share, and completion of run names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., object])

job_file = click.argument("job_file", metavar="JOB.yaml", type=click.Path(path_type=Path))

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Override a field of the job, such as roles.worker.replicas=4. Repeatable.",
)


def where(command: Command) -> Command:
    """--nodes and --nic-mbps."""
    nodes = click.option(
        "--nodes",
        metavar="N|auto",
        help="Run on N virtual nodes (root on Linux); auto: if this machine allows it.",
    )
    nic = click.option(
        "--nic-mbps",
        type=click.IntRange(1, 1_000_000),
        metavar="M",
        help="Limit each virtual node's NIC to M Mbit/s both ways.",
    )
    return nodes(nic(command))


run_folder = click.option(
    "-o",
    "--output",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep the run in this new or empty folder.",
)
stacks = click.option(
    "--stacks/--no-stacks",
    default=True,
    show_default=True,
    help="Look at what programs do while they train: states, waits, lines.",
)
detach = click.option(
    "--detach",
    "-d",
    is_flag=True,
    help="Return once the job has started; it goes on by itself, also after a logout.",
)


def shown(command: Command) -> Command:
    """--quiet and --only."""
    quiet = click.option("--quiet", "-q", is_flag=True, help="Show only how it ended, and errors.")
    only = click.option(
        "--only",
        multiple=True,
        metavar="MEMBER",
        help="Show lines of this member or role only, such as worker-0. Repeatable.",
    )
    return quiet(only(command))


def complete_run(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from mooring.record import list_runs

    names = ["last", *(run.info.id for run in reversed(list_runs()))]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


run_name = click.argument("run", metavar="RUN", shell_complete=complete_run)
last_run_name = click.argument("run", metavar="[RUN]", default="last", shell_complete=complete_run)


def output(*formats: str) -> Callable[[Command], Command]:
    return click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print it.",
    )
