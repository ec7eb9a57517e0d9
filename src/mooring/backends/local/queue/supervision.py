"""Supervisors of admitted jobs: started once for each admission, found again after a crash of the
service, and what the end of one means for its job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from mooring.backends.local.clean import clean_run
from mooring.backends.local.queue import entry as entries
from mooring.backends.local.queue.documents import (
    Action,
    Admission,
    Ending,
    Outcome,
    SupervisorName,
    Wanted,
)
from mooring.backends.local.queue.entry import EntryState, QueueEntry, RestartPolicy
from mooring.backends.local.queue.machine_watch import MachineWatch
from mooring.backends.local.queue.roster import Roster
from mooring.backends.local.queue.store import NewEvent, StoreFull
from mooring.backends.local.queue.supervisors import (
    ProcessWatch,
    no_supervisor,
    start_supervisor,
)
from mooring.model.errors import BadInput
from mooring.model.member import Restart
from mooring.model.status import Phase
from mooring.record import RunRecord, runs_dir
from mooring.record.private import is_full
from mooring.record.process_mark import of_this_boot
from mooring.record.runs import open_run
from mooring.spec import TrainingJob
from mooring.wire import read_journal
from mooring.wire.events import PhaseChanged

log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.1
_RETRY_S = 1.0
_KILLED_IN_FRONT = "its `moor run` was killed"


class Supervision:
    """Lives in the service's event loop."""

    def __init__(self, roster: Roster, machine: MachineWatch) -> None:
        self._roster, self._machine = roster, machine
        self._processes = ProcessWatch()
        self._tasks: set[asyncio.Task[None]] = set()
        self._untold: set[str] = set()
        self._leaving: set[str] = set()

    def close(self) -> None:
        """Stop watching; the supervisors go on."""
        self._processes.close()
        for task in self._tasks:
            task.cancel()

    def resume(self) -> None:
        """Take up the jobs that an earlier service had admitted."""
        for candidate in self._roster:
            if candidate.entry.state.supervised:
                self._spawn(self._take_up(candidate.entry.id))

    def start(self, job_id: str) -> None:
        """A job has been admitted."""
        self._spawn(self._start(job_id))

    def tell(self, job_id: str) -> None:
        """Write down what is wanted of a job's supervisor now; on a full disk later."""
        self._untold.discard(job_id)
        candidate = self._roster.get(job_id)
        if candidate is None or not candidate.entry.state.supervised:
            return
        try:
            self._roster.folder(job_id).write_wanted(wanted_of(candidate.entry))
        except OSError as error:
            log.error("cannot tell the supervisor of %s: %s", job_id, error)
            self._untold.add(job_id)

    def tell_again(self) -> None:
        """What a full disk did not take."""
        for job_id in list(self._untold):
            self.tell(job_id)

    def note_running(self) -> None:
        """Jobs whose runs have begun since the last look at the machine."""
        live = {run.id for run in self._machine.runs}
        for candidate in self._roster:
            entry = candidate.entry
            if entry.state is EntryState.STARTING and entry.run_id in live:
                event = NewEvent("started", entry.id, {"run": entry.run_id})
                self._roster.change(entries.running(entry, self._roster.now()), event)

    def look_at_foreground(self) -> None:
        """Jobs whose supervisor is a `moor run`: those that have just come are watched from now on,
        and those that have ended or left are over, though the process may live on."""
        for candidate in self._roster:
            entry = candidate.entry
            if not entry.foreground or entry.id in self._leaving:
                continue
            folder = self._roster.folder(entry.id)
            if folder.left_file.exists() or folder.has_outcome(entry.admission):
                self._processes.forget(entry.id)
                self._is_gone(entry.id)
            elif entry.id not in self._processes and entry.supervisor is not None:
                self._watch(entry.id, entry.supervisor)

    # -- the life of one supervisor

    async def _take_up(self, job_id: str) -> None:
        """Find the supervisor of a job that was admitted before, or make up for its absence."""
        folder = self._roster.folder(job_id)
        while True:
            entry = self._roster[job_id].entry
            name = folder.supervisor(entry.admission)
            if name is not None:
                self.tell(job_id)
                self._watch(job_id, name)
                return
            if entry.foreground:
                break
            with no_supervisor(folder) as nobody:
                # Between the lock and its name a supervisor needs a moment.
                if nobody and folder.supervisor(entry.admission) is None:
                    break
            await asyncio.sleep(_LOOK_AGAIN_S)
        await self._start(job_id)

    async def _start(self, job_id: str) -> None:
        """Called again after a crash: a second process for the same admission does nothing. A job
        in the foreground has its process, which waits for its admission."""
        while (candidate := self._roster.get(job_id)) is not None:
            entry, folder = candidate.entry, self._roster.folder(job_id)
            try:
                folder.write_admission(admission_of(entry, self._machine))
                folder.write_wanted(wanted_of(entry))
                if entry.foreground:
                    return
                child = start_supervisor(folder, entry.admission)
                break
            except OSError as error:
                log.error("cannot start the supervisor of %s: %s", job_id, error)
                if not is_full(error):
                    reason = f"its supervising process could not be started: {error}"
                    await self._until_written(job_id, partial(self._lost, job_id, reason, None))
                    return
            await asyncio.sleep(_RETRY_S)
        else:
            return
        name = self._processes.own(child)
        if name is None:
            await self._gone(job_id)
        else:
            self._watch(job_id, name)

    def _watch(self, job_id: str, name: SupervisorName) -> None:
        """Who it is need not be written down: the supervisor has done that itself."""
        entry = entries.supervised_by(self._roster[job_id].entry, name)
        self._roster.note_in_memory(entry)
        self._processes.watch(job_id, name, lambda: self._is_gone(job_id))

    def _is_gone(self, job_id: str) -> None:
        self._leaving.add(job_id)
        self._spawn(self._gone(job_id))

    async def _gone(self, job_id: str) -> None:
        """Its process has ended: how, and what follows for the job."""
        candidate = self._roster.get(job_id)
        if candidate is None:
            return
        entry, folder = candidate.entry, self._roster.folder(job_id)
        if not entry.state.supervised:
            reason = folder.left() or _KILLED_IN_FRONT
            await self._until_written(job_id, lambda: self._left(job_id, reason))
            return
        run = open_run(runs_dir() / entry.run_id)
        outcome = folder.outcome(entry.admission)
        if outcome is None and run is not None:
            outcome = _outcome_of_journal(entry, run)
        if outcome is not None:
            told = outcome
            await self._until_written(job_id, lambda: self._ended(job_id, told))
            return
        if run is not None:
            await asyncio.to_thread(clean_run, run)
        here = entry.supervisor is None or of_this_boot(entry.supervisor.mark)
        killed = "its supervising process was killed"
        if entry.foreground:
            killed = folder.left() or _KILLED_IN_FRONT
        reason = killed if here else "the machine was restarted while it ran"
        await self._until_written(job_id, lambda: self._lost(job_id, reason, run))

    def _ended(self, job_id: str, outcome: Outcome) -> None:
        candidate = self._roster[job_id]
        policy = restart_policy(candidate.job)
        now_s = self._roster.now()
        self._settle(entries.supervisor_ended(candidate.entry, outcome, policy, now_s))

    def _lost(self, job_id: str, reason: str, run: RunRecord | None) -> None:
        candidate = self._roster[job_id]
        epoch = None if run is None else _last_epoch(run, candidate.entry.epoch)
        policy = restart_policy(candidate.job)
        now_s = self._roster.now()
        self._settle(entries.supervisor_lost(candidate.entry, reason, epoch, policy, now_s))

    def _left(self, job_id: str, reason: str) -> None:
        self._settle(entries.left(self._roster[job_id].entry, reason, self._roster.now()))

    def _settle(self, after: QueueEntry) -> None:
        """A job has no supervisor any more: it waits again, or has ended."""
        self._machine.look()
        if after.ended:
            self._roster.change(after)
            log.info("%s %s: %s", after.id, after.phase.value, after.reason)
        else:
            event = NewEvent("waits-again", after.id, {"reason": after.reason})
            self._roster.change(after, event)
            log.info("%s waits again: %s", after.id, after.reason)
        self._leaving.discard(after.id)

    async def _until_written(self, job_id: str, settle: Any) -> None:
        """On a full disk the job stays as it was until there is room to say otherwise."""
        while True:
            try:
                settle()
                return
            except StoreFull as error:
                log.error("%s: %s", job_id, error)
                await asyncio.sleep(_RETRY_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a defect", exc_info=error)


def admission_of(entry: QueueEntry, machine: MachineWatch) -> Admission:
    assert entry.plan is not None
    return Admission(
        number=entry.admission,
        run_id=entry.run_id,
        token=entry.token,
        plan=entry.plan,
        virtual_nodes=machine.virtual_nodes,
        nic_mbps=machine.nic_mbps,
        first_epoch=entry.epoch,
        restarts=entry.restarts,
    )


def wanted_of(entry: QueueEntry) -> Wanted:
    """What its supervisor is to do, as the job's record has it."""
    actions = {EntryState.RELEASING: Action.RELEASE, EntryState.STOPPING: Action.STOP}
    return Wanted(
        admission=entry.admission,
        action=actions.get(entry.state, Action.RUN),
        reason=entry.reason,
        now=entry.stop_now,
        plan=entry.plan,
    )


def restart_policy(job: TrainingJob) -> RestartPolicy:
    policy = job.spec.failure_policy
    return RestartPolicy(policy.restart is not Restart.NEVER, policy.max_restarts)


def _outcome_of_journal(entry: QueueEntry, run: RunRecord) -> Outcome | None:
    """Of a supervisor that was killed after the run's end and before it could say so."""
    phases = _phases(run)
    if not phases or not phases[-1].phase.final or not run.released_file.exists():
        return None
    last = phases[-1]
    gives_way = entry.state is EntryState.RELEASING and last.phase is Phase.STOPPED
    return Outcome(
        ending=Ending.RELEASED if gives_way else Ending.ENDED,
        phase=last.phase,
        reason=last.reason,
        epoch=max(entry.epoch, *(each.epoch for each in phases)),
        restarts=entry.restarts,
    )


def _last_epoch(run: RunRecord, first: int) -> int:
    return max([first, *(each.epoch for each in _phases(run))])


def _phases(run: RunRecord) -> list[PhaseChanged]:
    """None of a journal of a newer version: its job then counts as lost and starts again."""
    try:
        return list(read_journal(run.events_file, PhaseChanged))
    except BadInput as error:
        log.error("%s", error)
        return []
