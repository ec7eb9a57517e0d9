"""`moor attach`: a run of another process, as `moor run` shows its own."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.say import say

if TYPE_CHECKING:
    from mooring.cli.live import RunScreen
    from mooring.interrupts import StopSignals
    from mooring.record import RunRecord

_NEXT_RUN_POLL_S = 0.1
#: A process whose run has ended and is no probe has left by then, unless its output is held up.
_LEAVES_S = 3.0


@click.command()
@options.last_run_name
@click.option(
    "-n", "--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N lines of each."
)
@options.shown
def attach(run: str, tail: int | None, quiet: bool, only: tuple[str, ...]) -> int:
    """Show a run that goes on elsewhere until it ends, with its report and its exit code.

    RUN is the last one if it is not given. Ctrl-C leaves it; the run goes on. What members printed
    before is shown from the beginning. A job of this machine's queue that waits is waited for, also
    when it has to wait again.
    """
    from mooring.cli.console import console as make_console
    from mooring.cli.ending import EXIT_INTERRUPTED, tell_end
    from mooring.cli.live import RunScreen
    from mooring.cli.member_names import choose_members
    from mooring.cli.viewer import ViewOptions
    from mooring.interrupts import StopSignals
    from mooring.report.finish import read_report
    from mooring.report.view import RunView

    console = make_console()
    record = _found(run)
    if record is None:
        return EXIT_INTERRUPTED
    view = RunView(record)
    view.update()
    meant = tuple(choose_members(list(view.members), only, "moor attach", "--only")) if only else ()
    view_options = ViewOptions(quiet=quiet, only=meant, last=tail)
    if view.phase.final or view.lost:
        if not quiet:
            said = "has lost its moor process" if view.lost else "has ended already"
            console.print(f"{record.info.id} {said}", soft_wrap=True)
        return tell_end(console, record, read_report(record), quiet=quiet)
    with StopSignals() as signals:
        while True:
            screen = RunScreen(console, record, view_options)
            followed = _follow(screen, record, signals)
            following = _next_run(record, screen, signals) if followed else None
            if following is None:
                break
            record, view_options = following, replace(view_options, last=None)
    if not followed:
        name = record.info.id
        say(f"left {name}, which goes on; back: moor attach {name}, end it: moor stop {name}")
        return EXIT_INTERRUPTED
    return tell_end(console, record, read_report(record), quiet=quiet, showed=screen.showed)


def _found(name: str) -> RunRecord | None:
    """The run; of a job that waits in the queue, once it has one. None if there will be none, or
    the user left."""
    from mooring.cli import queue_jobs
    from mooring.cli.run_names import find_run
    from mooring.interrupts import StopSignals
    from mooring.model.errors import BadInput

    try:
        return find_run(name)
    except BadInput:
        if queue_jobs.find(name) is None:
            raise
        with StopSignals() as signals:
            return queue_jobs.wait_for_run(name, lambda: bool(signals.take()))


def _follow(screen: RunScreen, run: RunRecord, signals: StopSignals) -> bool:
    """Show it until it ends; False if the user left before that."""
    from mooring.cli.live import follow

    asked_to_leave: list[str] = []

    def over() -> bool:
        asked_to_leave.extend(signals.take())
        return bool(asked_to_leave) or screen.view.phase.final or not run.alive()

    follow(screen, over, time.sleep)
    return screen.view.phase.final or not asked_to_leave


def _next_run(ended: RunRecord, screen: RunScreen, signals: StopSignals) -> RunRecord | None:
    """The run that follows this one: `--fix` probes before it runs, and a job of the queue that has
    to give way runs again later."""
    from mooring.doctor.probing import PROBED
    from mooring.record import list_runs

    if ended.info.queue_job:
        from mooring.cli import queue_jobs

        job = queue_jobs.settled(ended.info.queue_job, ended.info.id)
        if job is not None:
            return queue_jobs.wait_for_run(str(job["id"]), lambda: bool(signals.take()))
    # A probe may also end by itself. Its process then goes on at once, any other ends.
    probed = screen.view.reason == PROBED
    until_s = time.monotonic() + (float("inf") if probed else _LEAVES_S)
    owner = (ended.info.pid, ended.info.start_mark)
    while ended.info.stops_by_signal and ended.alive() and time.monotonic() < until_s:
        for run in list_runs():
            later = run.info.created_s > ended.info.created_s
            if later and (run.info.pid, run.info.start_mark) == owner:
                return run
        if signals.take():
            break
        time.sleep(_NEXT_RUN_POLL_S)
    return None
