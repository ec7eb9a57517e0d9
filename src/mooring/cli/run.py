"""`moor run`: a job from its file to its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.backends.local.fork_server import ForkServer
from mooring.cli import options
from mooring.cli.env_options import EnvOptions, env_options, with_env
from mooring.cli.run_command import CommandOptions, RunCommand, command_options

if TYPE_CHECKING:
    from rich.console import Console

    from mooring.app import NodeChoice, Promised
    from mooring.backends.local.preparing import Given
    from mooring.backends.local.queue.turn import WaitingPlace
    from mooring.cli.viewer import ViewOptions
    from mooring.doctor import Diagnosis
    from mooring.doctor.probing import Compared, Probed
    from mooring.model.plan import Plan
    from mooring.queued_run import CarryOut
    from mooring.record import RunRecord
    from mooring.record.logs import LogLine
    from mooring.run_loop import RunEnd
    from mooring.spec import TrainingJob


@click.command(cls=RunCommand)
@click.argument(
    "job_file",
    metavar="[JOB.yaml | -- COMMAND...]",
    required=False,
    type=click.Path(path_type=Path),
)
@options.overrides
@options.where
@options.run_folder
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
    help="With --fix: how long the first probe trains; those that compare, half of it.",
)
@click.option(
    "--probes",
    "pairs",
    type=click.IntRange(0, 10),
    default=3,
    show_default=True,
    metavar="PAIRS",
    help="With --fix: pairs of probes, before and after in turns, that the gain is stated from. "
    "Fewer than 3 cannot show one; 0: none are made.",
)
@options.stacks
@options.detach
@options.shown
@command_options
@env_options
def run(
    job_file: Path | None,
    command: tuple[str, ...],
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    directory: Path | None,
    fix: bool,
    probe_s: float,
    pairs: int,
    stacks: bool,
    detach: bool,
    quiet: bool,
    only: tuple[str, ...],
    without_file: CommandOptions,
    environment: EnvOptions,
) -> int:
    """Run a job on this machine until it ends, and report where the time went.

    Without a job file: moor run --workers 2 -- python train.py

    What members print is shown as they print it, `!` marking standard error; `moor logs` has all
    of it, also where there was too much to show.

    Ctrl-C stops every member cleanly; a second Ctrl-C does not wait for them.

    With --fix the job is first run for some seconds and looked at as `moor doctor` does. If there
    are remedies, short probes with and without them say what they gain; a job that they make slower
    runs as it was. The job file stays as it is.

    With --detach, `moor attach` shows the run until it ends, `moor stop` stops it.
    """
    # First of all: it imports while this process does. One that goes on by itself makes its own.
    fork_server = None if detach else ForkServer.start()
    try:
        from mooring.app import choose_nodes

        job, origin = _job_of(job_file, command, overrides, without_file, environment)
        given, where = environment.given(job), choose_nodes(nodes, nic_mbps)
        start = JobStart(job, origin, where, given, stacks, directory, fork_server=fork_server)
        probing = Probing(probe_s, pairs) if fix else None
        return start_job(start, quiet=quiet, only=only, detach=detach, probing=probing)
    finally:
        if fork_server is not None:
            fork_server.close()


@dataclass(frozen=True)
class Origin:
    """Where a job comes from: the folder of its paths, its name in messages, what to say of it.

    `to_save` is the job file that is to be written once the job has started, and its text.
    """

    folder: Path
    source: str
    notes: tuple[str, ...] = ()
    to_save: tuple[Path, str] | None = None


@dataclass(frozen=True)
class JobStart:
    """A job and all that its run takes beside what is shown of it."""

    job: TrainingJob
    origin: Origin
    where: NodeChoice
    given: Given
    stacks: bool
    directory: Path | None
    on_start: Callable[[RunRecord], Sequence[str]] = lambda run: ()
    fork_server: ForkServer | None = None


@dataclass(frozen=True)
class Probing:
    """How long the first probe trains, and how many pairs of probes compare before and after."""

    probe_s: float
    pairs: int


def _job_of(
    job_file: Path | None,
    command: tuple[str, ...],
    overrides: tuple[str, ...],
    without_file: CommandOptions,
    environment: EnvOptions,
) -> tuple[TrainingJob, Origin]:
    from mooring.cli import command_job, run_command
    from mooring.spec import load_job

    if command and job_file is not None:
        raise click.UsageError("A job file and a command after '--': give one of the two.")
    if command:
        made = command_job.job_of_command(command, without_file, overrides, environment.of_job())
        path = without_file.save
        source = str(path) if path is not None else run_command.SOURCE
        to_save = (path, made.text) if path is not None else None
        return made.job, Origin(made.folder, source, (made.note,), to_save)
    if job_file is None:
        raise click.UsageError("Missing argument: JOB.yaml, or a command after '--'.")
    run_command.refuse_beside_file(without_file)
    job = with_env(load_job(job_file, overrides), environment.of_job())
    return job, Origin(job_file.absolute().parent, str(job_file))


def start_job(
    start: JobStart,
    *,
    quiet: bool,
    only: tuple[str, ...],
    detach: bool,
    probing: Probing | None = None,
) -> int:
    """A job from its start to its report, or until it goes on by itself; the exit code.

    `probing`: probe first, and run with the remedies.
    """
    from mooring.cli.viewer import ViewOptions

    view = ViewOptions(quiet=quiet, only=_members_meant(start.job, start.origin.source, only))
    asked = _Asked(cache(_make_console), start, view)
    if not quiet:
        for note in (*start.origin.notes, *filter(None, [start.where.note])):
            asked.console().print(note, style="dim", soft_wrap=True)
    if detach:
        from mooring.cli.console import plain_console
        from mooring.cli.detach import Parent, divide

        side = divide()
        if isinstance(side, Parent):
            return side.wait(asked.console(), quiet=quiet, probe=probing is not None)
        view = replace(view, lines=False)
        asked = replace(
            asked,
            console=cache(plain_console),
            view=view,
            on_start=side.started,
            on_wait=side.waits,
        )
    if probing is None:
        return _report(asked, _carry_out(asked, start.job, start.directory))
    return _with_probe(asked, start.job, start.directory, probing)


def _make_console() -> Console:
    from mooring.cli.console import console

    return console()


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
    """What stays the same for a probe and the run after it.

    `console` makes it when it is first needed: a job starts sooner without.
    """

    console: Callable[[], Console]
    start: JobStart
    view: ViewOptions
    on_start: Callable[[RunRecord], None] = lambda run: None
    on_wait: Callable[[WaitingPlace], None] | None = None
    """Instead of showing that it waits for its turn."""


@dataclass(frozen=True)
class _Ended:
    """A run that has ended, and whether given lines of it stand on the screen just above."""

    result: RunEnd
    showed: Callable[[Sequence[LogLine]], bool]


def _carry_out(
    asked: _Asked,
    job: TrainingJob,
    directory: Path | None,
    on_start: Callable[[RunRecord], None] = lambda run: None,
    stop_when: Callable[[], str | None] = lambda: None,
) -> _Ended:
    from mooring.app import run_job
    from mooring.backends.local.queue.socket_path import service_socket
    from mooring.cli.viewer import Viewer

    with Viewer(asked.console, asked.view) as viewer:

        def planned(plan: Plan) -> None:
            for note in plan.notes:
                viewer.note(f"· {note}")

        def started(run: RunRecord) -> None:
            for note in (*_save(asked), *asked.start.on_start(run)):
                viewer.note(note)
            asked.on_start(run)
            viewer.follow(run)
            on_start(run)

        def carry_out(
            where: NodeChoice,
            promised: Promised | None = None,
            wanted_to_stop: Callable[[], str | None] = lambda: None,
        ) -> RunEnd:
            return run_job(
                job,
                job_dir=asked.start.origin.folder,
                where=where,
                directory=directory,
                source=asked.start.origin.source,
                on_plan=planned,
                on_start=started,
                on_tick=viewer.tick,
                stop_when=lambda: stop_when() or wanted_to_stop(),
                stacks=asked.start.stacks,
                given=asked.start.given,
                fork_server=asked.start.fork_server,
                promised=promised,
            )

        if service_socket().exists():
            result = _in_turn(asked, job, carry_out)
        else:
            result = carry_out(asked.start.where)
    return _Ended(result, viewer.showed)


def _in_turn(asked: _Asked, job: TrainingJob, carry_out: CarryOut) -> RunEnd:
    """Where a service runs on this machine: once its queue has given the job a place."""
    from mooring.cli.queue_wait import QueueWait
    from mooring.queued_run import QueueNotices, RunRequest, run_in_turn

    start, wait = asked.start, QueueWait(asked.console)
    shown = asked.on_wait or (lambda place: None if asked.view.quiet else wait.show(place))

    def note(text: str) -> None:
        wait.close()
        if not asked.view.quiet:
            asked.console().print(text, style="dim", soft_wrap=True)

    def begin(
        where: NodeChoice,
        promised: Promised | None = None,
        wanted_to_stop: Callable[[], str | None] = lambda: None,
    ) -> RunEnd:
        wait.close()
        return carry_out(where, promised, wanted_to_stop)

    origin = start.origin
    request = RunRequest(job, origin.folder, origin.source, start.where, start.given)
    try:
        return run_in_turn(request, begin, QueueNotices(shown, note))
    finally:
        wait.close()


def _save(asked: _Asked) -> list[str]:
    """The job file of `--save`, once: a probe and the run after it come from the same."""
    to_save = asked.start.origin.to_save
    if to_save is None or to_save[0].exists():
        return []
    from mooring.cli.command_job import save

    return [save(*to_save)]


def _with_probe(asked: _Asked, job: TrainingJob, directory: Path | None, probing: Probing) -> int:
    from mooring.app import Refused
    from mooring.cli.ending import EXIT_INTERRUPTED
    from mooring.doctor.probing import PROBED, Compared, Enough, after_probe, keep
    from mooring.doctor.read_run import speed_of
    from mooring.report.finish import write_report

    console = asked.console()
    probe_s, pairs = probing.probe_s, probing.pairs
    enough = Enough(probe_s)
    ended = _carry_out(asked, job, None, enough.watch, enough)
    result = ended.result
    if result.reason != PROBED:
        # It ended, failed or was interrupted before the probe was over: this was the run.
        if result.phase.value == "Succeeded" and not asked.view.quiet:
            console.print("the job ended within the probe: nothing was changed", style="dim")
        return _report(asked, ended)
    write_report(result.run)
    probed = after_probe(result.run)
    quiet = asked.view.quiet
    if speed_of(result.run, probe_s) is None and not quiet:
        console.print(
            f"the probe saw no steps: little can be found. One that waits longer for them: "
            f"--probe {3 * probe_s:.0f}",
            style="yellow",
        )
    if not quiet:
        _tell(console, probed.diagnosis, probed.patch)
    if not probed.fixed.applied:
        return _report(asked, _carry_out(asked, job, directory))
    compared = Compared(note="no probes compare it (--probes 0), so no gain is stated")
    if pairs:
        compared = _compare(asked, job, probed, probe_s, pairs)
    if compared.interrupted:
        return EXIT_INTERRUPTED
    if compared.refused:
        console.print(f"the changed job {compared.refused}: it runs as it was", soft_wrap=True)
        return _report(asked, _carry_out(asked, job, directory))
    try:
        changed = probed.job
        ended = _carry_out(asked, changed, directory, lambda run: keep(probed, compared, run))
    except Refused as refused:
        # More CPUs, memory or members were wanted than there are: as it was, it had a place.
        console.print(f"the changed job has no place ({refused}): it runs as it was")
        ended = _carry_out(asked, job, directory)
    return _report(asked, ended)


def _compare(
    asked: _Asked, job: TrainingJob, probed: Probed, probe_s: float, pairs: int
) -> Compared:
    """Probes of the job before and after, in turns; their total time is said before."""
    from mooring.app import Refused
    from mooring.doctor.probing import Ended, Enough, compare, plan_times
    from mooring.model.amounts import duration
    from mooring.report.finish import write_report

    console = asked.console()
    times = plan_times(probed.run, probe_s, pairs)
    unseen = replace(asked, view=replace(asked.view, quiet=True), on_start=lambda run: None)
    say = (lambda *args, **how: None) if asked.view.quiet else console.print
    say(
        f"{pairs} pair{'' if pairs == 1 else 's'} of probes compare the job before and after: "
        f"about {duration(times.expected_s)}, at most {duration(times.most_s)} (--probes 0: none)",
        soft_wrap=True,
    )

    def probe(changed: bool, enough: Enough) -> Ended:
        try:
            told = probed.job if changed else job
            result = _carry_out(unseen, told, None, enough.watch, enough).result
        except Refused as refused:
            return Ended(None, reason=f"it has no place: {refused}")
        write_report(result.run)
        return Ended(result.run, result.phase.value, result.reason)

    def told(changed: bool, said: str) -> None:
        which = "after" if changed else "before"
        say(f"probe {which}: {said}", style="dim")

    return compare(probed.run, probe, pairs, times, told)


def _tell(console: Console, diagnosis: Diagnosis, patch: str) -> None:
    for finding in diagnosis.findings:
        console.print(f"{finding.id}: {finding.found.says}", soft_wrap=True)
    if patch:
        console.print(patch.rstrip(), soft_wrap=True)
    else:
        console.print("no remedy that the job can carry: it runs as it is", style="dim")


def _report(asked: _Asked, ended: _Ended) -> int:
    from mooring.cli.ending import tell_end
    from mooring.report.finish import write_report

    run = ended.result.run
    figures = write_report(run)
    return tell_end(asked.console(), run, figures, quiet=asked.view.quiet, showed=ended.showed)
