"""The life of a job, walked by hand: each scenario says what happens and what must follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import pytest

from mooring.lifecycle import (
    Backoff,
    Event,
    Finish,
    Instruction,
    JobState,
    MemberExited,
    MemberReady,
    MemberRunning,
    OpenGate,
    Placed,
    Policy,
    Resized,
    Stalled,
    StartFailed,
    StartMembers,
    StopMembers,
    StopRequested,
    Tick,
    begin,
    handle,
    next_wakeup_s,
)
from mooring.lifecycle.wording import names
from mooring.model.member import MemberId, Restart
from mooring.model.status import MemberState, Phase

PS = MemberId("ps", 0)
W0, W1 = MemberId("worker", 0), MemberId("worker", 1)
ALL = (PS, W0, W1)


class Walk:
    """Drives one job; remembers the last instructions."""

    def __init__(self, policy: Policy, placed: Iterable[MemberId] = ALL) -> None:
        self.policy = policy
        self.now_s = 100.0
        self.state: JobState
        self.last: tuple[Instruction, ...]
        self.state, self.last = begin(ALL, policy, placed, self.now_s)

    def __call__(self, event: Event, at_s: float | None = None) -> tuple[Instruction, ...]:
        self.now_s = self.now_s if at_s is None else at_s
        self.state, self.last = handle(self.state, self.policy, event, self.now_s)
        return self.last

    def ready(self, *members: MemberId) -> tuple[Instruction, ...]:
        for member in members:
            self(MemberReady(member, self.state.epoch, self.attempt(member)))
        return self.last

    def running(self, *members: MemberId) -> tuple[Instruction, ...]:
        for member in members:
            self(MemberRunning(member, self.state.epoch, self.attempt(member)))
        return self.last

    def exits(
        self, code: int, *members: MemberId, at_s: float | None = None
    ) -> tuple[Instruction, ...]:
        for member in members:
            self(MemberExited(member, self.state.epoch, self.attempt(member), code), at_s)
        return self.last

    def tick(self, at_s: float) -> tuple[Instruction, ...]:
        return self(Tick(), at_s)

    def attempt(self, member: MemberId) -> int:
        return self.state.members[member].attempt

    def states(self) -> str:
        return " ".join(self.state.members[member].state.value for member in ALL)


def policy(mode: Restart = Restart.NEVER, /, **more: object) -> Policy:
    values: dict[str, object] = {
        "success_roles": ("worker",),
        "restart": dict.fromkeys(ALL, mode),
        "backoff": Backoff(1.0, 2.0, 60.0),
        **more,
    }
    return Policy(**values)  # type: ignore[arg-type]


def running(mode: Restart = Restart.NEVER, /, **more: object) -> Walk:
    walk = Walk(policy(mode, **more))
    walk.ready(*ALL)
    walk.running(*ALL)
    assert walk.state.phase is Phase.RUNNING
    return walk


# -- starting


def test_the_gate_opens_when_all_are_ready() -> None:
    walk = Walk(policy())
    assert walk.last == (StartMembers(ALL, 0, (0, 0, 0)),)
    assert walk.state.phase is Phase.STARTING
    assert walk.ready(PS, W1) == ()
    assert walk.ready(W0) == (OpenGate(ALL, 0),)
    assert walk.ready(W0) == ()
    assert walk.running(PS, W0) == ()
    assert walk.state.phase is Phase.STARTING
    walk.running(W1)
    assert walk.state.phase is Phase.RUNNING
    assert walk.states() == "running running running"


def test_a_gang_does_not_start_before_all_have_slots() -> None:
    walk = Walk(policy(), placed=(PS, W0))
    assert walk.last == ()
    assert walk.state.phase is Phase.PENDING
    assert walk(Placed((W1,))) == (StartMembers(ALL, 0, (0, 0, 0)),)


def test_a_part_starts_if_it_may_and_the_rest_follows() -> None:
    walk = Walk(policy(all_or_nothing=False), placed=(PS, W0))
    assert walk.last == (StartMembers((PS, W0), 0, (0, 0)),)
    assert walk.ready(PS, W0) == (OpenGate((PS, W0), 0),)
    walk.running(PS, W0)
    assert walk.state.phase is Phase.RUNNING
    assert walk(Placed((W0, W1, W1, MemberId("stranger", 0)))) == (StartMembers((W1,), 0, (0,)),)
    assert walk.ready(W1) == (OpenGate((W1,), 0),)
    walk.running(W1)
    walk.exits(0, W0)
    assert walk.exits(0, W1) == (StopMembers((PS,), 0, 10.0),)


def test_success_waits_for_members_that_still_wait_for_slots() -> None:
    walk = Walk(policy(all_or_nothing=False), placed=(PS, W0))
    walk.ready(PS, W0)
    walk.running(PS, W0)
    assert walk.exits(0, W0) == ()
    assert walk(Placed((W1,))) == (StartMembers((W1,), 0, (0,)),)


def test_what_cannot_be_started_at_all_fails_without_a_restart() -> None:
    walk = Walk(policy(Restart.GANG))
    walk.ready(PS)
    assert walk(StartFailed(0, "no space left on device")) == (
        Finish(
            Phase.FAILED,
            "could not start ps-0, worker-0 and worker-1: no space left on device",
        ),
    )
    assert walk.states() == "failed failed failed"


def test_a_member_that_cannot_be_started_again_uses_up_its_restarts() -> None:
    walk = running(Restart.MEMBER, max_restarts=1)
    walk.exits(1, W0, at_s=101)
    assert walk.tick(102) == (StartMembers((W0,), 0, (1,)),)
    assert walk(StartFailed(0, "port taken", (W0,))) == (StopMembers((PS, W1), 0, 10.0),)
    assert walk.exits(0, PS, W1) == (
        Finish(Phase.FAILED, "could not start worker-0: port taken after 1 restart"),
    )


def test_a_gang_that_cannot_be_started_again_uses_up_its_restarts() -> None:
    walk = running(Restart.GANG, max_restarts=2)
    walk.exits(1, *ALL, at_s=101)
    assert walk.tick(102) == (StartMembers(ALL, 1, (0, 0, 0)),)
    assert walk(StartFailed(1, "port taken")) == ()
    assert walk.state.phase is Phase.RESTARTING
    assert next_wakeup_s(walk.state, walk.policy) == 104
    assert walk.tick(104) == (StartMembers(ALL, 2, (0, 0, 0)),)
    (finish,) = walk(StartFailed(2, "port taken"))
    assert isinstance(finish, Finish)
    assert finish.reason.endswith("port taken after 2 restarts")


@pytest.mark.parametrize(
    ("ready", "reason"),
    [
        ((PS,), "worker-0 and worker-1 were not ready within 5m"),
        ((PS, W0), "worker-1 was not ready within 5m"),
        (ALL, "ps-0, worker-0 and worker-1 were not running within 5m"),
    ],
)
def test_the_start_has_a_time_out_that_names_who_is_late(
    ready: tuple[MemberId, ...], reason: str
) -> None:
    walk = Walk(policy())
    walk.ready(*ready)
    assert next_wakeup_s(walk.state, walk.policy) == 400
    assert walk.tick(399) == ()
    assert walk.tick(400) == (StopMembers(ALL, 0, 10.0),)
    assert walk.exits(143, *ALL) == (Finish(Phase.FAILED, reason),)


def test_a_late_gang_is_started_again_if_its_members_may_be() -> None:
    walk = Walk(policy(Restart.MEMBER))
    walk.tick(400)
    assert walk.state.phase is Phase.RESTARTING
    walk.exits(143, *ALL)
    assert walk.tick(401) == (StartMembers(ALL, 1, (0, 0, 0)),)


# -- success


def test_the_job_succeeds_when_all_of_the_roles_have() -> None:
    walk = running()
    assert walk.exits(0, W1) == ()
    assert walk.exits(0, W0) == (StopMembers((PS,), 0, 10.0),)
    assert walk.state.phase is Phase.STOPPING
    assert walk.exits(143, PS) == (
        Finish(Phase.SUCCEEDED, "worker-0 and worker-1 exited with code 0"),
    )
    assert walk.state.phase is Phase.SUCCEEDED
    assert walk.states() == "ended succeeded succeeded"
    assert walk.state.members[PS].exit_code == 143


def test_any_member_of_the_roles_may_be_enough() -> None:
    walk = running(success_mode="any")
    assert walk.exits(0, PS) == ()
    assert walk.exits(0, W1) == (StopMembers((W0,), 0, 10.0),)
    assert walk.exits(1, W0) == (Finish(Phase.SUCCEEDED, "worker-1 exited with code 0"),)
    assert walk.states() == "succeeded ended succeeded"


@pytest.mark.parametrize("roles", [(), ("nobody",)])
def test_without_roles_of_its_own_the_whole_gang_counts(roles: tuple[str, ...]) -> None:
    walk = running(success_roles=roles)
    assert walk.exits(0, PS, W0) == ()
    (finish,) = walk.exits(0, W1)
    assert isinstance(finish, Finish)
    assert finish.phase is Phase.SUCCEEDED


# -- failure


@pytest.mark.parametrize(
    ("code", "why", "reason"),
    [
        (3, "", "worker-1 exited with code 3"),
        (137, "", "worker-1 was killed by SIGKILL (exit code 137)"),
        (
            137,
            "over its memory limit of 100 MiB",
            "worker-1 was killed by SIGKILL (exit code 137): over its memory limit of 100 MiB",
        ),
        (127, "no such command: trian", "worker-1 exited with code 127: no such command: trian"),
        (128, "", "worker-1 exited with code 128"),
        (255, "", "worker-1 exited with code 255"),
    ],
)
def test_a_failure_ends_the_job(code: int, why: str, reason: str) -> None:
    walk = running()
    assert walk(MemberExited(W1, 0, 0, code, why)) == (StopMembers((PS, W0), 0, 10.0),)
    assert walk.exits(143, PS) == ()
    assert walk.exits(0, W0) == (Finish(Phase.FAILED, reason),)
    assert walk.states() == "ended ended failed"
    assert walk.state.members[W0].exit_code == 0


def test_a_member_restarts_after_its_back_off_and_passes_its_own_gate() -> None:
    walk = running(Restart.MEMBER)
    assert walk.exits(1, W0, at_s=200) == ()
    assert walk.state.phase is Phase.RUNNING
    assert walk.states() == "running waiting running"
    assert next_wakeup_s(walk.state, walk.policy) == 201
    assert walk.tick(200.5) == ()
    assert walk.tick(201) == (StartMembers((W0,), 0, (1,)),)
    assert walk.ready(W0) == (OpenGate((W0,), 0),)
    walk.running(W0)
    # 1 s, 2 s, 4 s
    walk.exits(1, W0, at_s=300)
    assert walk.tick(301.9) == ()
    assert walk.tick(302) == (StartMembers((W0,), 0, (2,)),)
    walk.exits(1, W0, at_s=400)
    assert walk.tick(404) == (StartMembers((W0,), 0, (3,)),)
    assert walk.exits(1, W0) == (StopMembers((PS, W1), 0, 10.0),)
    assert walk.exits(143, PS, W1) == (
        Finish(Phase.FAILED, "worker-0 exited with code 1 after 3 restarts"),
    )


def test_a_member_that_fails_before_the_gate_is_waited_for() -> None:
    walk = Walk(policy(Restart.MEMBER))
    walk.exits(1, W0, at_s=100)
    assert walk.ready(PS, W1) == ()
    assert walk.tick(101) == (StartMembers((W0,), 0, (1,)),)
    assert walk.ready(W0) == (OpenGate(ALL, 0),)


def test_one_that_is_done_before_the_gate_is_not_waited_for() -> None:
    walk = Walk(policy())
    walk.ready(W0, W1)
    assert walk.exits(0, PS) == (OpenGate((W0, W1), 0),)


def test_the_gang_restarts_whole_in_a_new_epoch() -> None:
    walk = running(Restart.GANG)
    walk.exits(0, W1)
    assert walk.exits(1, W0, at_s=200) == (StopMembers((PS,), 0, 10.0),)
    assert walk.state.phase is Phase.RESTARTING
    assert walk.state.reason == "worker-0 exited with code 1"
    assert walk.tick(202) == (), "ps-0 is still alive"
    assert walk.exits(143, PS, at_s=205) == ()
    assert next_wakeup_s(walk.state, walk.policy) == 206
    assert walk.tick(206) == (StartMembers(ALL, 1, (0, 0, 0)),)
    assert walk.state.phase is Phase.STARTING
    assert walk.ready(*ALL) == (OpenGate(ALL, 1),)
    walk.running(*ALL)
    walk.exits(0, W0, W1)
    assert walk.exits(0, PS)[-1] == Finish(
        Phase.SUCCEEDED, "worker-0 and worker-1 exited with code 0"
    )


def test_the_gang_restarts_so_often_and_no_more() -> None:
    walk = running(Restart.GANG, max_restarts=1, backoff=Backoff(0.0))
    walk.exits(1, W0)
    walk.exits(143, PS)
    assert walk.exits(143, W1) == (StartMembers(ALL, 1, (0, 0, 0)),), "no back-off, no wait"
    walk.exits(1, W0)
    assert walk.exits(1, PS, W1) == (
        Finish(Phase.FAILED, "worker-0 exited with code 1 after 1 restart"),
    )


def test_a_gang_restart_takes_over_from_a_member_restart() -> None:
    walk = Walk(policy(restart={PS: Restart.GANG, W0: Restart.MEMBER, W1: Restart.MEMBER}))
    walk.ready(*ALL)
    walk.running(*ALL)
    walk.exits(1, W0, at_s=200)
    assert walk.exits(1, PS, at_s=200) == (StopMembers((W1,), 0, 10.0),)
    assert walk.states() == "failed failed stopping"
    assert next_wakeup_s(walk.state, walk.policy) is None, "only the end of worker-1 counts"
    assert walk.tick(201) == ()
    walk.exits(143, W1, at_s=202)
    assert walk.tick(203) == (StartMembers(ALL, 1, (0, 0, 0)),)


def test_no_restarts_allowed() -> None:
    for mode in (Restart.MEMBER, Restart.GANG):
        walk = running(mode, max_restarts=0)
        walk.exits(1, W0)
        assert walk.exits(143, PS, W1) == (Finish(Phase.FAILED, "worker-0 exited with code 1"),)


def test_the_back_off_is_bounded() -> None:
    backoff = Backoff(1.0, 10.0, 60.0)
    assert [backoff.delay_s(n) for n in (0, 1, 2, 100_000)] == [1, 10, 60, 60]


def test_over_the_time_limit() -> None:
    walk = running(time_limit_s=7200.0)
    assert next_wakeup_s(walk.state, walk.policy) == 7300
    assert walk.tick(7299) == ()
    assert walk.tick(7300) == (StopMembers(ALL, 0, 10.0),)
    assert next_wakeup_s(walk.state, walk.policy) is None
    assert walk.exits(143, *ALL) == (Finish(Phase.FAILED, "over its time limit of 2h"),)


def test_the_time_limit_counts_restarts_in() -> None:
    walk = running(Restart.GANG, time_limit_s=50.0)
    walk.exits(1, *ALL, at_s=149.5)
    assert walk.tick(150) == (Finish(Phase.FAILED, "over its time limit of 50s"),)


# -- stopping


def test_stop_and_stop_at_once() -> None:
    walk = running()
    assert walk(StopRequested("stopped by the user")) == (StopMembers(ALL, 0, 10.0),)
    walk.exits(143, W0)
    assert walk(StopRequested("again")) == (StopMembers((PS, W1), 0, 0.0),)
    assert walk.exits(137, PS, W1) == (Finish(Phase.STOPPED, "stopped by the user"),)
    assert walk.states() == "ended ended ended"
    assert walk.state.members[W1].exit_code == 137


def test_stop_while_nothing_runs() -> None:
    walk = Walk(policy(), placed=())
    assert walk(StopRequested("no longer wanted")) == (Finish(Phase.STOPPED, "no longer wanted"),)


def test_stop_during_a_back_off() -> None:
    walk = running(Restart.GANG)
    walk.exits(1, *ALL)
    assert walk.state.phase is Phase.RESTARTING
    assert walk(StopRequested("enough")) == (Finish(Phase.STOPPED, "enough"),)


def test_stop_while_a_gang_restart_stops_its_members() -> None:
    walk = running(Restart.GANG)
    walk.exits(1, W0)
    assert walk(StopRequested("enough")) == (), "they have been told, their grace runs"
    assert walk.exits(143, PS, W1) == (Finish(Phase.STOPPED, "enough"),)


def test_stop_while_starting_then_the_start_fails() -> None:
    walk = Walk(policy())
    walk(StopRequested("enough"))
    assert walk(StartFailed(0, "disk full")) == (Finish(Phase.STOPPED, "enough"),)


def test_a_stop_does_not_undo_a_known_outcome() -> None:
    walk = running()
    walk.exits(0, W0, W1)
    assert walk(StopRequested("impatient")) == (StopMembers((PS,), 0, 0.0),)
    (finish,) = walk.exits(137, PS)
    assert isinstance(finish, Finish)
    assert finish.phase is Phase.SUCCEEDED


# -- late and foolish news


@pytest.mark.parametrize(
    "event",
    [
        MemberReady(W0, 0, 0),
        MemberRunning(W0, 0, 0),
        MemberExited(W0, 0, 0, 1),
        MemberExited(W0, 1, 1, 1),
        MemberExited(W0, 2, 0, 1),
        MemberExited(MemberId("stranger", 0), 1, 0, 1),
        StartFailed(0, "late"),
        Placed(ALL),
        Placed((MemberId("stranger", 0),)),
    ],
)
def test_news_of_another_epoch_attempt_or_member_is_ignored(event: Event) -> None:
    walk = running(Restart.GANG)
    walk.exits(1, *ALL)
    walk.tick(101)
    before = walk.state
    assert before.epoch == 1
    assert walk(event) == ()
    assert walk.state == before


def test_nothing_follows_the_end() -> None:
    walk = running()
    walk.exits(1, *ALL)
    assert walk.state.phase is Phase.FAILED
    before = walk.state
    for event in (Tick(), StopRequested("x"), MemberExited(W0, 0, 0, 0), Placed(ALL)):
        assert walk(event, 10_000) == ()
    assert walk.state == before
    assert next_wakeup_s(walk.state, walk.policy) is None


def test_running_without_a_report_of_being_ready_counts_as_ready() -> None:
    walk = Walk(policy())
    walk.running(PS)
    assert walk.ready(W0, W1) == (OpenGate((W0, W1), 0),)
    assert walk.state.members[PS].state is MemberState.RUNNING


def test_long_lists_of_names_are_cut() -> None:
    assert names([MemberId("w", i) for i in range(9)]) == "w-0, w-1, w-2, w-3 and 5 more"


def stalling(on_stall: Literal["warn", "fail", "restart"], restarts: int = 1) -> Walk:
    walk = Walk(Policy(on_stall=on_stall, max_restarts=restarts, backoff=Backoff(0.0)))
    walk.ready(*ALL)
    walk.running(*ALL)
    assert walk.state.phase is Phase.RUNNING
    return walk


def test_a_standstill_is_borne_unless_the_job_says_otherwise() -> None:
    walk = stalling("warn")
    assert walk(Stalled(0, "hang")) == ()
    assert walk.state.phase is Phase.RUNNING


def test_a_standstill_fails_the_job() -> None:
    walk = stalling("fail")
    assert walk(Stalled(0, "hang")) == (StopMembers(ALL, 0, 10.0),)
    assert walk.exits(143, *ALL) == (Finish(Phase.FAILED, "hang"),)


def test_a_standstill_restarts_the_gang_as_often_as_allowed() -> None:
    walk = stalling("restart")
    walk(Stalled(0, "hang"))
    assert walk.state.phase is Phase.RESTARTING
    # It is told of once more while the members end.
    assert walk(Stalled(0, "hang")) == ()
    assert walk.exits(143, *ALL) == (StartMembers(ALL, 1, (0, 0, 0)),)
    walk.ready(*ALL)
    walk.running(*ALL)
    # News of the epoch before changes nothing.
    assert walk(Stalled(0, "hang")) == ()
    walk(Stalled(1, "hang"))
    assert walk.exits(143, *ALL) == (Finish(Phase.FAILED, "hang after 1 restart"),)


# -- other sizes


def test_a_gang_of_another_size_ends_and_starts_together() -> None:
    walk = running(Restart.GANG, max_restarts=1)
    assert walk(Resized((PS, W0), "it shrinks")) == (StopMembers(ALL, 0, 10.0),)
    assert (walk.state.phase, walk.state.reason) == (Phase.RESTARTING, "it shrinks")
    assert walk.exits(143, PS, W0) == (), "worker-1 is still alive"
    assert walk.exits(143, W1) == (StartMembers((PS, W0), 1, (0, 0)),), "nobody waits"
    assert tuple(walk.state.members) == (PS, W0)
    assert walk.state.restarts == 0, "nobody has failed"
    assert walk.ready(PS, W0) == (OpenGate((PS, W0), 1),)
    walk.running(PS, W0)
    walk(Resized(ALL, "it grows"))
    assert walk.exits(143, PS, W0) == (StartMembers(ALL, 2, (0, 0, 0)),)


def test_the_last_wish_for_a_size_holds() -> None:
    walk = running()
    walk(Resized((PS, W0), "it shrinks"))
    assert walk(Resized(ALL, "it grows")) == (), "all have been told to end"
    assert walk.exits(143, *ALL) == (StartMembers(ALL, 1, (0, 0, 0)),)


def test_a_wish_for_a_size_ends_a_back_off() -> None:
    walk = running(Restart.GANG)
    walk.exits(1, W0, at_s=200)
    walk.exits(143, PS, W1, at_s=201)
    assert walk.state.restart_at_s == 202
    assert walk(Resized((PS, W1), "it shrinks"), 201.5) == (StartMembers((PS, W1), 1, (0, 0)),)
    assert walk.state.restarts == 1, "that was a failure"


def test_a_job_that_stops_or_has_ended_takes_no_size() -> None:
    walk = running()
    walk(StopRequested("enough"))
    assert walk(Resized((PS, W0), "it shrinks")) == ()
    assert walk.exits(143, *ALL) == (Finish(Phase.STOPPED, "enough"),)


def test_a_stop_while_the_size_changes_is_a_stop() -> None:
    walk = running()
    walk(Resized((PS, W0), "it shrinks"))
    walk(StopRequested("enough"))
    assert walk.exits(143, *ALL) == (Finish(Phase.STOPPED, "enough"),)
