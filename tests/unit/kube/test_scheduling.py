"""What pods tell other schedulers: the job's intent in the words of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.backends.kubernetes.objects.scheduling import SchedulingGroup, scheduling_of
from mooring.model.member import MemberId
from mooring.model.plan import Slot

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GROUP = SchedulingGroup("j", "uid-1", 2)


def scheduled(
    kubernetes: dict[str, Any],
    member: str = "worker-0",
    placement: dict[str, Any] | None = None,
    **spec: Any,
) -> Any:
    obj = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "j", "namespace": "team", "uid": "uid-1"},
        "spec": {
            "framework": "tensorflow",
            "image": "registry.example/train:1",
            "command": ["python", "train.py"],
            "roles": {"ps": {"replicas": 2}, "worker": {"replicas": 3}},
            "placement": placement or {"preset": "spread"},
            "kubernetes": kubernetes,
            **spec,
        },
    }
    parsed = parse_training_job(obj)
    role, _, index = member.rpartition("-")
    wanted = MemberId(role, int(index))
    [one] = [each for each in parsed.gang.members if each.id == wanted]
    return scheduling_of(parsed.job.spec.kubernetes, parsed.gang, one, Slot("n1", ()), GROUP)


def members(*roles: str) -> dict[str, Any]:
    expression = {"key": "mooring.dev/role", "operator": "In", "values": list(roles)}
    return {"matchLabels": {"mooring.dev/job-uid": "uid-1"}, "matchExpressions": [expression]}


def term(*roles: str) -> dict[str, Any]:
    return {"labelSelector": members(*roles), "topologyKey": "kubernetes.io/hostname"}


def evenly(selector: dict[str, Any]) -> dict[str, Any]:
    return {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }


EVERYBODY = {"matchLabels": {"mooring.dev/job-uid": "uid-1"}}


def test_moorings_own_plan_is_one_node() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    assert scheduled({}).spec == {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


@pytest.mark.parametrize(
    ("preset", "member", "affinity", "spread"),
    [
        ("spread", "worker-0", None, evenly(EVERYBODY)),
        ("isolate", "ps-0", {"podAntiAffinity": {REQUIRED: [term("worker")]}}, evenly(EVERYBODY)),
        ("isolate", "worker-0", None, evenly(EVERYBODY)),
        (
            "colocate",
            "worker-0",
            {"podAffinity": {REQUIRED: [term("ps")]}},
            evenly(members("worker")),
        ),
        ("colocate", "ps-0", None, evenly(members("ps"))),
        (
            "spread-ps",
            "ps-1",
            {"podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": term("ps")}]}},
            evenly(members("ps")),
        ),
        (
            "pack",
            "worker-2",
            {
                "podAffinity": {
                    PREFERRED: [{"weight": 100, "podAffinityTerm": term("ps", "worker")}]
                }
            },
            None,
        ),
    ],
)
def test_presets(preset: str, member: str, affinity: Any, spread: Any) -> None:
    spec = scheduled({"scheduler": "default"}, member, {"preset": preset}).spec
    assert spec.get("affinity") == affinity
    assert spec.get("topologySpreadConstraints") == ([spread] if spread else None)


def test_rules_and_wishes() -> None:
    rule = {"relation": "apart", "roles": ["worker"], "weight": 30}
    zones = [{"key": "zone", "operator": "In", "values": ["a", "b"]}]
    ssd = [{"key": "ssd", "operator": "Exists"}]
    spec = scheduled(
        {"scheduler": "default"},
        placement={
            "preset": "spread",
            "rules": [rule],
            "nodeSelector": {"pool": "train"},
            "nodeName": "n7",
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": zones}]},
                PREFERRED: [{"weight": 7, "preference": {"matchExpressions": ssd}}],
            },
            "topologySpread": [{"topologyKey": "zone", "maxSkew": 2}],
        },
    ).spec
    name = {"key": "metadata.name", "operator": "In", "values": ["n7"]}
    assert spec["nodeSelector"] == {"pool": "train"}
    assert spec["affinity"] == {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": zones, "matchFields": [name]}]},
            PREFERRED: [{"weight": 7, "preference": {"matchExpressions": ssd}}],
        },
        "podAntiAffinity": {PREFERRED: [{"weight": 30, "podAffinityTerm": term("worker")}]},
    }
    assert [one["topologyKey"] for one in spec["topologySpreadConstraints"]] == [
        "zone",
        "kubernetes.io/hostname",
    ]


def test_kinds_of_gpus_are_asked_for_by_label() -> None:
    role = {
        "resources": {"cpu": 1, "memory": "1Gi", "gpu": 1},
        "gpuKind": "A100",
        "gpuMemory": "40Gi",
    }
    spec = scheduled({"scheduler": "default"}, roles={"ps": {}, "worker": role}).spec
    kind = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100"]}
    # At least 40 GiB are more than 40,959 MiB.
    memory = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40959"]}
    required = spec["affinity"]["nodeAffinity"][REQUIRED]
    assert required == {"nodeSelectorTerms": [{"matchExpressions": [kind, memory]}]}


def test_volcano_is_told_the_group() -> None:
    found = scheduled({"scheduler": "volcano", "queue": "research"})
    assert found.spec["schedulerName"] == "volcano"
    assert found.annotations == {"scheduling.k8s.io/group-name": "j"}


@pytest.mark.parametrize(("restart", "retriable"), [("gang", "false"), ("member", None)])
def test_kueue_is_told_the_queue_the_group_and_its_size(
    restart: str, retriable: str | None
) -> None:
    found = scheduled(
        {"scheduler": "kueue", "queue": "research"}, failurePolicy={"restart": restart}
    )
    assert found.labels == {
        "kueue.x-k8s.io/queue-name": "research",
        "kueue.x-k8s.io/pod-group-name": "j-2",
    }
    assert found.annotations.get("kueue.x-k8s.io/pod-group-total-count") == "5"
    assert found.annotations.get("kueue.x-k8s.io/retriable-in-group") == retriable
    assert "schedulerName" not in found.spec
