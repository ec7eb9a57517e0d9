"""`moor run`: a job from its file to its report."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.cli import options

_EXIT_INTERRUPTED = 130


@click.command()
@options.job_file
@options.overrides
@options.where
@click.option(
    "-o",
    "--output",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep the run in this new or empty folder.",
)
def run(
    job_file: Path,
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    directory: Path | None,
) -> int:
    """Run a job on this machine until it ends, and report where the time went.

    Ctrl-C stops every member cleanly; a second Ctrl-C does not wait for them.
    """
    from mooring.app import choose_nodes, run_job
    from mooring.cli.console import console as make_console
    from mooring.cli.live import LiveView
    from mooring.model.status import Phase
    from mooring.report import text
    from mooring.report.finish import write_report
    from mooring.spec import load_job

    job = load_job(job_file, overrides)
    where = choose_nodes(nodes, nic_mbps)
    console = make_console()
    if where.note:
        console.print(where.note, style="dim", soft_wrap=True)
    with LiveView(console) as live:
        result = run_job(
            job,
            job_dir=job_file.absolute().parent,
            where=where,
            directory=directory,
            source=str(job_file),
            on_start=live.start,
            on_tick=live.tick,
        )
        live.draw()
    figures = write_report(result.run)
    console.print(text.report(figures))
    console.print(f"run directory: {result.run.root}", style="dim", soft_wrap=True)
    if result.phase is Phase.SUCCEEDED:
        return 0
    return _EXIT_INTERRUPTED if result.phase is Phase.STOPPED else 1
