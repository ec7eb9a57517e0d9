"""Commands about runs: ps, report, stop."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.kube_options import on_cluster, required_target, target_of
from mooring.cli.say import emit, emit_json, say
from mooring.model.errors import BadInput
from mooring.model.strict_json import json_text

if TYPE_CHECKING:
    from mooring.record import RunRecord
    from mooring.report.figures import Report
    from mooring.report.view import RunView

_STOP_POLL_S = 0.1


@click.command()
@click.option("--all", "-a", "show_all", is_flag=True, help="Also runs that have ended.")
@on_cluster("-n")
@click.option("-A", "--all-namespaces", is_flag=True, help="On a cluster: of all namespaces.")
@options.output("table", "json")
def ps(
    show_all: bool,
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    all_namespaces: bool,
    output: str,
) -> None:
    """List the runs of this user: those that are running, with -a all of them.

    With --context, --kubeconfig, --namespace or -A: the jobs of a cluster.
    """
    target = target_of(context, kubeconfig, namespace)
    if target is not None or all_namespaces:
        from mooring.cli import cluster_runs

        target = target or required_target(context, kubeconfig)
        cluster_runs.ps(target, show_all, all_namespaces, output)
        return
    from mooring.record import list_runs
    from mooring.report.listing import line_of
    from mooring.report.text import duration

    lines = [line for run in list_runs() if not (line := line_of(run)).ended or show_all]
    rows = [
        {
            "run": line.run,
            "phase": line.phase,
            "members": f"{line.running}/{line.members}",
            "nodes": line.nodes,
            "took_s": None if line.took_s is None else round(line.took_s, 3),
            "examples_per_s": line.examples_per_s,
            "started": datetime.fromtimestamp(line.started_s)
            .astimezone()
            .isoformat(timespec="seconds"),
            "reason": line.reason,
            "directory": line.directory,
        }
        for line in lines
    ]
    if output == "json":
        emit_json(rows)
        return
    if not rows:
        say("no runs" if show_all else "nothing is running (moor ps -a lists ended runs)")
        return
    from mooring.cli.console import console as make_console
    from mooring.report.columns import Columns

    cells = []
    for row in rows:
        rate = row["examples_per_s"]
        started = datetime.fromisoformat(str(row["started"]))
        cells.append(
            (
                str(row["run"]),
                str(row["phase"]),
                str(row["members"]),
                str(row["nodes"]),
                duration(row["took_s"]) if isinstance(row["took_s"], float) else "–",
                f"{rate:,.0f}" if isinstance(rate, float) else "–",
                f"{started:%b %d %H:%M:%S}",
                # What a success means is what its phase says.
                "" if row["phase"] == "Succeeded" else str(row["reason"]),
            )
        )
    # A run's name tells the time of its start, too.
    table = Columns.of_rows(
        ("run", "phase", "running", "nodes", "took", "examples/s", "started"),
        cells,
        gives_way={"nodes": 4, "started": 3, "took": 2, "examples/s": 1},
        detail="reason",
    )
    make_console().print(table)


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
    from mooring.record import find_run
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

    With --context, --kubeconfig, --namespace or --delete: a job on a cluster, RUN being its name.
    """
    where = target_of(context, kubeconfig, namespace)
    if where is not None or delete:
        from mooring.cli import cluster_runs

        where = where or required_target(context, kubeconfig)
        return cluster_runs.stop(where, run, now=now, delete=delete)
    from mooring.bodies.local.clean import clean_run
    from mooring.record import find_run
    from mooring.record.private import write_whole
    from mooring.report.view import RunView

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
