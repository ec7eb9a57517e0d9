"""`moor run`: a job from its file to its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from mooring.app import Result, Where
    from mooring.doctor import Diagnosis
    from mooring.model.plan import Plan
    from mooring.record import RunRecord
    from mooring.report.figures import Report
    from mooring.spec import TrainingJob

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
@click.option(
    "--fix",
    is_flag=True,
    help="Probe first, apply the doctor's remedies that the job can carry, then run.",
)
@click.option(
    "--probe",
    "probe_s",
    type=click.FloatRange(3, 3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --fix: how long the probe trains.",
)
@click.option(
    "--stacks/--no-stacks",
    default=True,
    show_default=True,
    help="Look at what trainers do with py-spy, where it is installed.",
)
def run(
    job_file: Path,
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    directory: Path | None,
    fix: bool,
    probe_s: float,
    stacks: bool,
) -> int:
    """Run a job on this machine until it ends, and report where the time went.

    Ctrl-C stops every member cleanly; a second Ctrl-C does not wait for them.

    With --fix the job is first run for some seconds and looked at as `moor doctor` does. The job
    file stays as it is; the report shows the speed before and after.
    """
    from mooring.app import choose_nodes
    from mooring.cli.console import console as make_console
    from mooring.spec import load_job

    job = load_job(job_file, overrides)
    where = choose_nodes(nodes, nic_mbps)
    console = make_console()
    if where.note:
        console.print(where.note, style="dim", soft_wrap=True)
    asked = _Asked(console, job_file, where, stacks)
    if not fix:
        return _report(console, _carry_out(asked, job, directory))
    return _with_probe(asked, job, directory, probe_s)


@dataclass(frozen=True)
class _Asked:
    """What stays the same for a probe and the run after it."""

    console: Console
    job_file: Path
    where: Where
    stacks: bool


def _carry_out(
    asked: _Asked,
    job: TrainingJob,
    directory: Path | None,
    on_start: Callable[[RunRecord], None] = lambda run: None,
    stop_when: Callable[[], str | None] = lambda: None,
) -> Result:
    from mooring.app import run_job
    from mooring.cli.live import LiveView

    console = asked.console

    def told(plan: Plan) -> None:
        for note in plan.notes:
            console.print(f"· {note}", style="dim", soft_wrap=True, markup=False)

    with LiveView(console) as live:

        def started(run: RunRecord) -> None:
            live.start(run)
            on_start(run)

        result = run_job(
            job,
            job_dir=asked.job_file.absolute().parent,
            where=asked.where,
            directory=directory,
            source=str(asked.job_file),
            on_plan=told,
            on_start=started,
            on_tick=live.tick,
            stop_when=stop_when,
            stacks=asked.stacks,
        )
        live.draw()
    return result


def _with_probe(asked: _Asked, job: TrainingJob, directory: Path | None, probe_s: float) -> int:
    from mooring.app import Refused
    from mooring.doctor.probing import PROBED, Enough, after_probe, keep
    from mooring.report.finish import write_report

    console = asked.console
    enough = Enough(probe_s)
    result = _carry_out(asked, job, None, enough.watch, enough)
    if result.reason != PROBED:
        # It ended, failed or was interrupted before the probe was over: this was the run.
        if result.phase.value == "Succeeded":
            console.print("the job ended within the probe: nothing was changed", style="dim")
        return _report(console, result)
    write_report(result.run)
    probed = after_probe(result.run)
    _tell(console, probed.diagnosis, probed.patch)
    try:
        result = _carry_out(asked, probed.job, directory, lambda run: keep(probed, run))
    except Refused as refused:
        # More CPUs, memory or members were wanted than there are: as it was, it had a place.
        console.print(f"the changed job has no place ({refused}): it runs as it was", markup=False)
        result = _carry_out(asked, job, directory)
    return _report(console, result)


def _tell(console: Console, diagnosis: Diagnosis, patch: str) -> None:
    for finding in diagnosis.findings:
        console.print(f"{finding.id}: {finding.found.says}", markup=False, soft_wrap=True)
    if patch:
        console.print(patch.rstrip(), markup=False, soft_wrap=True)
    else:
        console.print("no remedy that the job can carry: it runs as it is", style="dim")


def _report(console: Console, result: Result) -> int:
    from mooring.model.status import Phase
    from mooring.report import text
    from mooring.report.finish import write_report

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
