"""Whatever happens in whatever order, a job keeps its promises and comes to an end.

A small world carries the instructions out: attempts are born, report and die at random, with
late and repeated reports mixed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.lifecycle import (
    Backoff,
    Event,
    Finish,
    Instruction,
    MemberExited,
    MemberReady,
    MemberRunning,
    OpenGate,
    Placed,
    Policy,
    StartFailed,
    StartMembers,
    StopMembers,
    StopRequested,
    Tick,
    begin,
    handle,
    next_wakeup_s,
)
from mooring.model.member import MemberId, Restart
from mooring.model.status import MemberState, Phase

MEMBERS = (MemberId("ps", 0), MemberId("worker", 0), MemberId("worker", 1), MemberId("chief", 0))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        success_roles=draw(st.sampled_from([(), ("worker",), ("chief",)])),
        success_mode=draw(st.sampled_from(["all", "any"])),
        restart={member: draw(st.sampled_from(Restart)) for member in MEMBERS},
        max_restarts=draw(st.integers(0, 3)),
        backoff=Backoff(draw(st.sampled_from([0.0, 1.0])), 2.0, 4.0),
        time_limit_s=draw(st.sampled_from([None, 30.0])),
        start_timeout_s=draw(st.sampled_from([5.0, 300.0])),
        all_or_nothing=draw(st.booleans()),
    )


@dataclass
class World:
    """The attempts that are alive, and a check of every instruction against them."""

    epoch: int = 0
    alive: dict[MemberId, tuple[int, int]] = field(default_factory=dict)
    gates: set[tuple[MemberId, int, int]] = field(default_factory=set)
    told: set[MemberId] = field(default_factory=set)
    finished: list[Finish] = field(default_factory=list)
    born: set[tuple[MemberId, int, int]] = field(default_factory=set)
    reported: list[Event] = field(default_factory=list)

    def obey(self, instructions: tuple[Instruction, ...]) -> None:
        for instruction in instructions:
            assert not self.finished, "an instruction after Finish"
            match instruction:
                case StartMembers(members, epoch, attempts):
                    assert members
                    assert epoch >= self.epoch
                    if epoch > self.epoch:
                        assert not self.alive, "a new epoch beside the old one"
                    self.epoch = epoch
                    for member, attempt in zip(members, attempts, strict=True):
                        assert member not in self.alive, "two live attempts"
                        assert (member, epoch, attempt) not in self.born, "the same attempt twice"
                        self.born.add((member, epoch, attempt))
                        self.alive[member] = (epoch, attempt)
                        self.told.discard(member)
                case OpenGate(members, epoch):
                    assert members
                    for member in members:
                        assert self.alive[member][0] == epoch
                        assert (member, *self.alive[member]) not in self.gates, "opened twice"
                        self.gates.add((member, *self.alive[member]))
                case StopMembers(members, epoch, _):
                    assert members
                    for member in members:
                        assert self.alive[member][0] == epoch
                        self.told.add(member)
                case Finish():
                    assert not self.alive, "over, but something is alive"
                    self.finished.append(instruction)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(policies(), st.data())
def test_promises_hold_and_the_job_ends(policy: Policy, data: st.DataObject) -> None:
    world = World()
    now_s = 0.0
    some = st.lists(st.sampled_from(MEMBERS), unique=True)
    state, instructions = begin(MEMBERS, policy, data.draw(some), now_s)
    world.obey(instructions)

    def send(event: Event) -> None:
        nonlocal state
        was_final = state.phase.final
        state, instructions = handle(state, policy, event, now_s)
        world.reported.append(event)
        if was_final:
            assert not instructions
        world.obey(instructions)
        living = {m for m, status in state.members.items() if status.state.alive}
        assert living == set(world.alive), "the state and the world disagree on who is alive"
        assert state.phase.final == bool(world.finished)
        for member in living & world.told:
            assert state.members[member].state is MemberState.STOPPING

    kinds = ["ready", "running", "exit", "late", "stop", "place", "pass time", "fail to start"]
    for kind in data.draw(
        st.lists(st.sampled_from(kinds * 3 + ["ready", "running"] * 6), max_size=40)
    ):
        living = sorted(world.alive)
        if kind in ("ready", "running", "exit") and living:
            member = data.draw(st.sampled_from(living))
            epoch, attempt = world.alive[member]
            if kind == "ready":
                send(MemberReady(member, epoch, attempt))
            elif kind == "running" and (member, epoch, attempt) in world.gates:
                send(MemberRunning(member, epoch, attempt))
            elif kind == "exit":
                del world.alive[member]
                send(
                    MemberExited(member, epoch, attempt, data.draw(st.sampled_from([0, 0, 1, 137])))
                )
        elif kind == "late" and world.reported:
            event = data.draw(st.sampled_from(world.reported))
            if isinstance(event, MemberReady | MemberRunning | MemberExited) and (
                event.member not in world.alive
                or world.alive[event.member] != (event.epoch, event.attempt)
            ):
                send(event)
        elif kind == "stop" and data.draw(st.integers(0, 5)) == 5:
            send(StopRequested("asked"))
        elif kind == "place":
            send(Placed(tuple(data.draw(some))))
        elif kind == "pass time":
            now_s += data.draw(st.sampled_from([0.5, 1.0, 4.0, 6.0]))
            send(Tick())
        elif kind == "fail to start":
            closed = [m for m in living if (m, *world.alive[m]) not in world.gates]
            if closed:
                for member in closed:
                    del world.alive[member]
                send(StartFailed(world.epoch, "disk full", tuple(closed)))

    # From here on: everybody who is told to stop ends, and somebody asks for the end.
    send(StopRequested("the end"))
    for member, (epoch, attempt) in sorted(world.alive.items()):
        assert member in world.told, "alive, and nobody told it to stop"
        del world.alive[member]
        send(MemberExited(member, epoch, attempt, 143))
    assert state.phase.final
    assert len(world.finished) == 1
    assert world.finished[0].phase is state.phase
    assert next_wakeup_s(state, policy) is None


@settings(max_examples=200, deadline=None)
@given(policies(), st.data())
def test_without_a_stop_a_job_whose_members_end_ends(policy: Policy, data: st.DataObject) -> None:
    """No restart goes on for ever: the restarts allowed bound the number of attempts."""
    world = World()
    now_s = 0.0
    state, instructions = begin(MEMBERS, policy, MEMBERS, now_s)
    world.obey(instructions)
    for _ in range(2000):
        if world.finished:
            break
        living = sorted(world.alive)
        event: Event
        if living:
            member = data.draw(st.sampled_from(living)) if len(world.born) < 12 else living[0]
            code = data.draw(st.sampled_from([0, 1])) if len(world.born) < 12 else 1
            event = MemberExited(member, *world.alive.pop(member), code)
        else:
            wakeup_s = next_wakeup_s(state, policy)
            assert wakeup_s is not None, "nothing alive, nothing due: the job would hang"
            now_s = max(now_s, wakeup_s)
            event = Tick()
        state, instructions = handle(state, policy, event, now_s)
        world.obey(instructions)
    assert state.phase in (Phase.SUCCEEDED, Phase.FAILED)
