"""The machine's queue as a running thing: what happens leads to rounds, rounds to runs.

All state is in the store and in the jobs' folders. Each change is written down before anything is
done about it; after a crash whatever was left undone is done again, and nothing twice. It lives in
one event loop, and what takes long is done in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence

from mooring.backends.local.holders import of_machine
from mooring.backends.local.queue import entry as entries
from mooring.backends.local.queue.admission import Candidate, Round, Sharing, round_of
from mooring.backends.local.queue.documents import Admission, PromisedPlan
from mooring.backends.local.queue.entry import EntryState, QueueEntry
from mooring.backends.local.queue.machine_watch import MachineWatch
from mooring.backends.local.queue.pools_file import PoolsWatch
from mooring.backends.local.queue.roster import Roster, waits
from mooring.backends.local.queue.store import NewEvent, StoreFull
from mooring.backends.local.queue.supervision import Supervision
from mooring.brain import queue
from mooring.model.member import MemberId
from mooring.model.plan import Plan
from mooring.record.runs import new_run_name

log = logging.getLogger(__name__)

#: Changes come in bursts: a round waits for those that come with the first.
_PAUSE_S = 0.005
_REST_S = 0.02
#: Ageing and expected ends let room appear although nothing happens.
_AT_LEAST_EVERY_S = 30.0
_LOOK_EVERY_S = 0.2
_IDLE_LOOK_EVERY_S = 1.0
_ASIDE_S = 60.0


class QueueService:
    """Jobs go into the `roster`; `run` lets them run."""

    def __init__(self, roster: Roster, machine: MachineWatch, pools: PoolsWatch) -> None:
        self.roster, self.machine, self._pools = roster, machine, pools
        self._supervision = Supervision(roster, machine)
        self._due = asyncio.Event()
        self._aside: dict[str, float] = {}
        self._round: Round | None = None
        self._sentences: dict[str, str] | None = None
        roster.changed = self._changed

    # -- what is asked of it

    @property
    def sharing(self) -> Sharing:
        return self._pools.sharing

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever looks at the queue should know."""
        return (*self.roster.notes, *filter(None, [self._pools.refused]))

    def stop(self, job_id: str, reason: str, *, now: bool) -> None:
        """Raises KeyError if it has ended or never was, and StoreFull."""
        before = self.roster[job_id].entry
        after = entries.stop_requested(before, reason, now=now, now_s=self.roster.now())
        if after != before:
            event = NewEvent("stopping", job_id, {"reason": reason, "now": now})
            self.roster.change(after, event)
            self._supervision.tell(job_id)

    def round(self) -> Round:
        """The queue as it is now."""
        if self._round is None:
            self._round = self._look(self.roster)
        return self._round

    def sentences(self) -> dict[str, str]:
        """Of each job that waits, why."""
        if self._sentences is None:
            now_s = self.roster.now()
            decisions = self.round().decide(now_s, explain=True)
            said = {
                one.job: of_machine(one.sentence)
                for one in decisions
                if isinstance(one, queue.Wait)
            }
            for candidate in self.roster:
                entry = candidate.entry
                if waits(candidate) and entry.not_before_s > now_s:
                    wait_s = entry.not_before_s - now_s
                    said[entry.id] = f"{entry.id} tries again in {wait_s:.0f} s: {entry.reason}"
            self._sentences = said
        return self._sentences

    # -- its life

    async def run(self) -> None:
        """Until cancelled. Jobs go on after that."""
        self.machine.look()
        self.roster.load()
        self._supervision.resume()
        self._due.set()
        watching = asyncio.ensure_future(self._watch_machine())
        try:
            await self._hold_rounds()
        finally:
            watching.cancel()
            self._supervision.close()

    def _changed(self) -> None:
        self._round = self._sentences = None
        self._due.set()

    async def _watch_machine(self) -> None:
        while True:
            busy = any(each.entry.state.supervised for each in self.roster)
            await asyncio.sleep(_LOOK_EVERY_S if busy else _IDLE_LOOK_EVERY_S)
            with contextlib.suppress(StoreFull):
                self._supervision.tell_again()
                self._supervision.look_at_foreground()
                if self.machine.look():
                    self._supervision.note_running()
                    self._changed()
                if self._pools.look():
                    self._pools_changed()

    def _pools_changed(self) -> None:
        refused = self._pools.refused
        if refused:
            log.error("%s", refused)
        else:
            log.info("the pools were read again: %d", len(self.sharing.pools))
        self.roster.tell(
            NewEvent("pools", "", {"pools": len(self.sharing.pools), "refused": refused})
        )
        self._changed()

    async def _hold_rounds(self) -> None:
        ended_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), self._rest_s())
            await asyncio.sleep(max(_PAUSE_S, ended_s + _REST_S - time.monotonic()))
            self._due.clear()
            try:
                self._hold_round()
            except StoreFull as error:
                log.error("%s", error)
                await asyncio.sleep(_IDLE_LOOK_EVERY_S)
                self._due.set()
            ended_s = time.monotonic()

    def _rest_s(self) -> float:
        now_s = self.roster.now()
        later = [
            each.entry.not_before_s - now_s
            for each in self.roster
            if waits(each) and each.entry.not_before_s > now_s
        ]
        return min([_AT_LEAST_EVERY_S, *later])

    # -- rounds

    def _look(self, candidates: Iterable[Candidate]) -> Round:
        now_s = self.roster.now()
        self._aside = {job: until_s for job, until_s in self._aside.items() if until_s > now_s}
        counted = [each for each in candidates if each.entry.id not in self._aside]
        cut, runs = self.machine.cut(), self.machine.runs
        return round_of(counted, cut, runs, self.sharing, now_s)

    def _hold_round(self) -> None:
        self.machine.look()
        self._supervision.note_running()
        self._supervision.look_at_foreground()
        if not any(waits(each) or each.may_grow for each in self.roster):
            return
        # Ageing and times that have come change the answer although nothing has happened.
        self._round = self._sentences = None
        decisions = self._decided()
        self._carry_out([one for one in decisions if not isinstance(one, queue.Wait)])

    def _decided(self) -> Sequence[queue.Decision]:
        now_s = self.roster.now()
        try:
            return self.round().decide(now_s, explain=False)
        except Exception:
            log.exception("a round failed: a defect; the jobs that wait are tried one by one")
        others = [each for each in self.roster if each.entry.state.supervised]
        for candidate in filter(waits, self.roster):
            try:
                self._look([*others, candidate]).decide(now_s, explain=False)
            except Exception as error:
                name = type(error).__name__
                log.error("%s is left out for a while: %s", candidate.entry.id, name)
                self._aside[candidate.entry.id] = now_s + _ASIDE_S
        self._round = None
        return self.round().decide(now_s, explain=False)

    def _carry_out(self, decisions: Sequence[queue.Decision]) -> None:
        """All of a round is written down at once: those after others may count on them."""
        if not decisions:
            return
        changed: dict[str, QueueEntry] = {}
        events = []
        admitted = {each.job for each in decisions if isinstance(each, queue.Admit)}
        for decision in decisions:
            before = changed.get(decision.job) or self.roster[decision.job].entry
            changed[before.id], event = self._after(decision, before)
            events.append(event)
        self.roster.change_all(list(changed.values()), events)
        for job_id, after in changed.items():
            if after.state is EntryState.STARTING and job_id in admitted:
                self._supervision.start(job_id)
            else:
                self._supervision.tell(job_id)

    def _after(self, decision: queue.Decision, entry: QueueEntry) -> tuple[QueueEntry, NewEvent]:
        """The job's record once the decision holds, and what is told of it."""
        match decision:
            case queue.Admit(plan=plan):
                given = self._admission(entry, plan)
                count = len(plan.placements)
                log.info("%s is admitted with %d members", entry.id, count)
                event = NewEvent("admitted", entry.id, {"run": given.run_id, "members": count})
                return entries.admitted(entry, given, self.roster.now()), event
            case queue.Preempt(reason=reason, for_job=for_job):
                log.info("%s", reason)
                event = NewEvent("preempted", entry.id, {"reason": reason, "for": for_job})
                return entries.preempted(entry, reason), event
            case queue.Shrink(members=members, reason=reason, for_job=for_job):
                log.info("%s", reason)
                kept = _without(entry.plan, members)
                event = NewEvent("shrinks", entry.id, {"reason": reason, "for": for_job})
                return entries.resized(entry, kept, reason), event
            case queue.Grow(plan=plan):
                reason = f"{entry.id} grows to {len(plan.placements)} members"
                log.info("%s", reason)
                event = NewEvent("grows", entry.id, {"members": len(plan.placements)})
                return entries.resized(entry, PromisedPlan.of(plan), reason), event
            case queue.Wait():
                raise ValueError("a wait changes nothing")

    def _admission(self, entry: QueueEntry, plan: Plan) -> Admission:
        name = new_run_name(entry.name)
        return Admission(
            number=entry.admission + 1,
            run_id=name.id,
            token=name.token,
            plan=PromisedPlan.of(plan),
            virtual_nodes=self.machine.virtual_nodes,
            nic_mbps=self.machine.nic_mbps,
            first_epoch=entry.epoch,
            restarts=entry.restarts,
        )


def _without(plan: PromisedPlan | None, members: Iterable[MemberId]) -> PromisedPlan:
    assert plan is not None
    gone = {(member.role, member.index) for member in members}
    kept = tuple(slot for slot in plan.slots if (slot.role, slot.index) not in gone)
    return plan.model_copy(update={"slots": kept})
