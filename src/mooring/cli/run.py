"""`moor run`: a job from its file to its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from mooring.app import Result, Where
    from mooring.cli.live import Shown
    from mooring.doctor import Diagnosis
    from mooring.model.plan import Plan
    from mooring.record import RunRecord
    from mooring.record.logs import LogLine
    from mooring.spec import TrainingJob


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
@click.option(
    "--detach",
    "-d",
    is_flag=True,
    help="Return once the job has started; it goes on by itself, also after a logout.",
)
@options.shown
def run(
    job_file: Path,
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    directory: Path | None,
    fix: bool,
    probe_s: float,
    stacks: bool,
    detach: bool,
    quiet: bool,
    only: tuple[str, ...],
) -> int:
    """Run a job on this machine until it ends, and report where the time went.

    What members print is shown as they print it, `!` marking standard error; `moor logs` has all
    of it, also where there was too much to show.

    Ctrl-C stops every member cleanly; a second Ctrl-C does not wait for them.

    With --fix the job is first run for some seconds and looked at as `moor doctor` does. The job
    file stays as it is; the report shows the speed before and after.

    With --detach, `moor attach` shows the run until it ends, `moor stop` stops it.
    """
    from mooring.app import choose_nodes
    from mooring.cli.console import console as make_console
    from mooring.cli.live import Shown
    from mooring.spec import load_job

    job = load_job(job_file, overrides)
    shown = Shown(quiet=quiet, only=_members_meant(job, str(job_file), only))
    where = choose_nodes(nodes, nic_mbps)
    console = make_console()
    if where.note and not quiet:
        console.print(where.note, style="dim", soft_wrap=True)
    asked = _Asked(console, job_file, where, stacks, shown)
    if detach:
        from mooring.cli.console import plain_console
        from mooring.cli.detach import Parent, divide

        side = divide()
        if isinstance(side, Parent):
            return side.wait(console, quiet=quiet, probe=fix)
        shown = replace(shown, lines=False)
        asked = replace(asked, console=plain_console(), shown=shown, on_start=side.started)
    if not fix:
        return _report(asked, _carry_out(asked, job, directory))
    return _with_probe(asked, job, directory, probe_s)


def _members_meant(job: TrainingJob, source: str, only: tuple[str, ...]) -> tuple[str, ...]:
    """`--only` checked before anything starts."""
    if not only:
        return ()
    from mooring import frameworks
    from mooring.cli.member_names import choose_members

    members = [member.name for member in frameworks.expand(job, source).members]
    return tuple(choose_members(members, only, "moor run", "--only"))


@dataclass(frozen=True)
class _Asked:
    """What stays the same for a probe and the run after it."""

    console: Console
    job_file: Path
    where: Where
    stacks: bool
    shown: Shown
    on_start: Callable[[RunRecord], None] = lambda run: None


@dataclass(frozen=True)
class _Ended:
    """A run that has ended, and whether given lines of it stand on the screen just above."""

    result: Result
    showed: Callable[[Sequence[LogLine]], bool]


def _carry_out(
    asked: _Asked,
    job: TrainingJob,
    directory: Path | None,
    on_start: Callable[[RunRecord], None] = lambda run: None,
    stop_when: Callable[[], str | None] = lambda: None,
) -> _Ended:
    from mooring.app import run_job
    from mooring.cli.live import Viewer

    console = asked.console

    def told(plan: Plan) -> None:
        if asked.shown.quiet:
            return
        for note in plan.notes:
            console.print(f"· {note}", style="dim", soft_wrap=True, markup=False)

    with Viewer(console, asked.shown) as viewer:

        def started(run: RunRecord) -> None:
            asked.on_start(run)
            viewer.start(run)
            on_start(run)

        result = run_job(
            job,
            job_dir=asked.job_file.absolute().parent,
            where=asked.where,
            directory=directory,
            source=str(asked.job_file),
            on_plan=told,
            on_start=started,
            stop_when=stop_when,
            stacks=asked.stacks,
        )
    return _Ended(result, viewer.showed)


def _with_probe(asked: _Asked, job: TrainingJob, directory: Path | None, probe_s: float) -> int:
    from mooring.app import Refused
    from mooring.doctor.probing import PROBED, Enough, after_probe, keep
    from mooring.report.finish import write_report

    console = asked.console
    enough = Enough(probe_s)
    ended = _carry_out(asked, job, None, enough.watch, enough)
    result = ended.result
    if result.reason != PROBED:
        # It ended, failed or was interrupted before the probe was over: this was the run.
        if result.phase.value == "Succeeded" and not asked.shown.quiet:
            console.print("the job ended within the probe: nothing was changed", style="dim")
        return _report(asked, ended)
    write_report(result.run)
    probed = after_probe(result.run)
    if not asked.shown.quiet:
        _tell(console, probed.diagnosis, probed.patch)
    try:
        ended = _carry_out(asked, probed.job, directory, lambda run: keep(probed, run))
    except Refused as refused:
        # More CPUs, memory or members were wanted than there are: as it was, it had a place.
        console.print(f"the changed job has no place ({refused}): it runs as it was", markup=False)
        ended = _carry_out(asked, job, directory)
    return _report(asked, ended)


def _tell(console: Console, diagnosis: Diagnosis, patch: str) -> None:
    for finding in diagnosis.findings:
        console.print(f"{finding.id}: {finding.found.says}", markup=False, soft_wrap=True)
    if patch:
        console.print(patch.rstrip(), markup=False, soft_wrap=True)
    else:
        console.print("no remedy that the job can carry: it runs as it is", style="dim")


def _report(asked: _Asked, ended: _Ended) -> int:
    from mooring.cli.ending import tell_end
    from mooring.report.finish import write_report

    run = ended.result.run
    figures = write_report(run)
    return tell_end(asked.console, run, figures, quiet=asked.shown.quiet, showed=ended.showed)
