"""ps, report and stop for jobs on a cluster."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.client.jobs import (
    JobRow,
    delete_job,
    find_job,
    list_jobs,
    stop_job,
)
from mooring.backends.kubernetes.client.report import JobReport, report_of
from mooring.backends.kubernetes.jobs.training_job import STOP
from mooring.cli.console import console as make_console
from mooring.cli.console import recorded
from mooring.cli.kube_options import Target
from mooring.cli.say import emit, emit_json, say
from mooring.model.errors import BadInput
from mooring.model.strict_json import json_text
from mooring.report.columns import Columns

if TYPE_CHECKING:
    from mooring.backends.kubernetes.jobs.training_job import JobView

#: Who has not been answered for so long is told that the operator may be away.
_PATIENCE_S = 10.0


def ps(target: Target, show_all: bool, all_namespaces: bool, output: str) -> None:
    rows = asyncio.run(_rows(target, None if all_namespaces else target.namespace))
    rows = [row for row in rows if show_all or not row.progress.final]
    now_s = time.time()
    if output == "json":
        emit_json([_document(row) for row in rows])
        return
    if not rows:
        where = "on this cluster" if all_namespaces else f"in namespace {target.namespace}"
        hint = "" if show_all else " (moor ps -a lists ended ones too)"
        say(f"no jobs {where}{hint}")
        return
    names = ("job", "phase", "ready", "pool", "age", "examples/s")
    cells = []
    for row in rows:
        progress = row.progress
        rate = progress.examples_per_s
        own = (
            row.name,
            progress.phase,
            progress.ready or "–",
            row.pool or "–",
            age(now_s - row.created_at_s),
            f"{rate:,.0f}" if rate is not None and not progress.final else "–",
            progress.message,
        )
        cells.append((row.namespace, *own) if all_namespaces else own)
    table = Columns.of_rows(
        ("namespace", *names) if all_namespaces else names,
        cells,
        gives_way={"pool": 3, "age": 2, "examples/s": 1},
        detail="why",
    )
    make_console().print(table)


async def _rows(target: Target, namespace: str | None) -> list[JobRow]:
    async with Client(target.access) as client:
        return await list_jobs(client, namespace)


def _document(row: JobRow) -> dict[str, object]:
    progress = row.progress
    return {
        "namespace": row.namespace,
        "job": row.name,
        "phase": progress.phase,
        "reason": progress.reason,
        "message": progress.message,
        "ready": progress.ready,
        "restarts": progress.restarts,
        "pool": row.pool,
        "created_s": row.created_at_s,
        "steps": progress.steps,
        "examples_per_s": progress.examples_per_s,
    }


def age(seconds: float) -> str:
    """`5s`, `12m`, `3h`, `2d`: whole, rounded down, as kubectl does for small ones."""
    left = max(0, int(seconds))
    for size, unit, most in ((1, "s", 120), (60, "m", 120), (3600, "h", 48)):
        if left // size < most:
            return f"{left // size}{unit}"
    return f"{left // 86400}d"


def stop(target: Target, name: str, *, now: bool, delete: bool) -> int:
    return asyncio.run(_stop(target, name, now, delete))


async def _stop(target: Target, name: str, now: bool, delete: bool) -> int:
    async with Client(target.access) as client:
        view = await find_job(client, name, target.namespace)
        shown = f"{view.namespace}/{name}"
        if delete:
            await delete_job(client, view)
            say(f"deleted {shown}")
            return 0
        hint = asyncio.get_running_loop().call_later(_PATIENCE_S, _nobody_answers, shown)
        last = None
        try:
            async for progress in stop_job(client, view, now=now):
                if last is None and progress.final:
                    say(f"{shown} has ended already: {progress.phase}")
                    return 0
                if last is not None or progress.phase in ("Stopping", "Stopped"):
                    hint.cancel()
                last = progress
        finally:
            hint.cancel()
    assert last is not None
    say(f"stopped {shown}" if last.phase == "Stopped" else f"{shown}: {last.phase}")
    return 0


def _nobody_answers(shown: str) -> None:
    say(
        f"nobody has taken the request up yet; does the operator run? ({shown} is marked "
        f"with {STOP}, and stops when it does)",
        err=True,
    )


def report(target: Target, name: str, output: str, file: Path | None) -> None:
    if output == "html":
        accepted = "table or json: pages are made of runs on this machine"
        raise BadInput.at("moor report", "--output", "'html' for a job on a cluster", accepted)
    found = asyncio.run(_report(target, name))
    if output == "json":
        written = json_text(found.document())
        _write(written, file)
        return
    if file is None:
        _print(found)
        return
    _write(recorded(*_head(found), _members(found)), file)


async def _report(target: Target, name: str) -> JobReport:
    async with Client(target.access) as client:
        view: JobView = await find_job(client, name, target.namespace)
        return await report_of(client, view)


def _write(text: str, file: Path | None) -> None:
    if file is None:
        emit(text)
        return
    file.write_text(text + "\n", encoding="utf-8")
    say(f"wrote {file}")


def _print(found: JobReport) -> None:
    console = make_console()
    for line in _head(found):
        console.print(line, soft_wrap=True)
    console.print(_members(found))


def _head(found: JobReport) -> list[str]:
    progress = found.progress
    said = [f"{found.namespace}/{found.name}: {progress.phase}"]
    if progress.ready:
        said.append(f"{progress.ready} members ready")
    if found.pool:
        said.append(f"pool {found.pool}")
    said.append(f"{progress.restarts} restarts")
    if progress.steps is not None:
        said.append(f"{progress.steps:,} steps")
    if progress.examples_per_s is not None:
        said.append(f"{progress.examples_per_s:,.1f} examples/s")
    lines = [", ".join(said)]
    if progress.message:
        lines.append(progress.message)
    return [*lines, *found.notes, ""]


def _members(found: JobReport) -> Columns:
    rows = []
    for one in found.members:
        steps = "–" if one.step is None else f"{one.step:,}"
        if one.step is not None and one.total:
            steps += f"/{one.total:,}"
        rows.append(
            (
                one.member,
                one.node or "–",
                one.state,
                str(one.starts),
                one.cpus or "–",
                "–" if one.threads is None else str(one.threads),
                steps,
                "–" if one.loss is None else f"{one.loss:.4f}",
                one.pinning,
            )
        )
    names = ("member", "node", "state", "starts", "CPUs", "threads", "steps", "loss")
    return Columns.of_rows(names, rows, detail="pinning")
