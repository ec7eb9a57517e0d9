"""`moor simulate`: a workload on a cluster that is only described, in virtual time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import nodes as node_options
from mooring.cli import options
from mooring.cli.say import emit, say

if TYPE_CHECKING:
    from mooring.brain.profile import Profile
    from mooring.planning import Cluster
    from mooring.simulate.run import Simulated
    from mooring.simulate.workload import Workload

GENERATED = "generated"
_DEFAULT_SEED = 1
_DEFAULT_JOBS = 1000


@click.command()
@click.argument("workload", metavar="WORKLOAD", type=click.Path(path_type=Path))
@click.option(
    "--cluster",
    "cluster_file",
    metavar="CLUSTER.yaml",
    type=click.Path(path_type=Path),
    required=True,
    help="The nodes.",
)
@click.option(
    "--profile",
    metavar="P",
    help="The rules and weights: a file, or default, packed, roomy or full.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="P1 P2",
    help="Simulate under two profiles and set them side by side.",
)
@options.output("table", "json", "html")
@click.option(
    "--file",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write it there instead of printing it.",
)
@click.option(
    "--round",
    "round_s",
    type=click.FloatRange(0.0, 3600.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often the scheduler decides at most.",
)
@click.option("--seed", type=click.IntRange(0), help="Of a generated workload.  [default: 1]")
@click.option(
    "--jobs", type=click.IntRange(1, 1_000_000), help="Of a generated workload.  [default: 1000]"
)
@click.option(
    "--load",
    type=click.FloatRange(0.01, 10.0),
    help="Of a generated workload: the part of the scarcest resource that it asks for.  "
    "[default: 0.8]",
)
def simulate(
    workload: Path,
    cluster_file: Path,
    profile: str | None,
    compare: tuple[str, str] | None,
    output: str,
    target: Path | None,
    round_s: float,
    seed: int | None,
    jobs: int | None,
    load: float | None,
) -> int:
    """Run a workload in virtual time and show what becomes of it.

    WORKLOAD is a YAML or CSV file of jobs, or the word `generated` for one made out of a seed in
    the shapes of published cluster traces. Queue, pools and placement are those that run for real.
    """
    from mooring.model.errors import BadInput
    from mooring.simulate import report
    from mooring.simulate.profiles import read_profile
    from mooring.simulate.workload import WorkloadPool

    if profile is not None and compare:
        raise BadInput.at("moor simulate", "--profile", "--compare as well", "one of the two")
    if target is not None and not target.absolute().parent.is_dir():
        raise BadInput.at("moor simulate", "--file", str(target), "a file in a folder that exists")
    cluster = node_options.described(cluster_file)
    pools = [WorkloadPool(one.name, one.guaranteed, one.cap, one.weight) for one in cluster.pools]
    made = _workload(workload, cluster, seed, jobs, load).on(pools)
    option = "--compare" if compare else "--profile"
    readings = [read_profile(name, option) for name in compare or (profile or "default",)]
    for note in dict.fromkeys(note for reading in readings for note in reading.notes):
        say(f"note: {note}", err=True)
    profiles = [reading.profile for reading in readings]
    results = [_simulated(made, cluster, one, round_s) for one in profiles]
    if output == "table" and target is None:
        from mooring.cli.console import console

        console().print(report.table(results, made.source))
    elif output == "table":
        from mooring.cli.console import console

        assert target is not None
        with target.open("w", encoding="utf-8") as file:
            console(file).print(report.table(results, made.source))
    else:
        write = report.document if output == "json" else report.page
        text = write(results, made.source)
        if target is None:
            emit(text)
        else:
            target.write_text(text + "\n", encoding="utf-8")
    if target is not None:
        say(f"wrote {target}", err=True)
    return 0


def _workload(
    path: Path, cluster: Cluster, seed: int | None, jobs: int | None, load: float | None
) -> Workload:
    from mooring.model.errors import BadInput
    from mooring.model.resources import Resources
    from mooring.simulate.generate import Shape, generate
    from mooring.simulate.trace import load_workload

    if str(path) != GENERATED:
        for name, value in (("--seed", seed), ("--jobs", jobs), ("--load", load)):
            if value is not None:
                accepted = f"only with the workload `{GENERATED}`"
                raise BadInput.at("moor simulate", name, str(value), accepted)
        return load_workload(path, cluster.classes)
    nodes = cluster.snapshot.nodes
    total = Resources(
        sum(node.cpu_millis for node in nodes),
        sum(node.memory_bytes for node in nodes),
        sum(node.capacity.gpus for node in nodes),
    )
    # A member that needs one of each must find one node with all of it.
    largest = max((node.capacity for node in nodes), key=lambda one: (one.gpus, one.cpu_millis))
    shape = Shape() if load is None else Shape(load=load)
    return generate(
        _DEFAULT_SEED if seed is None else seed,
        _DEFAULT_JOBS if jobs is None else jobs,
        total,
        largest,
        shape,
    )


def _simulated(workload: Workload, cluster: Cluster, profile: Profile, round_s: float) -> Simulated:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from mooring.cli.console import console
    from mooring.model.amounts import duration
    from mooring.simulate.run import simulate as run
    from mooring.simulate.schedule import QueueScheduler

    nodes = cluster.snapshot.nodes
    scheduler = QueueScheduler(
        nodes, workload.all_pools(), profile, workload.source, cluster.groups
    )
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[day]}", markup=False),
        console=console(err=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(f"simulating {profile.name}", total=len(workload.jobs), day="")

        def progress(ended: int, now_s: float) -> None:
            bar.update(task, completed=ended, day=duration(now_s))

        return run(workload, nodes, scheduler, profile.name, progress, round_s)
