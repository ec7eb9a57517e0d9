"""What each thing that happens makes of a job in the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.backends.local.queue import entry as entries
from mooring.backends.local.queue.documents import (
    Admission,
    Ending,
    Outcome,
    PromisedPlan,
    PromisedSlot,
    SupervisorName,
)
from mooring.backends.local.queue.entry import EntryState, QueueEntry, RestartPolicy
from mooring.model.status import Phase

PLAN = PromisedPlan(slots=(PromisedSlot(role="worker", index=0, node="here", cpus=(0,)),))
GIVEN = Admission(number=1, run_id="nap-1", token="abc123", plan=PLAN)
ALWAYS = RestartPolicy(restarts=True, max_restarts=2)
NEVER = replace(ALWAYS, restarts=False)


def queued(**fields: object) -> QueueEntry:
    entry = QueueEntry(1, "nap-1", "nap", "/", "nap.yaml", 100.0)
    return replace(entry, **fields)  # type: ignore[arg-type]


def running(**fields: object) -> QueueEntry:
    entry = entries.running(entries.admitted(queued(), GIVEN, 110.0), 111.0)
    return replace(entry, **fields)  # type: ignore[arg-type]


def outcome(ending: Ending, phase: Phase = Phase.STOPPED, **fields: int) -> Outcome:
    return Outcome(ending=ending, phase=phase, reason="so it ended", **fields)


def test_an_admission_gives_a_place_and_a_run() -> None:
    entry = entries.admitted(queued(reason="it waits"), GIVEN, 110.0)
    assert (entry.state, entry.admission, entry.run_id) == (EntryState.STARTING, 1, "nap-1")
    assert (entry.plan, entry.reason, entry.supervisor) == (PLAN, "", None)


def test_a_job_whose_run_began_forgets_earlier_bad_luck() -> None:
    entry = entries.admitted(queued(taken_back=3, failed_starts=2), GIVEN, 110.0)
    entry = entries.running(entry, 111.0)
    assert (entry.state, entry.taken_back, entry.failed_starts) == (EntryState.RUNNING, 0, 0)


@pytest.mark.parametrize("state", [EntryState.STARTING, EntryState.RUNNING, EntryState.RELEASING])
def test_one_that_runs_is_told_to_stop_and_ends_when_it_has(state: EntryState) -> None:
    entry = entries.stop_requested(running(state=state), "enough", now=False, now_s=120.0)
    assert (entry.state, entry.plan) == (EntryState.STOPPING, PLAN)
    entry = entries.supervisor_ended(entry, outcome(Ending.ENDED), ALWAYS, 121.0)
    assert (entry.state, entry.phase, entry.ended_s) == (EntryState.ENDED, Phase.STOPPED, 121.0)


def test_one_that_waits_has_ended_when_it_is_stopped() -> None:
    entry = entries.stop_requested(queued(), "enough", now=False, now_s=120.0)
    assert (entry.state, entry.phase, entry.reason) == (EntryState.ENDED, Phase.STOPPED, "enough")


def test_a_second_request_adds_haste_and_keeps_the_reason() -> None:
    entry = entries.stop_requested(running(), "enough", now=False, now_s=120.0)
    entry = entries.stop_requested(entry, "really", now=True, now_s=121.0)
    assert (entry.stop_now, entry.reason) == (True, "enough")


def test_one_that_gave_way_waits_again_from_its_first_arrival() -> None:
    entry = entries.preempted(running(), "a gives way to b")
    assert not entry.state.promised
    entry = entries.supervisor_ended(entry, outcome(Ending.RELEASED, epoch=4), ALWAYS, 130.0)
    assert (entry.state, entry.submitted_s, entry.epoch) == (EntryState.QUEUED, 100.0, 5)
    assert (entry.plan, entry.supervisor, entry.restarts) == (None, None, 0)


def test_one_that_succeeds_while_it_is_to_give_way_has_succeeded() -> None:
    entry = entries.preempted(running(), "a gives way to b")
    entry = entries.supervisor_ended(entry, outcome(Ending.ENDED, Phase.SUCCEEDED), ALWAYS, 1.0)
    assert (entry.state, entry.phase) == (EntryState.ENDED, Phase.SUCCEEDED)


def test_one_without_its_promised_room_waits_longer_each_time() -> None:
    entry = queued()
    waits = []
    for _ in range(8):
        entry = entries.admitted(entry, GIVEN, 200.0)
        entry = entries.supervisor_ended(entry, outcome(Ending.NO_ROOM), ALWAYS, 200.0)
        waits.append(entry.not_before_s - 200.0)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]


def test_a_lost_supervisor_restarts_as_often_as_the_policy_says() -> None:
    entry = running()
    for restarts in (1, 2):
        entry = entries.supervisor_lost(entry, "killed", 7, ALWAYS, 200.0)
        assert (entry.state, entry.restarts, entry.epoch) == (EntryState.QUEUED, restarts, 8)
        assert entry.not_before_s == 200.0, "it has not failed: it is next, as it was"
        entry = entries.running(entries.admitted(entry, GIVEN, 210.0), 211.0)
    entry = entries.supervisor_lost(entry, "killed", 9, ALWAYS, 200.0)
    assert (entry.phase, entry.reason) == (Phase.FAILED, "killed after 2 restarts")


def test_a_lost_supervisor_fails_a_job_that_is_never_restarted() -> None:
    entry = entries.supervisor_lost(running(), "killed", 0, NEVER, 200.0)
    assert (entry.state, entry.phase, entry.reason) == (EntryState.ENDED, Phase.FAILED, "killed")


def test_a_supervisor_lost_on_its_way_out_changes_nothing_of_that() -> None:
    stopping = entries.stop_requested(running(), "enough", now=False, now_s=1.0)
    assert entries.supervisor_lost(stopping, "killed", 0, ALWAYS, 2.0).phase is Phase.STOPPED
    releasing = entries.preempted(running(), "a gives way to b")
    again = entries.supervisor_lost(releasing, "killed", 0, NEVER, 2.0)
    assert (again.state, again.reason) == (EntryState.QUEUED, "a gives way to b")


def test_supervisors_that_die_before_any_run_are_tried_three_times() -> None:
    entry = queued()
    for _ in range(2):
        entry = entries.admitted(entry, GIVEN, 200.0)
        entry = entries.supervisor_lost(entry, "killed", None, NEVER, 200.0)
        assert entry.state is EntryState.QUEUED
    entry = entries.admitted(entry, GIVEN, 200.0)
    entry = entries.supervisor_lost(entry, "killed", None, NEVER, 200.0)
    assert (entry.phase, entry.reason) == (Phase.FAILED, "killed, 3 times before the run began")


def test_news_of_a_job_without_a_supervisor_change_nothing() -> None:
    ended = entries.stop_requested(queued(), "enough", now=False, now_s=1.0)
    for entry in (queued(), ended):
        assert entries.supervisor_ended(entry, outcome(Ending.ENDED), ALWAYS, 2.0) is entry
        assert entries.supervisor_lost(entry, "killed", 0, ALWAYS, 2.0) is entry
    assert entries.stop_requested(ended, "again", now=True, now_s=3.0) is ended


def test_each_change_of_a_running_gang_has_a_number() -> None:
    entry = entries.resized(running(), PLAN, "grows")
    assert entry.plan is not None and entry.plan.number == 1
    entry = entries.resized(entry, PLAN, "shrinks")
    assert entry.plan is not None and entry.plan.number == 2


def test_whoever_runs_in_front_of_a_terminal_does_not_wait_again() -> None:
    entry = running(foreground=True, supervisor=SupervisorName(pid=1, mark="m"))
    assert entries.supervisor_lost(entry, "killed", 0, ALWAYS, 2.0).phase is Phase.FAILED
    entry = entries.preempted(entry, "gives way")
    assert entries.supervisor_ended(entry, outcome(Ending.RELEASED), ALWAYS, 2.0).ended
