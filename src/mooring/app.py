"""Wires the brain to one body.

`run_job` plans a job and carries the plan out until the job has ended (`run_loop`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mooring import frameworks
from mooring.bodies.local import netns, staging
from mooring.bodies.local.body import LocalBody
from mooring.bodies.local.contract import settings_of
from mooring.bodies.local.fork_server import ForkServer
from mooring.bodies.local.holders import with_holders
from mooring.bodies.local.nodes import LocalNodes, local_snapshot
from mooring.bodies.local.preparing import Given, prepare
from mooring.interrupts import StopSignals
from mooring.model.errors import BadInput, MooringError, RunFailed
from mooring.model.plan import Plan, Refusal
from mooring.placing import plan_job
from mooring.record import RunRecord, create_run, plan_lock
from mooring.record.locks import exclusive
from mooring.record.made import note_copies
from mooring.record.plan_file import write_plan
from mooring.record.private import write_file
from mooring.record.start import write_start
from mooring.run_loop import Result, RunLoop
from mooring.spec import TrainingJob
from mooring.version import VERSION

AUTO_NODES = 2


@dataclass(frozen=True)
class Where:
    """Which local nodes a run gets: `virtual_nodes` 0 is this machine as it is."""

    virtual_nodes: int = 0
    nic_mbps: int | None = None
    note: str = ""


class Refused(MooringError):
    """The gang has no place: nothing was started."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.sentence)


def choose_nodes(nodes: str | None, nic_mbps: int | None) -> Where:
    """What `--nodes` and `--nic-mbps` mean on this machine."""
    if nodes is None:
        if nic_mbps is not None:
            raise BadInput.at("moor", "--nic-mbps", str(nic_mbps), "only with --nodes")
        return Where()
    obstacle = netns.why_not()
    if nodes == "auto":
        if obstacle:
            return Where(note=f"plain processes: {obstacle}")
        return Where(AUTO_NODES, nic_mbps)
    if not nodes.isdigit() or int(nodes) < 1:
        raise BadInput.at("moor", "--nodes", repr(nodes), "1 or more, or `auto`")
    if obstacle:
        raise BadInput.at(
            "moor", "--nodes", f"{nodes}, but {obstacle}", "no --nodes: plain processes"
        )
    return Where(int(nodes), nic_mbps)


def run_job(
    job: TrainingJob,
    *,
    job_dir: Path,
    where: Where = Where(),  # noqa: B008 (frozen)
    directory: Path | None = None,
    source: str = "job",
    on_plan: Callable[[Plan], None] = lambda plan: None,
    on_start: Callable[[RunRecord], None] = lambda run: None,
    on_tick: Callable[[], None] = lambda: None,
    stop_when: Callable[[], str | None] = lambda: None,
    stacks: bool = True,
    stops_by_signal: bool = True,
    given: Given = Given(),  # noqa: B008 (frozen)
    fork_server: ForkServer | None = None,
) -> Result:
    """Run a job to its end on this machine.

    Raises BadInput, NotInstalled or Refused before anything starts.

    `stop_when` is asked again and again; the first reason that it gives stops the job, and another
    one after that does not wait for the members.
    `stacks`: look at what the programs do while they train. `stops_by_signal`: whether a
    signal to this process is how others stop the run. `fork_server`: one that was started before,
    and that the caller closes; otherwise a run of several members has its own.
    """
    asked = frameworks.expand(job, source)
    prepared = prepare(job, asked, job_dir, given, source)
    programs, working_dir = prepared.programs, prepared.working_dir
    # Between looking at what others hold and saying what we hold, nobody else may look.
    with exclusive(plan_lock()):
        snapshot = local_snapshot(where.virtual_nodes, where.nic_mbps)
        gang, plan = plan_job(job, snapshot, source, scores=False)
        if isinstance(plan, Refusal):
            raise Refused(with_holders(plan))
        if len(gang.members) < len(asked.members):
            note = "members that have no place now do not join this run later"
            plan = dataclasses.replace(plan, notes=(*plan.notes, note))
        gang = programs.put_into(gang)
        plan = dataclasses.replace(plan, notes=(*programs.notes, *plan.notes))
        run = create_run(
            job.metadata.name,
            directory=directory,
            virtual_nodes=where.virtual_nodes,
            source=source,
            version=VERSION,
            stops_by_signal=stops_by_signal,
        )
        try:
            write_plan(run.plan_file, gang, plan)
            write_file(run.job_file, job.to_yaml())
            write_start(run, prepared.start(where.nic_mbps))
        except OSError as error:
            raise RunFailed(f"cannot write to {run.root}: {error}") from error
    if prepared.copies:
        staging.copy_files(prepared.copies, prepared.files_dir, run.files_dir)
        note_copies(run)
        working_dir = working_dir if job.spec.working_dir else run.files_dir
    with StopSignals() as signals, _launchers(fork_server, len(gang.members)) as server:
        nodes = LocalNodes(run, snapshot, virtual=where.virtual_nodes > 0)
        settings = settings_of(job, working_dir, looks=stacks)
        body = LocalBody(run, nodes, settings, prepared.inherited, server)
        loop = RunLoop(job, gang, plan, run, body, stacks=stacks)
        try:
            on_plan(plan)
            on_start(run)
            result = loop.until_end(signals, on_tick, stop_when)
            return dataclasses.replace(result, signals=signals.caught)
        finally:
            body.close()
            loop.close()


@contextmanager
def _launchers(given: ForkServer | None, members: int) -> Iterator[ForkServer | None]:
    """Who makes the launchers. For one or two, a server started now would be no gain."""
    own = ForkServer.start() if given is None and members > 2 else None
    try:
        yield given or own
    finally:
        if own is not None:
            own.close()
