"""Who holds what when a round begins: admitted gangs by their records, others by their pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.backends.kubernetes.jobs import status
from mooring.backends.kubernetes.jobs.admission import JobCandidate, occupied
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view
from mooring.backends.kubernetes.objects.nodes import NodeView, parse_node
from mooring.backends.kubernetes.objects.pod_manifest import Owner
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot


def node(gpus: int) -> NodeView:
    listed = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
    ready = [{"type": "Ready", "status": "True"}]
    return parse_node(
        {
            "metadata": {"name": "n0"},
            "status": {"allocatable": listed, "conditions": ready},
        }
    )


OWNER = Owner("train", "team", "uid-train")


def pod(
    name: str,
    gpus: int,
    *,
    namespace: str = "team",
    labels: dict[str, str] | None = None,
    owner: Owner | None = None,
    notes: dict[str, str] | None = None,
) -> PodView:
    asked = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    about = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "labels": labels or {},
        "annotations": notes or {},
        "ownerReferences": [owner.reference()] if owner else [],
    }
    return parse_pod(
        {
            "metadata": about,
            "spec": {"nodeName": "n0", "containers": [{"resources": {"requests": asked}}]},
            "status": {"phase": "Running"},
        }
    )


def marks(index: int = 0) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "mooring",
        "mooring.dev/job": "train",
        "mooring.dev/job-uid": "uid-train",
        "mooring.dev/role": "worker",
        "mooring.dev/index": str(index),
        "mooring.dev/epoch": "0",
        "mooring.dev/attempt": "0",
    }


def holding(gpus: tuple[int, ...]) -> JobCandidate:
    """A job of one worker that was admitted to these devices of the node."""
    asked = {"cpu": 1, "memory": "1Gi", "gpu": len(gpus)}
    job: dict[str, Any] = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "train", "namespace": "team", "uid": "uid-train"},
        "spec": {
            "framework": "indexed",
            "image": "train:1",
            "roles": {"worker": {"command": ["x"], "resources": asked}},
        },
    }
    view, parsed = parse_view(job), parse_training_job(job)
    cluster, _ = occupied([], [node(4)], [])
    plan = cluster.place(parsed.queued)
    assert isinstance(plan, Plan)
    [one] = plan.placements
    moved = Placement(one.member, replace(one.slot, gpus=gpus))
    record = admit(
        TrainingJobRecord(queued_at_s=0.0), replace(plan, placements=(moved,)), parsed.policy, 0.0
    )
    return JobCandidate(view, parsed, record, "default", 0)


def test_a_record_keeps_cpus_cells_and_devices() -> None:
    ids = [MemberId("worker", index) for index in range(2)]
    slots = {ids[0]: Slot("n0", (4, 5), (1,), (2,), exclusive=True), ids[1]: Slot("n1", ())}
    record = replace(TrainingJobRecord(queued_at_s=0.0), stage=Stage.QUEUED, slots=slots)
    written = status.encode(record, status.StatusFigures(0, 2, "default", 1), {}, 0.0)
    assert status.decode(written, ids, 0.0).slots == slots


def test_a_strangers_devices_do_not_push_a_gang_out_of_the_books() -> None:
    """Both have two of the four; which two the stranger has, nobody says."""
    cluster, running = occupied([holding((0, 1))], [node(4)], [pod("stranger", 2)])
    assert [one.gang.job for one in running] == ["team/train"]
    assert cluster.free("n0").gpus == 0


def test_a_gang_whose_room_was_taken_still_holds_what_its_pods_hold() -> None:
    """Two devices, and three wanted: the gang is taken back soon, but its pod is there now."""
    pods = [pod("stranger", 1), pod("train-worker-0", 2, labels=marks(), owner=OWNER)]
    cluster, running = occupied([holding((0, 1))], [node(2)], pods)
    assert running == []
    assert cluster.free("n0").cpu_millis == 14_000
    assert cluster.free("n0").gpus == 0


def free_after(one: PodView) -> int:
    """GPUs of four that are left beside a gang that holds two, and this pod."""
    cluster, running = occupied([holding((0, 1))], [node(4)], [one])
    assert [gang.gang.job for gang in running] == ["team/train"]
    return cluster.free("n0").gpus


def test_the_pod_of_an_admitted_gang_is_counted_once() -> None:
    assert free_after(pod("train-worker-0", 2, labels=marks(), owner=OWNER)) == 2


@pytest.mark.parametrize(
    "stranger",
    [
        pod("mine", 1, labels=marks()),
        pod("mine", 1, labels=marks(), owner=OWNER),
        pod("train-worker-0", 1, labels=marks()),
        pod("train-worker-0", 1, labels=marks(), owner=Owner("train", "team", "another")),
        pod("train-worker-0", 1, labels=marks(), owner=Owner("other", "team", "uid-train")),
        pod("train-worker-0", 1, labels=marks(), owner=OWNER, namespace="elsewhere"),
    ],
    ids=["labels", "another name", "no controller", "uid", "job", "another namespace"],
)
def test_a_pod_that_only_claims_to_be_of_a_gang_counts_as_a_strangers(stranger: PodView) -> None:
    assert free_after(stranger) == 1


def test_what_a_forged_member_has_beyond_its_promise_is_counted() -> None:
    """Its namespace's own people can forge all marks: the gang was promised two devices there."""
    assert free_after(pod("train-worker-0", 3, labels=marks(), owner=OWNER)) == 1


@pytest.mark.parametrize("change", [{"mooring.dev/index": "1"}, {"mooring.dev/epoch": "7"}])
def test_a_pod_on_its_way_out_does_not_count_against_who_takes_its_place(
    change: dict[str, str],
) -> None:
    """Of a member that gave way, or of another start: the operator removes it."""
    labels = marks() | change
    name = f"train-worker-{labels['mooring.dev/index']}"
    assert free_after(pod(name, 2, labels=labels, owner=OWNER)) == 2


def test_a_member_that_gave_way_is_on_its_way_out_beside_those_who_stay() -> None:
    """Those who stay take up what the gang was promised: what it has is not beyond that."""
    stays = pod("train-worker-0", 2, labels=marks(), owner=OWNER)
    leaves = pod("train-worker-1", 2, labels=marks(1), owner=OWNER)
    cluster, _ = occupied([holding((0, 1))], [node(4)], [stays, leaves])
    assert cluster.free("n0").gpus == 2


@pytest.mark.parametrize("named", ["0", "0-3", "2-3"])
def test_a_pod_cannot_claim_the_devices_of_a_gang_or_more_than_it_asks_for(named: str) -> None:
    """A hint is not believed if it names more than the pod asks for, or what a gang holds."""
    forged = Owner("other", "team", "uid-other")
    labels = marks() | {"mooring.dev/job": "other", "mooring.dev/job-uid": "uid-other"}
    notes = {"mooring.dev/gpus": named}
    hinted = pod("other-worker-0", 1, labels=labels, owner=forged, notes=notes)
    assert hinted.mark is not None
    assert free_after(hinted) == 1


def test_a_pod_that_asks_for_one_cpu_cannot_claim_more() -> None:
    for named, believed in (("7", (7,)), ("0-5", ()), ("0-9999", ())):
        notes = {"mooring.dev/cpus": named}
        assert pod("train-worker-0", 0, labels=marks(), owner=OWNER, notes=notes).cpus == believed
