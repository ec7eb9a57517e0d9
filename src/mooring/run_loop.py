"""One run from its first instruction to its last: the only loop, the only clock.

Events of the runtime go into the lifecycle, its instructions back to the runtime. Everything that
happens is written to the run directory; whoever shows it reads it from there.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring import frameworks, lifecycle
from mooring.backends.base import Order, Runtime
from mooring.backends.local.metering import CardMeter, machine_use
from mooring.interrupts import StopSignals
from mooring.lifecycle import (
    Event,
    Finish,
    Instruction,
    JobState,
    OpenGate,
    Placed,
    Resized,
    Stalled,
    StartFailed,
    StartMembers,
    StopMembers,
    StopRequested,
    Tick,
)
from mooring.model.cluster import Snapshot
from mooring.model.errors import BadInput, RunFailed
from mooring.model.member import Gang, MemberId
from mooring.model.plan import Plan, Refusal, with_member
from mooring.model.status import MemberState, Phase
from mooring.policy import policy_of
from mooring.record import RunRecord, plan_lock
from mooring.record.locks import exclusive
from mooring.record.plan_file import write_plan
from mooring.record.private import open_file, write_file
from mooring.spec import TrainingJob
from mooring.stacks import MISSING, OFF, find_tool
from mooring.wire import Journal, Record
from mooring.wire.events import (
    MachineUsed,
    MemberChanged,
    NodeTraffic,
    NoStacks,
    NotesLost,
    PhaseChanged,
    StallNoted,
    Surroundings,
)

if TYPE_CHECKING:
    from mooring.stalls import Stall, StallWatch

#: How long the loop waits for something to happen: short while members start, longer later.
_STARTING_WAIT_S = 0.1
_RUNNING_WAIT_S = 0.25
_NODE_COUNTERS_EVERY_S = 1.0
_LOOK_AGAIN_EVERY_S = 1.0
#: What looks at trainers is not even imported for a run that ends sooner.
_WATCH_AFTER_S = 1.0
#: Kept for the end of a run whose disk has filled up: a few hundred entries.
_SPARE_BYTES = 64 * 1024


@dataclass(frozen=True)
class RunEnd:
    """How a run ended; `epoch` and `restarts` are what its job would go on from."""

    phase: Phase
    reason: str
    run: RunRecord
    epoch: int = 0
    restarts: int = 0
    signals: tuple[int, ...] = ()
    """Those that were caught meanwhile, in this order."""


@dataclass(frozen=True)
class NewSize:
    """The members that a gang is to consist of from now on, their slots, and why."""

    gang: Gang
    plan: Plan
    reason: str


@dataclass(frozen=True)
class Beginning:
    """What a run goes on from, of a job that ran before, and who looks for room for it.

    `resize`: where a queue does, asked again and again for the size that it wants now, None while
    that is as it was; `has_room`: whether its slots are really free but for what this run holds.
    Without `resize`, members that had no place get one as soon as there is room.
    """

    epoch: int = 0
    restarts: int = 0
    resize: Callable[[], NewSize | None] | None = None
    has_room: Callable[[NewSize], bool] = lambda size: True


class RunLoop:
    """One run from its first instruction to its last."""

    def __init__(
        self,
        job: TrainingJob,
        gang: Gang,
        plan: Plan,
        run: RunRecord,
        runtime: Runtime,
        *,
        stacks: bool,
        begins: Beginning = Beginning(),  # noqa: B008 (frozen)
    ) -> None:
        self._begins = begins
        self._job, self._gang, self._plan, self._run, self._runtime = job, gang, plan, run, runtime
        self._members = {member.id: member for member in gang.members}
        self._framework = frameworks.find(job.spec.framework)
        self._policy = policy_of(job, gang)
        self._journal = Journal(run.events_file)
        # Notes that a full disk did not take: how many, and the last of each kind and member.
        self._lost_notes = 0
        self._last_notes: dict[tuple[str, str], Record] = {}
        with suppress(OSError):
            write_file(run.spare_file, "\n" * _SPARE_BYTES)
        self._state: JobState | None = None
        self._size: NewSize | None = None
        """The last size that was wanted, and whether the gang has yet to start with it."""
        self._size_is_due = False
        self._epoch_prepared: int | None = None
        self._counters_due_s = 0.0
        self._cards: CardMeter | None = None
        self._look_again_s = 0.0
        self._watch_from_s = time.monotonic() + _WATCH_AFTER_S
        self._tool = find_tool() if stacks else None
        self._no_tool = "" if self._tool else MISSING if stacks else OFF
        if not stacks:
            self._note(NoStacks(time.time(), reason=OFF))
        self._stalls: StallWatch | None = None
        self._stalled: int | None = None
        """The epoch in which the run stands still."""

    def until_end(
        self,
        signals: StopSignals,
        on_tick: Callable[[], None],
        stop_when: Callable[[], str | None],
    ) -> RunEnd:
        nodes = self._runtime.snapshot().nodes
        limits = {node.name: node.nic_mbps for node in nodes}
        self._cards = CardMeter(self._runtime.bytes_by_node, limits)
        self._cards.start()
        self._note(
            Surroundings(
                time.time(),
                enforces=self._runtime.enforces,
                nic_mbps=limits,
                topology={
                    node.name: tuple((cpu.id, cpu.l3, cpu.cell) for cpu in node.cpus)
                    for node in nodes
                },
                total_steps=self._job.spec.step_metrics.total_steps,
            )
        )
        placed = tuple(placement.member for placement in self._plan.placements)
        now_s = time.monotonic()
        state, instructions = lifecycle.begin(
            tuple(self._members),
            self._policy,
            placed,
            now_s,
            epoch=self._begins.epoch,
            restarts=self._begins.restarts,
        )
        self._record(None, state)
        self._state = state
        finish = self._carry_out(instructions)
        told_to_stop: str | None = None
        while finish is None:
            on_tick()
            now_s = time.monotonic()
            events: list[Event] = [StopRequested(reason) for reason in signals.take()]
            if (asked := stop_when()) is not None and asked != told_to_stop:
                told_to_stop = asked
                events.append(StopRequested(asked))
            events += self._runtime.poll(now_s, 0 if events else self._wait_s(now_s))
            if self._begins.resize is not None:
                events += self._look_for_size(self._begins.resize(), now_s)
            elif self._plan.waiting:
                events += self._place_waiting(events, now_s)
            events += self._look_for_stall(now_s)
            for event in [*events, Tick()]:
                finish = self._handle(event) or finish
            self._count_nodes(now_s)
        self._count_nodes(float("inf"))
        self._own_up()
        on_tick()
        assert self._state is not None
        epoch, restarts = self._state.epoch, self._state.restarts
        return RunEnd(finish.phase, finish.reason, self._run, epoch, restarts)

    def close(self) -> None:
        if self._cards is not None:
            self._cards.close()
        if self._stalls is not None:
            self._stalls.close()
        self._journal.close()
        self._run.spare_file.unlink(missing_ok=True)

    def _handle(self, event: Event) -> Finish | None:
        before = self._state
        assert before is not None
        state, instructions = lifecycle.handle(before, self._policy, event, time.monotonic())
        self._state = state
        self._record(before, state)
        return self._carry_out(instructions)

    def _carry_out(self, instructions: Sequence[Instruction]) -> Finish | None:
        finish: Finish | None = None
        for instruction in instructions:
            match instruction:
                case StartMembers():
                    try:
                        self._start(instruction)
                    except RunFailed as error:
                        failed = StartFailed(instruction.epoch, str(error), instruction.members)
                        finish = self._handle(failed) or finish
                case OpenGate(members=members):
                    self._runtime.open_gate(members)
                case StopMembers(members=members, grace_s=grace_s):
                    self._runtime.stop(members, grace_s, time.monotonic())
                case Finish():
                    finish = instruction
        return finish

    def _start(self, instruction: StartMembers) -> None:
        epoch = instruction.epoch
        if self._size is not None and self._size_is_due:
            self._take_size(self._size)
        if epoch != self._epoch_prepared:
            addresses = self._runtime.prepare(self._gang, self._plan, epoch)
            self._identities = frameworks.identify(self._job, self._gang, addresses, epoch)
            self._epoch_prepared = epoch
        orders = []
        for member_id, attempt in zip(instruction.members, instruction.attempts, strict=True):
            member = self._members[member_id]
            folder = str(self._run.member_dir(member.name))
            launch = self._framework.render(member, self._identities[member_id], folder)
            slot = self._plan.slot_of(member_id)
            orders.append(Order(member, slot, launch, epoch, attempt))
        self._runtime.start(orders)

    def _place_waiting(self, events: Iterable[Event], now_s: float) -> list[Event]:
        """Slots for members that had none: when one of ours has ended, and now and then.

        Now and then, because the room may come from a run that is not ours.
        """
        ended = {event.member for event in events if isinstance(event, lifecycle.MemberExited)}
        if not ended and now_s < self._look_again_s:
            return []
        from mooring.brain import place

        self._look_again_s = now_s + _LOOK_AGAIN_EVERY_S
        waiting = tuple(self._members[member] for member in self._plan.waiting)
        with exclusive(plan_lock()):
            rest = dataclasses.replace(self._gang, members=waiting)
            try:
                held = self._held(without=ended)
            except BadInput:
                return []  # a run of a newer Mooring holds nobody knows what
            more = place(rest, held)
            if isinstance(more, Refusal) or not more.placements:
                return []
            self._plan = dataclasses.replace(
                self._plan,
                placements=(*self._plan.placements, *more.placements),
                waiting=more.waiting,
            )
            write_plan(self._run.plan_file, self._gang, self._plan)
        return [Placed(tuple(placement.member for placement in more.placements))]

    def _look_for_size(self, wanted: NewSize | None, now_s: float) -> list[Event]:
        """A gang that grows first takes the room, once it is really free; one that shrinks gives
        its room back when its members have ended."""
        assert self._state is not None
        if wanted is None or wanted is self._size or self._state.outcome is not None:
            return []
        held = {placement.member for placement in self._plan.placements}
        if any(placement.member not in held for placement in wanted.plan.placements):
            if now_s < self._look_again_s:
                return []
            self._look_again_s = now_s + _LOOK_AGAIN_EVERY_S
            if not self._take_room(wanted):
                return []
        self._size, self._size_is_due = wanted, True
        return [Resized(tuple(each.member for each in wanted.plan.placements), wanted.reason)]

    def _take_room(self, wanted: NewSize) -> bool:
        with exclusive(plan_lock()):
            if not self._begins.has_room(wanted):
                return False
            write_plan(self._run.plan_file, wanted.gang, wanted.plan)
        return True

    def _take_size(self, new: NewSize) -> None:
        """Nobody of the gang is there any more: its next start is with these members."""
        self._size_is_due = False
        self._gang, self._plan = new.gang, new.plan
        self._members = {member.id: member for member in new.gang.members}
        self._policy = policy_of(self._job, new.gang)
        if self._stalls is not None:
            self._stalls.close()
            self._stalls = None
        with exclusive(plan_lock()):
            write_plan(self._run.plan_file, new.gang, new.plan)

    def _look_for_stall(self, now_s: float) -> list[Event]:
        """Notes a standstill, with everybody's stacks, and its end."""
        assert self._state is not None
        if self._state.phase is not Phase.RUNNING:
            return []
        if self._stalls is None:
            if now_s < self._watch_from_s:
                return []
            self._stalls = self._stall_watch()
        stall = self._stalls.poll(now_s)
        if self._stalled == self._state.epoch and not self._stalls.stalled:
            self._stalled = None
            self._note(StallNoted(time.time(), over=True))
        if stall is None:
            return []
        self._stalled = self._state.epoch
        self._note_stall(stall)
        return [Stalled(self._state.epoch, stall.says)] if stall.due else []

    def _stall_watch(self) -> StallWatch:
        from mooring.stalls import StallWatch

        return StallWatch(
            self._run,
            {member.name: self._gang.duty_of(member.id.role) for member in self._gang.members},
            tool=self._tool,
            why_no_tool=self._no_tool,
            limit_s=self._job.spec.failure_policy.stall_timeout_s,
        )

    def _note_stall(self, stall: Stall) -> None:
        file = self._run.stall_file
        with suppress(OSError), open_file(file, append=True) as stacks:
            stacks.write(stall.text().encode(errors="replace"))
        self._note(stall.record(time.time(), file.name))

    def _held(self, without: set[MemberId]) -> Snapshot:
        """The nodes with what others and our own live members hold on them."""
        assert self._state is not None
        snapshot = self._runtime.snapshot()
        use = {node.name: snapshot.use_of(node.name) for node in snapshot.nodes}
        for placement in self._plan.placements:
            if placement.member in without or not self._state.members[placement.member].state.alive:
                continue
            slot, member = placement.slot, self._members[placement.member]
            use[slot.node] = with_member(use[slot.node], member, slot)
        return replace(snapshot, use=use)

    def _wait_s(self, now_s: float) -> float:
        assert self._state is not None
        wait_s = _RUNNING_WAIT_S if self._state.phase is Phase.RUNNING else _STARTING_WAIT_S
        wakeup_s = lifecycle.next_wakeup_s(self._state, self._policy)
        if wakeup_s is not None:
            wait_s = min(wait_s, max(0.0, wakeup_s - now_s))
        return wait_s

    def _record(self, before: JobState | None, after: JobState) -> None:
        now_s = time.time()
        for member in after.members:
            changed = _member_record(now_s, after, member)
            if (
                before is None
                or member not in before.members
                or _member_record(now_s, before, member) != changed
            ):
                self._note(changed)
        for member in before.members if before is not None else ():
            if member not in after.members:
                assert before is not None
                last = _member_record(now_s, before, member)
                self._note(replace(last, state=MemberState.ENDED))
        if before is None or (before.phase, before.epoch) != (after.phase, after.epoch):
            # The reason is the last failure; once members run again it is history.
            over = after.phase.final or after.phase in (Phase.RESTARTING, Phase.STOPPING)
            reason = after.reason if over else ""
            self._note(PhaseChanged(now_s, after.phase, after.epoch, reason))

    def _note(self, record: Record) -> None:
        # A full disk must not end a training that still works; the console still tells.
        try:
            self._journal.append(record)
        except OSError:
            self._lost_notes += 1
            member = record.member if isinstance(record, MemberChanged) else ""
            self._last_notes[record.kind, member] = record

    def _own_up(self) -> None:
        """At the end: room was kept for how it ended, and for how much of the record is missing."""
        if self._lost_notes:
            self._run.spare_file.unlink(missing_ok=True)
            with suppress(OSError):
                self._journal.append(NotesLost(time.time(), self._lost_notes))
                for kind in (MemberChanged.kind, PhaseChanged.kind):
                    for (lost, _), record in self._last_notes.items():
                        if lost == kind:
                            self._journal.append(record)

    def _count_nodes(self, now_s: float) -> None:
        if now_s < self._counters_due_s:
            return
        self._counters_due_s = now_s + _NODE_COUNTERS_EVERY_S
        counters = self._runtime.bytes_by_node()
        if counters:
            busy_s = self._cards.busy_s() if self._cards is not None else {}
            self._note(NodeTraffic(time.time(), counters, busy_s))
        machine = machine_use()
        if machine is not None:
            self._note(MachineUsed(time.time(), **dataclasses.asdict(machine)))


def _member_record(now_s: float, state: JobState, member: MemberId) -> MemberChanged:
    status = state.members[member]
    return MemberChanged(
        now_s,
        member.name,
        status.state,
        state.epoch,
        status.attempt,
        status.exit_code,
        status.reason,
    )
