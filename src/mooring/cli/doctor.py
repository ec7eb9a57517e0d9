"""`moor doctor`: why a run, or this machine, is slow, and what to do about it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.kube_options import Target, on_cluster, target_of
from mooring.cli.say import emit_json, say
from mooring.model.errors import BadInput

if TYPE_CHECKING:
    from mooring.doctor import Diagnosis
    from mooring.record import RunRecord

#: A live look is over the last seconds, so that what has just changed shows.
_LIVE_WINDOW_S = 20.0
_LIVE_EVERY_S = 5.0


@click.command()
@click.argument("run", required=False, metavar="RUN", shell_complete=options.complete_run)
@click.option(
    "--node", is_flag=True, help="Look at this machine, or the container that it runs in."
)
@click.option("--live", is_flag=True, help="Look again and again until the run ends.")
@click.option("--fix", "apply", is_flag=True, help="Write the remedies into the job file.")
@click.option(
    "--job",
    "job_file",
    metavar="JOB.yaml",
    type=click.Path(path_type=Path),
    help="The job file for --fix. [default: the one that the run was started from]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--html", "html_file", metavar="FILE", type=click.Path(path_type=Path), help="Write a page."
)
@on_cluster("-n")
def doctor(
    run: str | None,
    node: bool,
    live: bool,
    apply: bool,
    job_file: Path | None,
    as_json: bool,
    html_file: Path | None,
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
) -> int:
    """Say where the time of a step goes, and why a run is slow: an account, then findings.

    Findings come worst first, each with its evidence and a remedy.

    RUN may be running or ended. Nothing found is an answer too: it lists what was looked at.
    With --fix, what the job file can carry is written into it; comments stay.

    With --context, --kubeconfig or --namespace: a job on a cluster, RUN being its name. While it
    runs, the last two minutes are looked at; otherwise its place and what it waits for.
    Without RUN: the cluster, or the namespace, as a whole.
    """
    from mooring.doctor import diagnose_node, diagnose_run

    if node:
        if run is not None or live or apply:
            raise BadInput.at("moor doctor", "--node", "RUN, --live or --fix as well", "it alone")
        from mooring.doctor.read_node import read_node

        found = diagnose_node(read_node())
        _show(found, [""] * len(found.findings), as_json, html_file)
        return 0
    target = target_of(context, kubeconfig, namespace)
    if run is None and target is None:
        raise BadInput.at("moor doctor", "RUN", "nothing", "a run, --node, or --context")
    if target is not None:
        if live or apply:
            raise BadInput.at("moor doctor", "--context", "--live or --fix as well", "it alone")
        found = _whole_cluster(target, namespace) if run is None else _on_cluster(target, run)
        _show(found, [""] * len(found.findings), as_json, html_file)
        return 0
    from mooring.cli.run_names import find_run
    from mooring.doctor.read_run import read_run

    assert run is not None
    record = find_run(run)
    if live:
        return _live(record, as_json)
    found = diagnose_run(read_run(record))
    text, path = _job_text(record, job_file)
    from mooring.doctor.remedies import patches

    _show(found, patches(found, text, str(path)), as_json, html_file)
    if apply:
        _write(found, text, path, is_copy=path == record.job_file)
    return 0


def _on_cluster(target: Target, name: str) -> Diagnosis:
    import asyncio

    from mooring.backends.kubernetes.api.client import Client
    from mooring.backends.kubernetes.client.jobs import find_job
    from mooring.doctor.read_job import diagnose_job

    async def ask() -> Diagnosis:
        async with Client(target.access) as client:
            view = await find_job(client, name, target.namespace)
            return await diagnose_job(client, view, time.time())

    return asyncio.run(ask())


def _whole_cluster(target: Target, namespace: str | None) -> Diagnosis:
    import asyncio

    from mooring.backends.kubernetes.api.client import Client
    from mooring.doctor import diagnose_cluster
    from mooring.doctor.read_gangs import read_gangs

    async def ask() -> Diagnosis:
        async with Client(target.access) as client:
            return diagnose_cluster(await read_gangs(client, namespace, time.time()))

    return asyncio.run(ask())


def _job_text(record: RunRecord, job_file: Path | None) -> tuple[str, Path]:
    from mooring.doctor.read_run import read_job_text
    from mooring.spec.source import read_text

    if job_file is not None:
        return read_text(job_file), job_file
    return read_job_text(record)


def _show(found: Diagnosis, patches: Sequence[str], as_json: bool, html_file: Path | None) -> None:
    if html_file is not None:
        from mooring.doctor.html import render_html

        html_file.write_text(render_html(found, patches), encoding="utf-8")
        say(f"wrote {html_file}", err=as_json)
    if as_json:
        emit_json(found.document(patches))
    elif html_file is None:
        from mooring.cli.console import console as make_console
        from mooring.doctor import text

        console = make_console()
        console.print(text.diagnosis(found, patches, console.width), soft_wrap=True)


def _write(found: Diagnosis, text: str, path: Path, *, is_copy: bool) -> None:
    from mooring.doctor.remedies import fix
    from mooring.record.private import write_for_user

    fixed = fix(text, found.findings, str(path))
    for finding, why in fixed.refused:
        say(f"{finding.id}: cannot be written into {path}: {why}", err=True)
    if not fixed.applied:
        say("nothing to write: no finding has a remedy that the job file can carry", err=True)
        return
    if is_copy:
        accepted = "the job file, by --job JOB.yaml"
        raise BadInput.at("moor doctor", "--fix", "a run whose job file is gone", accepted)
    write_for_user(path, fixed.text)
    say(f"wrote {path}: {', '.join(finding.id for finding in fixed.applied)}", err=True)


def _live(record: RunRecord, as_json: bool) -> int:
    """A diagnosis whenever it differs from the last; ends with the run."""
    from mooring.doctor import diagnose_run
    from mooring.doctor.read_run import read_run

    told: tuple[str, ...] | None = None
    while True:
        alive = record.alive()
        found = diagnose_run(read_run(record, None if not alive else _LIVE_WINDOW_S))
        ids = tuple(finding.id for finding in found.findings)
        if ids != told or not alive:
            told = ids
            say(f"— {time.strftime('%H:%M:%S')}", err=as_json)
            _show(found, [""] * len(found.findings), as_json, None)
        if not alive:
            return 0
        time.sleep(_LIVE_EVERY_S)
