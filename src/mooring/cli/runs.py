"""Commands about runs: report, stop."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.kube_options import on_cluster, required_target, target_of
from mooring.cli.say import emit, say
from mooring.model.errors import BadInput
from mooring.model.strict_json import json_text

if TYPE_CHECKING:
    from mooring.record import RunRecord
    from mooring.report.figures import Report
    from mooring.report.view import RunView

_STOP_POLL_S = 0.1


@click.command()
@options.run_name
@options.output("table", "json", "html")
@click.option(
    "--file", "target", type=click.Path(path_type=Path), help="Write to this file instead."
)
@on_cluster("-n")
def report(
    run: str,
    output: str,
    target: Path | None,
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
) -> None:
    """Show the figures of a run: also of one that still runs, or that was killed.

    With --context, --kubeconfig or --namespace: of a job on a cluster, RUN being its name.
    """
    where = target_of(context, kubeconfig, namespace)
    if where is not None:
        from mooring.cli import cluster_runs

        cluster_runs.report(where, run, output, target)
        return
    from mooring.cli.run_names import find_run
    from mooring.report.finish import read_report

    record = find_run(run)
    figures = read_report(record)
    if output == "json":
        written = json_text(figures.document())
    elif output == "html":
        written = _page(record, figures)
    else:
        from mooring.cli.console import console as make_console
        from mooring.cli.console import recorded
        from mooring.report import text

        if target is None:
            make_console().print(text.report(figures))
            return
        written = recorded(text.report(figures))
    if target is None:
        emit(written)
    else:
        target.write_text(written + "\n", encoding="utf-8")
        say(f"wrote {target}")


def _page(record: RunRecord, figures: Report) -> str:
    from mooring.doctor import diagnose_run
    from mooring.doctor.read_run import read_run
    from mooring.doctor.text import figure_in_words
    from mooring.model.errors import MooringError
    from mooring.report.html import Remark, render_html

    try:
        found = diagnose_run(read_run(record)).findings
    except MooringError:
        # What cannot be diagnosed, such as a run that never started, can still be reported.
        return render_html(record, figures)
    remarks = [
        Remark(
            finding.title,
            finding.found.says,
            tuple(figure_in_words(figure) for figure in finding.found.evidence),
            finding.found.remedy.does,
            finding.id,
        )
        for finding in found
    ]
    return render_html(record, figures, remarks)


@click.command()
@options.run_name
@click.option("--now", is_flag=True, help="Do not wait for members to end by themselves.")
@click.option("--delete", is_flag=True, help="On a cluster: remove the job and all that is its.")
@on_cluster("-n")
def stop(
    run: str,
    now: bool,
    delete: bool,
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
) -> int:
    """Stop a run: members get SIGTERM, their grace period, then SIGKILL.

    A job of this machine's queue is meant by its id, also while it waits.

    With --context, --kubeconfig, --namespace or --delete: a job on a cluster, RUN being its name.
    """
    where = target_of(context, kubeconfig, namespace)
    if where is not None or delete:
        from mooring.cli import cluster_runs

        where = where or required_target(context, kubeconfig)
        return cluster_runs.stop(where, run, now=now, delete=delete)
    from mooring.backends.local.clean import clean_run
    from mooring.cli import queue_jobs
    from mooring.cli.run_names import find_run
    from mooring.record.private import write_whole
    from mooring.report.view import RunView

    queued = queue_jobs.find(run)
    if queued is not None:
        return queue_jobs.stop(queued, now=now)
    record = find_run(run)
    view = RunView(record)
    view.update()
    if view.phase.final:
        say(f"{record.info.id} has ended already: {view.phase.value}")
        return 0
    if not record.alive():
        if not record.is_dead():
            found = "a run of another container, whose processes cannot be seen here"
            raise BadInput.at("moor stop", f"RUN {record.info.id}", found, "`moor stop` there")
        clean_run(record)
        say(f"{record.info.id} had lost its moor process; removed what it left")
        return 0
    if record.info.stops_by_signal:
        _stop_by_signal(record, view, now)
    else:
        write_whole(record.stop_file, "now" if now else "")
    while record.alive() and not view.phase.final:
        time.sleep(_STOP_POLL_S)
        view.update()
    say(f"stopped {record.info.id}")
    return 0


def _stop_by_signal(record: RunRecord, view: RunView, now: bool) -> None:
    # A folder of another user may name any process.
    if not record.is_of_its_owner():
        found = f"process {record.info.pid}, which is not of the folder's owner"
        accepted = "a run of the folder's owner"
        raise BadInput.at("moor stop", f"RUN {record.info.id}", found, accepted)
    os.kill(record.info.pid, signal.SIGTERM)
    if now:
        # A second request, once the first has been taken up, ends the members without grace.
        while record.alive() and view.phase.value not in ("Stopping", "Stopped"):
            time.sleep(_STOP_POLL_S)
            view.update()
        if record.alive():
            os.kill(record.info.pid, signal.SIGTERM)
