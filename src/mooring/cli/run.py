"""`moor run`: a job from its file to its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from mooring.model.plan import Plan
    from mooring.record import RunRecord
    from mooring.report.figures import Report

_EXIT_INTERRUPTED = 130


#: Enough for a Python traceback's end; the rest is in `moor logs`.
_LAST_LINES = 15


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

    def told(plan: Plan) -> None:
        for note in plan.notes:
            console.print(f"· {note}", style="dim", soft_wrap=True, markup=False)

    with LiveView(console) as live:
        result = run_job(
            job,
            job_dir=job_file.absolute().parent,
            where=where,
            directory=directory,
            source=str(job_file),
            on_plan=told,
            on_start=live.start,
            on_tick=live.tick,
        )
        live.draw()
    figures = write_report(result.run)
    if result.phase is Phase.FAILED:
        _last_words(console, result.run, figures)
    console.print(text.report(figures))
    console.print(f"run directory: {result.run.root}", style="dim", soft_wrap=True)
    if result.phase is Phase.SUCCEEDED:
        return 0
    return _EXIT_INTERRUPTED if result.phase is Phase.STOPPED else 1


def _last_words(console: Console, run: RunRecord, figures: Report) -> None:
    """What the first member that failed printed last: most often the answer to why."""
    from mooring.record.logs import read_log

    failed = next((member for member in figures.members if member.state == "failed"), None)
    if failed is None:
        return
    lines = list(read_log(run.log_file(failed.member), failed.member, _LAST_LINES))
    if lines:
        console.print(f"{failed.member} printed last:", style="bold")
        for line in lines:
            console.print(f"  {line.text}", markup=False, soft_wrap=True)
        console.print()
