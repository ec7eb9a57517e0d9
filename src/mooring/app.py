"""Wires the brain to one runtime.

`run_job` plans a job, or takes the place that the machine's queue has promised it, and carries the
plan out until the job has ended (`run_loop`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mooring import frameworks
from mooring.backends.local import netns, staging
from mooring.backends.local.contract import settings_of
from mooring.backends.local.fork_server import ForkServer
from mooring.backends.local.holders import with_holders
from mooring.backends.local.machine import this_machine
from mooring.backends.local.nodes import LocalNodes, local_snapshot
from mooring.backends.local.preparing import Given, Prepared, prepare
from mooring.backends.local.runtime import LocalRuntime
from mooring.interrupts import StopSignals
from mooring.model.cluster import Snapshot
from mooring.model.errors import BadInput, MooringError, RunFailed
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.placing import plan_job
from mooring.record import RunName, RunRecord, create_run, plan_lock
from mooring.record.locks import exclusive
from mooring.record.made import note_copies
from mooring.record.plan_file import write_plan
from mooring.record.private import write_file
from mooring.record.start import write_start
from mooring.run_loop import Beginning, NewSize, RunEnd, RunLoop
from mooring.spec import TrainingJob
from mooring.version import VERSION

if TYPE_CHECKING:
    from mooring.backends.local.occupancy import NodeCut

AUTO_NODES = 2
_ROOM_POLL_S = 0.05


@dataclass(frozen=True)
class NodeChoice:
    """Which local nodes a run gets: `virtual_nodes` 0 is this machine as it is."""

    virtual_nodes: int = 0
    nic_mbps: int | None = None
    note: str = ""


class Refused(MooringError):
    """The gang has no place: nothing was started."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.sentence)


class NoRoom(MooringError):
    """What a queue had promised was held by others until the time was up."""


class StoppedBefore(MooringError):
    """The job was asked to stop before its run began; nothing was started."""


@dataclass(frozen=True)
class Promised:
    """What the machine's queue gives a job: a name for its run, a place, and what it goes on from.

    Whoever gives way for it may still be there: its run begins when the place is really free.
    """

    name: RunName
    queue_job: str
    plan: Callable[[], Plan]
    """As the queue wants it now: it may change its mind before the run begins and while it runs.
    The same object as long as nothing has changed."""
    first_epoch: int = 0
    restarts: int = 0
    room_timeout_s: float = 120.0


def choose_nodes(nodes: str | None, nic_mbps: int | None) -> NodeChoice:
    """What `--nodes` and `--nic-mbps` mean on this machine."""
    if nodes is None:
        if nic_mbps is not None:
            raise BadInput.at("moor", "--nic-mbps", str(nic_mbps), "only with --nodes")
        return NodeChoice()
    obstacle = netns.why_not()
    if nodes == "auto":
        if obstacle:
            return NodeChoice(note=f"plain processes: {obstacle}")
        return NodeChoice(AUTO_NODES, nic_mbps)
    if not nodes.isdigit() or int(nodes) < 1:
        raise BadInput.at("moor", "--nodes", repr(nodes), "1 or more, or `auto`")
    if obstacle:
        raise BadInput.at(
            "moor", "--nodes", f"{nodes}, but {obstacle}", "no --nodes: plain processes"
        )
    return NodeChoice(int(nodes), nic_mbps)


def run_job(
    job: TrainingJob,
    *,
    job_dir: Path,
    where: NodeChoice = NodeChoice(),  # noqa: B008 (frozen)
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
    promised: Promised | None = None,
) -> RunEnd:
    """Run a job to its end on this machine.

    Raises BadInput, NotInstalled or Refused before anything starts; with `promised`, the place that
    a queue has chosen, also NoRoom or StoppedBefore.

    `stop_when` is asked again and again; the first reason that it gives stops the job, and another
    one after that does not wait for the members.
    `stacks`: look at what the programs do while they train. `stops_by_signal`: whether a
    signal to this process is how others stop the run. `fork_server`: one that was started before,
    and that the caller closes; otherwise a run of several members has its own.
    """
    asked = frameworks.expand(job, source)
    prepared = prepare(job, asked, job_dir, given, source)
    working_dir = prepared.working_dir
    placing = _Placing(job, asked, prepared, where, directory, source, stops_by_signal)
    if promised is None:
        placed = placing.by_plan()
    else:
        placed = placing.by_promise(promised, stop_when)
    run, gang, plan = placed.run, placed.gang, placed.plan
    if prepared.copies:
        staging.copy_files(prepared.copies, prepared.files_dir, run.files_dir)
        note_copies(run)
        working_dir = working_dir if job.spec.working_dir else run.files_dir
    with StopSignals() as signals, _launchers(fork_server, len(gang.members)) as server:
        nodes = LocalNodes(run, placed.snapshot, virtual=where.virtual_nodes > 0)
        settings = settings_of(job, working_dir, looks=stacks)
        runtime = LocalRuntime(run, nodes, settings, prepared.inherited, server)
        begins = Beginning()
        if promised is not None:
            begins = Beginning(
                promised.first_epoch,
                promised.restarts,
                placing.sizes(promised, placed),
                lambda size: placing.has_room(size, run.info.id),
            )
        loop = RunLoop(job, gang, plan, run, runtime, stacks=stacks, begins=begins)
        try:
            on_plan(plan)
            on_start(run)
            result = loop.until_end(signals, on_tick, stop_when)
            return dataclasses.replace(result, signals=signals.caught)
        finally:
            runtime.close()
            loop.close()


