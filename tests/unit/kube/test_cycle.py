"""What becomes of a job as its pods come, run, end and go, step by step and at random."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.backends.kubernetes.jobs.look import ObservedPods, RunPolicy, look, release
from mooring.backends.kubernetes.jobs.record import Stage
from mooring.lifecycle import Policy, Stalled
from mooring.model.member import MemberId, Restart
from mooring.model.status import Phase
from unit.kube.world import UID, World, waiting

PS, W0, W1 = MemberId("ps", 0), MemberId("worker", 0), MemberId("worker", 1)
GANG = (PS, W0, W1)


def world(restart: Restart = Restart.GANG, **run_policy: object) -> World:
    policy = Policy(
        success_roles=("worker",),
        restart=dict.fromkeys(GANG, restart),
        max_restarts=2,
        grace_s=5.0,
    )
    return World(GANG, replace(RunPolicy(policy), **run_policy))  # type: ignore[arg-type]


def running(restart: Restart = Restart.GANG, **run_policy: object) -> World:
    one = world(restart, **run_policy)
    one.admit()
    one.look()
    one.run()
    one.settle()
    assert one.record().state is not None
    assert one.record().state.phase is Phase.RUNNING  # type: ignore[union-attr]
    return one


def test_nothing_is_made_before_the_gang_is_admitted() -> None:
    one = world()
    step = one.look()
    assert not step.create
    assert not one.pods


def test_all_pods_are_made_at_once_and_none_twice() -> None:
    one = world()
    one.admit()
    assert set(one.look().create) == set(GANG)
    assert one.look().create == ()


def test_success_removes_who_still_runs_and_keeps_who_ended() -> None:
    one = running()
    one.exit(W0, 0)
    one.exit(W1, 0)
    record = one.settle()
    assert record.stage is Stage.FINISHED
    assert record.reason == "Succeeded"
    assert set(one.pods) == {W0, W1}


def test_clean_all_removes_every_pod_at_the_end() -> None:
    one = running(clean_all=True)
    one.exit(W0, 0)
    one.exit(W1, 0)
    assert one.settle().stage is Stage.FINISHED
    assert not one.pods


def test_a_failed_member_restarts_the_gang_in_a_new_epoch() -> None:
    one = running()
    one.exit(W0, 1)
    one.settle()
    one.now_s += 10  # the back-off is 1 s
    one.settle()
    marks = {pod.mark.epoch for pod in one.pods.values() if pod.mark}
    assert marks == {1}
    assert set(one.pods) == set(GANG)


def test_a_deleted_pod_of_a_running_gang_is_a_failure_not_a_gap() -> None:
    one = running()
    del one.pods[W1]
    one.look()
    state = one.record().state
    assert state is not None
    assert state.phase is Phase.RESTARTING
    assert "its pod was deleted" in one.record().message


def test_a_pod_deleted_while_the_gang_starts_is_made_again() -> None:
    one = world()
    one.admit()
    one.look()
    one.run(PS, W0)
    del one.pods[W1]
    assert one.look().create == (W1,)


def test_a_member_that_restarts_in_place_is_counted() -> None:
    one = running(Restart.MEMBER)
    pod = one.pods[PS]
    assert pod.container is not None
    one.pods[PS] = replace(
        pod,
        container=replace(pod.container, restarts=1, exit_code=137, exit_reason="OOMKilled"),
    )
    one.now_s += 5
    one.settle()
    one.now_s += 5
    record = one.settle()
    assert record.state is not None
    assert record.state.members[PS].attempt == 1
    assert record.state.members[PS].restarts == 1
    assert record.state.phase is Phase.RUNNING


def test_a_member_that_crashes_for_ever_fails_the_job() -> None:
    one = running(Restart.MEMBER)
    for restarts in (1, 2, 3):
        pod = one.pods[PS]
        assert pod.container is not None
        one.pods[PS] = replace(
            pod, container=replace(pod.container, restarts=restarts, exit_code=1)
        )
        one.now_s += 60
        one.settle()
        one.now_s += 60
        one.settle()
    record = one.record()
    assert record.reason == "Failed"
    assert "after 2 restarts" in record.message


def test_what_is_not_bound_in_time_is_taken_back_and_waits_longer_each_time() -> None:
    one = world(bind_timeout_s=60.0)
    waits = []
    for _ in range(3):
        one.admit()
        one.look()
        one.run(PS)
        one.now_s += 61
        one.settle()
        record = one.record()
        assert record.stage is Stage.QUEUED
        assert record.reason == "TakenBack"
        assert not one.pods
        waits.append(record.not_before_s - one.now_s)
    # 5 s, doubled each time
    assert waits == [5.0, 10.0, 20.0]


def test_a_kubelet_that_turns_a_pod_away_sends_the_gang_back_to_the_queue() -> None:
    one = world()
    one.admit()
    one.look()
    one.pods[W0] = replace(
        one.pods[W0], node="n1", phase="Failed", reason="OutOfcpu", message="Node has no CPU left"
    )
    one.settle()
    assert waiting(one)
    assert "n1 turned worker-0 away" in one.record().message


def test_suspend_gives_the_place_back_and_resume_queues_again() -> None:
    one = running()
    one.run_policy = replace(one.run_policy, suspend=True)
    assert one.settle().stage is Stage.SUSPENDED
    assert not one.pods
    one.run_policy = replace(one.run_policy, suspend=False)
    assert one.settle().stage is Stage.QUEUED
    one.admit()
    one.look()
    assert {pod.mark.epoch for pod in one.pods.values() if pod.mark} == {1}


def test_stop_while_running_ends_the_job_as_stopped() -> None:
    one = running()
    one.run_policy = replace(one.run_policy, stop=True)
    record = one.settle()
    assert record.reason == "Stopped"
    assert not one.pods


def test_stop_while_waiting_ends_the_job_at_once() -> None:
    one = world(stop=True)
    one.save(one.record())
    assert one.settle().reason == "Stopped"


def test_a_finished_job_is_deleted_after_its_time() -> None:
    one = running(ttl_s=100.0)
    one.exit(W0, 0)
    one.exit(W1, 0)
    one.settle()
    assert not one.look().delete_job
    one.now_s += 101
    assert one.look().delete_job


def test_preemption_ends_in_the_queue_with_a_new_epoch() -> None:
    one = running()
    one.save(release(one.record(), "Preempted", "for ns/other"))
    record = one.settle()
    assert record.stage is Stage.QUEUED
    assert (record.epoch, record.reason) == (1, "Preempted")


def test_a_pod_of_a_deleted_job_with_the_same_name_goes_first() -> None:
    one = world()
    one.admit()
    one.look()
    pod = one.pods[W0]
    assert pod.mark is not None
    one.pods[W0] = replace(pod, mark=replace(pod.mark, job_uid="an older job"))
    step = one.look()
    assert [removal.pod.uid for removal in step.remove] == [pod.uid]
    assert step.create == ()
    one.collect()
    assert one.look().create == (W0,)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), st.none() | st.integers(0, 3)),
        st.tuples(st.just("run"), st.sampled_from(GANG)),
        st.tuples(st.just("exit"), st.tuples(st.sampled_from(GANG), st.sampled_from([0, 1]))),
        st.tuples(st.just("vanish"), st.sampled_from(GANG)),
        st.tuples(st.just("collect"), st.none()),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 61])),
        st.tuples(st.just("preempt"), st.none()),
    ),
    max_size=25,
)


@pytest.mark.parametrize("restart", list(Restart))
@settings(max_examples=150, deadline=None)
@given(actions=ACTIONS)
def test_whatever_happens_and_whenever_the_operator_dies_it_converges(
    restart: Restart, actions: list[tuple[str, object]]
) -> None:
    one = world(restart, bind_timeout_s=60.0)
    one.admit()
    epochs = [0]
    for what, detail in actions:
        _act(one, what, detail)
        state = one.record().state
        if state is not None:
            epochs.append(state.epoch)
    # Left alone, with kubelets that work, the job ends; nothing of an older epoch is left.
    for _ in range(60):
        one.now_s += 30
        one.settle()
        if one.record().stage is Stage.QUEUED:
            one.now_s = max(one.now_s, one.record().not_before_s)
            one.admit()
            one.look()
        one.run()
        one.settle()
        for member in (W0, W1):
            if member in one.pods and one.pods[member].phase == "Running":
                one.exit(member, 0)
        if one.settle().stage is Stage.FINISHED:
            break
    record = one.record()
    assert record.stage is Stage.FINISHED
    assert epochs == sorted(epochs)
    assert all(pod.over for pod in one.pods.values())
    assert record.state is not None
    assert {pod.mark.epoch for pod in one.pods.values() if pod.mark} <= {record.state.epoch}


def _act(one: World, what: str, detail: object) -> None:
    if what == "look":
        one.look(die_after=detail)  # type: ignore[arg-type]
    elif what == "run" and detail in one.pods:
        one.run(detail)  # type: ignore[arg-type]
    elif what == "exit":
        member, code = detail  # type: ignore[misc]
        if member in one.pods and one.pods[member].phase == "Running":  # type: ignore[has-type]
            one.exit(member, code)  # type: ignore[has-type]
    elif what == "vanish":
        one.pods.pop(detail, None)  # type: ignore[call-overload]
    elif what == "collect":
        one.collect()
    elif what == "wait":
        one.now_s += detail  # type: ignore[operator]
    elif what == "preempt" and one.record().stage is Stage.ADMITTED:
        one.save(release(one.record(), "Preempted", "for another"))


def test_a_record_that_is_older_than_its_pods_leads_to_nothing() -> None:
    """A server that lags may show the record of before the last start, and the pods of today."""
    one = running()
    before = dict(one.stored)
    one.exit(W0, 1)
    one.settle()
    one.now_s += 60
    one.settle()
    assert {pod.mark.epoch for pod in one.pods.values() if pod.mark} == {1}
    for stored in ({}, before):
        one.stored = stored
        step = one.look()
        assert step.outdated
        assert (step.create, step.remove) == ((), ())


@pytest.mark.parametrize(
    ("pod_created_at_s", "removed"),
    # The job was made at 1000 s.
    [(999.0, True), (1000.0, False), (1500.0, False)],
)
def test_pods_of_a_later_job_of_the_same_name_are_left_alone(
    pod_created_at_s: float, removed: bool
) -> None:
    one = running()
    other = replace(one.pods[W0], created_at_s=pod_created_at_s)
    assert other.mark is not None
    other = replace(other, mark=replace(other.mark, job_uid="another"))
    seen = ObservedPods("uid-1", 1000.0, {**one.pods, W0: other})
    step = look(one.record(), one.run_policy, seen, one.now_s)
    assert [removal.pod for removal in step.remove if removal.pod is other] == [other] * removed


def test_a_job_that_stands_still_starts_again_as_a_whole() -> None:
    one = running()
    one.run_policy = replace(one.run_policy, policy=replace(one.policy, on_stall="restart"))
    seen = ObservedPods(UID, pods=dict(one.pods), stalled=Stalled(0, "no step for 10m"))
    step = look(one.record(), one.run_policy, seen, one.now_s)
    assert {removal.pod.name for removal in step.remove} == {pod.name for pod in one.pods.values()}
    assert step.record.reason == "Restarting"
    assert step.record.message == "no step for 10m"
    again = look(one.record(), one.run_policy, replace(seen, stalled=Stalled(7, "old")), one.now_s)
    assert again.remove == ()
