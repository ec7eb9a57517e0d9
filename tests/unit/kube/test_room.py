"""Whether the place that a gang was given still holds, and what is next for a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.next_step import next_step, refusals
from mooring.backends.kubernetes.jobs.pool_access import PoolAccess, Pools
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.room import NOT_YET, READY, Room, changed_roles, room_for
from mooring.backends.kubernetes.jobs.training_job import (
    JobView,
    ParsedJob,
    parse_training_job,
    parse_view,
)
from mooring.backends.kubernetes.objects.nodes import NodeView, parse_node
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.resources import Resources
from mooring.model.status import Phase

ADMITTED_S = 1000.0
#: A gang waits for its nodes as long as a pod may take to be bound and others to end.
BIND_S, GRACE_S = 60.0, 10.0


def job(workers: int = 2, **spec: Any) -> JobView:
    return parse_view(
        {
            "apiVersion": "mooring.dev/v1",
            "kind": "TrainingJob",
            "metadata": {"name": "j", "namespace": "team", "uid": "u"},
            "spec": {
                "framework": "indexed",
                "image": "i",
                "command": ["true"],
                "gracePeriod": GRACE_S,
                "roles": {"worker": {"replicas": workers, "resources": {"cpu": 2}}},
                **spec,
            },
        }
    )


def parsed(view: JobView) -> ParsedJob:
    return parse_training_job(view.object)


def admitted(of: ParsedJob, *nodes: str) -> TrainingJobRecord:
    """The members in turn on these nodes."""
    members = [member.id for member in of.gang.members]
    placements = tuple(
        Placement(member, Slot(nodes[n % len(nodes)], ())) for n, member in enumerate(members)
    )
    return admit(TrainingJobRecord(), Plan("team/j", placements), of.policy, ADMITTED_S)


def node(name: str, cpus: int = 4, *, ready: bool = True) -> NodeView:
    return parse_node(
        {
            "metadata": {"name": name},
            "status": {
                "allocatable": {"cpu": str(cpus), "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
            },
        }
    )


def pod(where: str, cpus: int, phase: str = "Running") -> PodView:
    return PodView("other", "p", "p-uid", where, phase, False, Resources(1000 * cpus))


def room(
    nodes: Mapping[str, NodeView],
    *pods: PodView,
    record: TrainingJobRecord | None = None,
    own: Mapping[MemberId, PodView] | None = None,
    now_s: float = ADMITTED_S + 1,
    **spec: Any,
) -> Room:
    of = parsed(job(**spec))
    record = record or admitted(of, "n0", "n1")
    members = [member.id for member in of.gang.members]
    return room_for(of, record, members, own or {}, nodes.get, pods, now_s)


BOTH = {"n0": node("n0"), "n1": node("n1")}


def test_a_gang_whose_nodes_have_room_may_start() -> None:
    assert room(BOTH) == READY
    # 2 of 4 CPUs are left by others, and those that have ended hold nothing.
    assert room(BOTH, pod("n0", 2), pod("n1", 4, "Succeeded"), pod("n2", 4)) == READY


def test_a_node_that_is_gone_is_not_waited_for() -> None:
    assert room({"n0": node("n0")}) == Room(False, "the node n1 is gone")


def test_those_who_give_way_are_waited_for() -> None:
    """2 CPUs are wanted there, 3 of 4 are still held."""
    assert room(BOTH, pod("n1", 3)) == NOT_YET


def test_a_node_that_is_not_ready_is_waited_for() -> None:
    assert room({**BOTH, "n0": node("n0", ready=False)}) == NOT_YET


@pytest.mark.parametrize(
    ("now_s", "answer"),
    [
        (ADMITTED_S + BIND_S + GRACE_S - 1, NOT_YET),
        (ADMITTED_S + BIND_S + GRACE_S, Room(False, "no room on n1 after all")),
    ],
)
def test_waiting_for_room_ends(now_s: float, answer: Room) -> None:
    limits = {"kubernetes": {"bindTimeout": BIND_S}}
    assert room(BOTH, pod("n1", 3), now_s=now_s, **limits) == answer


def test_a_gang_that_has_begun_goes_on_where_it_is_crowded() -> None:
    """Only before the first pod: a member that starts again does not wait for the others' room."""
    own = {MemberId("worker", 0): pod("n0", 2)}
    assert room(BOTH, pod("n1", 3), own=own) == READY


def test_another_schedulers_gang_is_not_ours_to_judge() -> None:
    other = {"kubernetes": {"scheduler": "volcano"}}
    assert room({}, **other) == READY


@pytest.mark.parametrize(
    ("before", "after", "spec", "says"),
    [
        (2, 2, {}, ""),
        (3, 2, {}, "its roles have changed: 1 members fewer"),
        (2, 4, {}, "its roles have changed: 2 members more"),
        (2, 4, {"minAvailable": 2}, ""),
        (4, 2, {"minAvailable": 2}, "its roles have changed: 2 members fewer"),
    ],
)
def test_changed_roles(before: int, after: int, spec: dict[str, Any], says: str) -> None:
    record = admitted(parsed(job(before)), "n0")
    assert changed_roles(record, parsed(job(after, **spec))) == says


def test_roles_of_a_job_that_waits_or_has_ended_may_change() -> None:
    record = admitted(parsed(job(3)), "n0")
    assert not changed_roles(replace(record, stage=Stage.QUEUED), parsed(job(2)))
    assert not changed_roles(replace(record, stage=Stage.FINISHED), parsed(job(2)))


def step_of(
    view: JobView, record: TrainingJobRecord, now_s: float = ADMITTED_S + 1
) -> TrainingJobRecord:
    return next_step(view, parsed(view), record, {}, None, now_s).record


def test_a_job_whose_roles_changed_waits_again_for_a_place() -> None:
    after = step_of(job(2), admitted(parsed(job(3)), "n0"))
    assert (after.stage, after.reason) == (Stage.QUEUED, "Rescaled")
    assert after.message == "its roles have changed: 1 members fewer"
    assert not after.slots


def test_another_schedulers_job_is_admitted_at_once() -> None:
    after = step_of(job(kubernetes={"scheduler": "volcano"}), TrainingJobRecord())
    assert after.stage is Stage.ADMITTED
    assert after.state is not None and after.state.phase is Phase.STARTING


@pytest.mark.parametrize(
    ("spec", "record", "stage"),
    [
        ({"suspend": True}, TrainingJobRecord(), Stage.SUSPENDED),
        ({}, TrainingJobRecord(not_before_s=ADMITTED_S + 60), Stage.QUEUED),
    ],
)
def test_one_that_is_held_back_is_not(
    spec: dict[str, Any], record: TrainingJobRecord, stage: Stage
) -> None:
    view = job(kubernetes={"scheduler": "volcano", **spec})
    assert step_of(view, record).stage is stage


def test_a_pool_is_refused_to_those_who_do_not_hold_a_place_in_it() -> None:
    view = job(pool="ads")
    rules = Pools({"ads": PoolAccess(frozenset({"others"}))})
    assert refusals(view, parsed(view), TrainingJobRecord(), rules)
    assert not refusals(view, parsed(view), admitted(parsed(view), "n0"), rules)
    other = job(pool="ads", kubernetes={"scheduler": "volcano"})
    assert not refusals(other, parsed(other), TrainingJobRecord(), rules)