@dataclass(frozen=True)
class _Placed:
    """A run that has its folder, and holds what its plan says."""

    run: RunRecord
    gang: Gang
    plan: Plan
    snapshot: Snapshot
    promise: Plan | None = None
    """The plan as the queue gave it."""


@dataclass(frozen=True)
class _Placing:
    """A job on its way to a run. Between looking at what others hold and saying what we hold,
    nobody else may look."""

    job: TrainingJob
    asked: Gang
    prepared: Prepared
    where: NodeChoice
    directory: Path | None
    source: str
    stops_by_signal: bool

    def by_plan(self) -> _Placed:
        """Where the brain puts it now. Raises Refused."""
        with exclusive(plan_lock()):
            snapshot = local_snapshot(self.where.virtual_nodes, self.where.nic_mbps)
            gang, plan = plan_job(self.job, snapshot, self.source, scores=False)
            if isinstance(plan, Refusal):
                raise Refused(with_holders(plan))
            if len(gang.members) < len(self.asked.members):
                note = "members that have no place now do not join this run later"
                plan = dataclasses.replace(plan, notes=(*plan.notes, note))
            return self._recorded(gang, plan, snapshot)

    def by_promise(self, promised: Promised, stop_when: Callable[[], str | None]) -> _Placed:
        """Where a queue has put it, as soon as that is free. Raises NoRoom or StoppedBefore."""
        from mooring.backends.local.occupancy import fits, live_runs, sized_to

        cut = self._cut()
        give_up_s = time.monotonic() + promised.room_timeout_s
        while True:
            reason = stop_when()
            if reason is not None:
                raise StoppedBefore(reason)
            plan = promised.plan()
            gang = sized_to(self.asked, plan)
            with exclusive(plan_lock()):
                runs = live_runs()
                snapshot = cut.snapshot(runs)
                if fits(gang, plan, snapshot):
                    return self._recorded(gang, plan, snapshot, promised)
            if time.monotonic() >= give_up_s:
                holders = ", ".join(each.id for each in runs) or "nobody that is known"
                raise NoRoom(f"its promised place was not free: {holders} holds this machine")
            time.sleep(_ROOM_POLL_S)

    def sizes(self, promised: Promised, placed: _Placed) -> Callable[[], NewSize | None]:
        """What the run asks for the size that the queue wants; None while it is the first one."""
        from mooring.backends.local.occupancy import sized_to

        known: list[tuple[Plan | None, NewSize | None]] = [(placed.promise, None)]

        def wanted() -> NewSize | None:
            plan = promised.plan()
            before, size = known[0]
            if plan is not before:
                gang = self.prepared.programs.put_into(sized_to(self.asked, plan))
                members = len(plan.placements)
                reason = f"it goes on with {members} of {len(self.asked.members)} members"
                size = NewSize(gang, plan, reason)
                known[0] = (plan, size)
            return size

        return wanted

    def has_room(self, size: NewSize, run_id: str) -> bool:
        """Whether nobody but this run holds what the size needs. Call it under the lock."""
        from mooring.backends.local.occupancy import fits, live_runs

        others = [each for each in live_runs() if each.id != run_id]
        return fits(size.gang, size.plan, self._cut().snapshot(others))

    def _cut(self) -> NodeCut:
        from mooring.backends.local.occupancy import NodeCut

        return NodeCut(this_machine(), self.where.virtual_nodes, self.where.nic_mbps)

    def _recorded(
        self, gang: Gang, plan: Plan, snapshot: Snapshot, promised: Promised | None = None
    ) -> _Placed:
        programs, promise = self.prepared.programs, plan
        gang = programs.put_into(gang)
        plan = dataclasses.replace(plan, notes=(*programs.notes, *plan.notes))
        run = create_run(
            self.job.metadata.name,
            directory=self.directory,
            virtual_nodes=self.where.virtual_nodes,
            source=self.source,
            version=VERSION,
            stops_by_signal=self.stops_by_signal,
            name=promised.name if promised is not None else None,
            queue_job=promised.queue_job if promised is not None else "",
        )
        try:
            write_plan(run.plan_file, gang, plan)
            write_file(run.job_file, self.job.to_yaml())
            write_start(run, self.prepared.start(self.where.nic_mbps))
        except OSError as error:
            raise RunFailed(f"cannot write to {run.root}: {error}") from error
        return _Placed(run, gang, plan, snapshot, promise)


@contextmanager
def _launchers(given: ForkServer | None, members: int) -> Iterator[ForkServer | None]:
    """Who makes the launchers. For one or two, a server started now would be no gain."""
    own = ForkServer.start() if given is None and members > 2 else None
    try:
        yield given or own
    finally:
        if own is not None:
            own.close()
