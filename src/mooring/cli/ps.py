"""`moor ps`: the runs of this machine and the jobs that wait for it, or the jobs of a cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.cli import options
from mooring.cli.kube_options import on_cluster, required_target, target_of
from mooring.cli.say import emit_json, say

if TYPE_CHECKING:
    from mooring.report.columns import Columns
    from mooring.report.listing import RunLine


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

    Where this machine's queue runs (`moor serve`), the jobs that wait in it follow, the next one
    first, each with the reason why it waits.

    With --context, --kubeconfig, --namespace or -A: the jobs of a cluster.
    """
    target = target_of(context, kubeconfig, namespace)
    if target is not None or all_namespaces:
        from mooring.cli import cluster_runs

        target = target or required_target(context, kubeconfig)
        cluster_runs.ps(target, show_all, all_namespaces, output)
        return
    from mooring.cli import queue_jobs
    from mooring.record import list_runs
    from mooring.report.listing import line_of

    lines = [line for run in list_runs() if not (line := line_of(run)).ended or show_all]
    queue = queue_jobs.overview()
    waiting = queue.waiting if queue is not None else ()
    if output == "json":
        emit_json([*map(_run_row, lines), *map(_job_row, waiting)])
        return
    from mooring.cli.console import console as make_console

    if not lines and not waiting:
        say("no runs" if show_all else "nothing is running (moor ps -a lists ended runs)")
    console = make_console()
    if lines:
        console.print(_runs_table(lines))
    if waiting:
        if lines:
            say("")
        console.print(_queue_table(waiting))
    for note in queue.notes if queue is not None else ():
        say(f"note: {note}")


def _started(line: RunLine) -> datetime:
    return datetime.fromtimestamp(line.started_s).astimezone()


def _run_row(line: RunLine) -> dict[str, object]:
    return {
        "run": line.run,
        "phase": line.phase,
        "members": f"{line.running}/{line.members}",
        "nodes": line.nodes,
        "took_s": None if line.took_s is None else round(line.took_s, 3),
        "examples_per_s": line.examples_per_s,
        "started": _started(line).isoformat(timespec="seconds"),
        "reason": line.reason,
        "directory": line.directory,
        "job": line.queue_job or None,
    }


def _job_row(job: dict[str, Any]) -> dict[str, object]:
    """A job that waits, with the fields of a run as far as it has them."""
    submitted = datetime.fromtimestamp(job["submitted_s"]).astimezone()
    return {
        "run": None,
        "phase": job["phase"],
        "members": f"0/{job['members']}",
        "nodes": None,
        "took_s": None,
        "examples_per_s": None,
        "started": None,
        "reason": job["reason"],
        "directory": None,
        "job": job["id"],
        "position": job["position"],
        "ahead": job["ahead"],
        "pool": job["pool"],
        "priority": job["priority"],
        "submitted": submitted.isoformat(timespec="seconds"),
    }


def _runs_table(lines: Sequence[RunLine]) -> Columns:
    from mooring.model.amounts import duration
    from mooring.report.columns import Columns

    cells = [
        (
            line.run,
            line.phase,
            f"{line.running}/{line.members}",
            str(line.nodes),
            "–" if line.took_s is None else duration(round(line.took_s, 3)),
            "–" if line.examples_per_s is None else f"{line.examples_per_s:,.0f}",
            f"{_started(line):%b %d %H:%M:%S}",
            # What a success means is what its phase says.
            "" if line.phase == "Succeeded" else line.reason,
        )
        for line in lines
    ]
    # A run's name tells the time of its start, too.
    return Columns.of_rows(
        ("run", "phase", "running", "nodes", "took", "examples/s", "started"),
        cells,
        gives_way={"nodes": 4, "started": 3, "took": 2, "examples/s": 1},
        detail="reason",
    )


def _queue_table(jobs: Sequence[dict[str, Any]]) -> Columns:
    from mooring.model.amounts import duration
    from mooring.report.columns import Columns

    now_s = time.time()
    cells = [
        (
            str(job["id"]),
            str(job["phase"]),
            "–" if job["position"] is None else str(job["position"]),
            job["ahead"][-1] if job["ahead"] else "–",
            str(job["pool"]),
            str(job["priority"]),
            duration(max(0.0, now_s - job["submitted_s"])),
            str(job["reason"]),
        )
        for job in jobs
    ]
    return Columns.of_rows(
        ("job", "phase", "place", "behind", "pool", "priority", "waits"),
        cells,
        gives_way={"priority": 4, "pool": 3, "waits": 2, "behind": 1},
        detail="why",
    )
