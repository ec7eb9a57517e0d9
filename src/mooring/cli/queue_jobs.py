"""Commands about the machine's queue: what `submit`, `ps` and `stop` do where a service runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mooring.backends.local.queue.client import NoService, ServiceClient
from mooring.cli.say import say

if TYPE_CHECKING:
    from mooring.cli.env_options import EnvOptions
    from mooring.explaining import Explanation
    from mooring.record import RunRecord

_POLL_S = 0.2
_AT_ONCE = 1000
_MOST_SHOWN = 5000


def submit(
    files: Sequence[Path], overrides: Sequence[str], environment: EnvOptions, *, wait: bool
) -> int:
    """Send job files to the service, in their order; nothing is sent if one has a mistake."""
    from mooring.backends.local.queue.submitting import request_of
    from mooring.cli.env_options import with_env
    from mooring.spec import load_job

    client = ServiceClient()
    if not client.is_there():
        raise NoService("no service runs here: start it with `moor serve`, or name a --context")
    jobs = [with_env(load_job(path, overrides), environment.of_job()) for path in files]
    requests = [
        request_of(job, path.absolute().parent, str(path), environment.given(job))
        for job, path in zip(jobs, files, strict=True)
    ]
    lines = []
    for note in (note for request in requests for note in request.notes):
        say(f"note: {note}", err=True)
    for request in requests:
        line = client.post("/jobs", request.body)
        lines.append(line)
        say(f"{line['id']} queued{_place(line)}")
    return _wait(client, [str(line["id"]) for line in lines]) if wait else 0


def _place(line: dict[str, Any]) -> str:
    position = line.get("position")
    return f", place {position}" if position else ""


def _wait(client: ServiceClient, ids: Sequence[str]) -> int:
    """Follow jobs until all have ended; 0 if all succeeded."""
    said: dict[str, tuple[str, str]] = {}
    phases: dict[str, str] = {}
    while True:
        for job_id in ids:
            line = client.get(f"/jobs/{job_id}")
            phases[job_id] = str(line["phase"]) if line["state"] == "ended" else ""
            now = (str(line["phase"]), str(line["reason"]))
            if said.get(job_id) != now:
                said[job_id] = now
                reason = f": {now[1]}" if now[1] else ""
                say(f"{job_id} {now[0]}{reason}")
        if all(phases.values()):
            return 0 if set(phases.values()) == {"Succeeded"} else 1
        time.sleep(_POLL_S)


@dataclass(frozen=True)
class QueueOverview:
    """What the service tells of the queue: the jobs that have no run now, the next one first."""

    waiting: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def overview() -> QueueOverview | None:
    """None where no service runs."""
    client = ServiceClient()
    if not client.is_there():
        return None
    jobs: list[dict[str, Any]] = []
    after = ""
    while True:
        answer = client.get(f"/queue?limit={_AT_ONCE}{after}")
        jobs += answer["jobs"]
        if answer["next"] is None or len(jobs) >= _MOST_SHOWN:
            return QueueOverview(tuple(jobs), tuple(answer["notes"]))
        after = f"&next={answer['next']}"


def find(name: str) -> dict[str, Any] | None:
    """A job that has not ended, by its id, its run's id or its name (the latest of that name);
    None without one, or without a service."""
    client = ServiceClient()
    if os.sep in name or not client.is_there():
        return None
    for field in ("id", "run", "name"):
        found = client.get(f"/jobs?{urlencode({field: name, 'unfinished': 'true'})}")["jobs"]
        if found:
            return dict(found[0])
    return None


def settled(job_id: str, run_id: str) -> dict[str, Any] | None:
    """A job whose run has just ended, if it waits or runs again; None if it has ended."""
    while (job := find(job_id)) is not None:
        over = job["run"] != run_id or job["state"] == "queued"
        if over:
            return job
        time.sleep(_POLL_S)
    return None


def wait_for_run(name: str, left: Callable[[], bool]) -> RunRecord | None:
    """The run of a job that waits in the queue, as soon as it has one; meanwhile why it waits is
    said. None if it ended without one, or if the user has `left`."""
    from mooring.record import runs_dir
    from mooring.record.runs import open_run

    job, said = find(name), ""
    while job is not None and not left():
        if job["state"] == "queued":
            if job["reason"] and job["reason"] != said:
                said = str(job["reason"])
                say(said)
        elif (run := open_run(runs_dir() / str(job["run"]))) is not None:
            return run
        time.sleep(_POLL_S)
        job = ServiceClient().get(f"/jobs/{job['id']}")
        if job["state"] == "ended":
            say(f"{job['id']} {job['phase']}: {job['reason']}")
            return None
    return None


def explanation(job_id: str, member: str | None) -> Explanation:
    """Why a job of the queue waits, or is where it is. Raises BadInput for an unknown member."""
    from mooring.explaining import Explanation
    from mooring.model.member import MemberId
    from mooring.model.plan import NodeVerdict

    query = f"?{urlencode({'member': member})}" if member is not None else ""
    told = ServiceClient().get(f"/jobs/{job_id}/explanation{query}")
    role, _, index = str(told["member"]).rpartition("-")
    verdicts = tuple(
        NodeVerdict(one["node"], tuple(one["refused"]), tuple(one["scores"].items()))
        for one in told["nodes"]
    )
    return Explanation(
        told["job"],
        MemberId(role, int(index)),
        verdicts,
        told["node"],
        told["refused"],
        told["queued"],
        tuple(told["changes"]),
        told["note"],
    )


def stop(job: dict[str, Any], *, now: bool) -> int:
    """Stop a job and wait for its end."""
    client, job_id = ServiceClient(), str(job["id"])
    line = client.post(f"/jobs/{job_id}/stop", {"now": now})
    while line["state"] != "ended":
        time.sleep(_POLL_S)
        line = client.get(f"/jobs/{job_id}")
    ended_otherwise = line["phase"] != "Stopped"
    say(f"{job_id} has ended already: {line['phase']}" if ended_otherwise else f"stopped {job_id}")
    return 0
