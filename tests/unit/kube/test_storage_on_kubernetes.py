"""Volumes, neighbours and unwelcome jobs, as a cluster's objects tell of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.backends.kubernetes.api.document import Object
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.backends.kubernetes.objects.nodes import NodeView, parse_node, with_limits
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from mooring.backends.kubernetes.objects.storage import (
    parse_claim,
    parse_class,
    parse_limits,
    parse_volume,
    storage_of,
)
from mooring.backends.kubernetes.objects.use import NAMESPACE, Interest, snapshot
from mooring.brain import place
from mooring.model.affinity import Operator, Requirement, Term
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.model.volumes import (
    Access,
    Binding,
    Claim,
    PersistentVolume,
    Storage,
    StorageClass,
    Volume,
)

ZONE = "topology.kubernetes.io/zone"
GIB = 2**30


def node(name: str, zone: str = "a", avoid: object = None) -> NodeView:
    notes = {"scheduler.alpha.kubernetes.io/preferAvoidPods": avoid} if avoid is not None else {}
    labels = {ZONE: zone, "kubernetes.io/hostname": name}
    return parse_node(
        {
            "metadata": {"name": name, "labels": labels, "annotations": notes},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def claim(name: str, **spec: Any) -> Claim:
    return parse_claim({"metadata": {"namespace": "team", "name": name}, "spec": spec})


def volume(name: str, zone: str, phase: str = "Bound", **spec: Any) -> PersistentVolume:
    there = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [there]}}, **spec}
    return parse_volume({"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}})


def pod(name: str, where: str, namespace: str = "team", **more: Any) -> PodView:
    about = {"name": name, "namespace": namespace, "uid": name, "labels": more.pop("labels", {})}
    spec = {"nodeName": where, "containers": [], **more}
    return parse_pod({"metadata": about, "spec": spec, "status": {"phase": "Running"}})


def gang(count: int = 1, spread: Object | None = None, **kubernetes: Any) -> Gang:
    """The workers of a job of the namespace `team`, as the brain is told of them."""
    placement = {"topologySpread": [spread]} if spread else {}
    return parse_training_job(
        {
            "apiVersion": "mooring.dev/v1",
            "kind": "TrainingJob",
            "metadata": {"name": "train", "namespace": "team", "labels": {"app": "train"}},
            "spec": {
                "framework": "indexed",
                "image": "train:1",
                "placement": placement,
                "kubernetes": kubernetes,
                "roles": {"worker": {"replicas": count, "command": ["x"], "resources": {"cpu": 1}}},
            },
        }
    ).queued


def mounting(name: str) -> list[Any]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def where(outcome: Plan | Refusal) -> list[str]:
    assert isinstance(outcome, Plan), outcome
    return [one.slot.node for one in outcome.placements]


def stored(nodes: list[NodeView], storage: Storage, pods: list[PodView] | None = None) -> Snapshot:
    return snapshot(nodes, pods or [], interest=Interest(storage))


def test_a_claim_is_known_with_its_namespace() -> None:
    found = claim(
        "data",
        storageClassName="fast",
        accessModes=["ReadWriteMany", "OfTheFuture"],
        resources={"requests": {"storage": "10Gi"}},
        volumeName="pv-0",
    )
    assert found == Claim("team/data", "fast", 10 * GIB, frozenset({Access.MANY_NODES}), "pv-0")


@pytest.mark.parametrize(
    ("spec", "driver"),
    [
        ({"csi": {"driver": "ebs.csi.aws.com"}}, "ebs.csi.aws.com"),
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io"),
        ({"local": {"path": "/disk"}}, ""),
    ],
)
def test_a_volume_has_a_place_and_a_driver(spec: dict[str, Any], driver: str) -> None:
    found = volume("pv-0", "b", capacity={"storage": "1Gi"}, **spec)
    in_b = Term((Requirement(ZONE, Operator.IN, ("b",)),))
    assert (found.affinity, found.driver, found.capacity_bytes) == ((in_b,), driver, GIB)


@pytest.mark.parametrize(
    ("phase", "serves"), [("Available", True), ("Bound", True), ("Released", False)]
)
def test_a_volume_that_its_owner_has_left_serves_nobody(phase: str, serves: bool) -> None:
    """Also not a claim of the same name, which is another one."""
    modes = {"accessModes": ["ReadWriteOnce"]}
    mine = volume("pv-0", "a", phase, claimRef={"namespace": "team", "name": "data"}, **modes)
    assert mine.serves(claim("data", **modes)) is serves


def test_classes_say_when_and_where_volumes_are_made() -> None:
    zones = {"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}
    found = parse_class(
        {
            "metadata": {
                "name": "fast",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [zones],
        }
    )
    there = (Term((Requirement(ZONE, Operator.IN, ("a", "b")),)),)
    assert found.kind == StorageClass("fast", "ebs.csi.aws.com", Binding.WAIT, there)
    # A claim that names no class gets the default one.
    [fast, unnamed] = storage_of([], [], [found]).classes
    assert (fast.name, unnamed.name, unnamed.provisioner) == ("fast", "", "ebs.csi.aws.com")
    local = parse_class({"metadata": {"name": "l"}, "provisioner": "kubernetes.io/no-provisioner"})
    assert (local.kind, local.default) == (StorageClass("l"), False)


def test_a_gang_goes_where_its_volume_is() -> None:
    modes = {"accessModes": ["ReadWriteMany"]}
    storage = storage_of([claim("data", volumeName="pv-0", **modes)], [volume("pv-0", "b")], [])
    nodes = [node("n0", "a"), node("n1", "b"), node("n2", "b")]
    plan = place(gang(4, volumes=mounting("data")), stored(nodes, storage))
    assert set(where(plan)) == {"n1", "n2"}


def test_a_claim_of_another_namespace_is_somebody_elses() -> None:
    storage = storage_of([claim("other", volumeName="pv-0")], [volume("pv-0", "a")], [])
    refusal = place(gang(volumes=mounting("data")), stored([node("n0")], storage))
    assert isinstance(refusal, Refusal)
    assert "claim team/data is not there" in refusal.verdicts[0].reasons


def test_a_claim_of_one_node_is_followed_to_where_a_stranger_uses_it() -> None:
    modes = {"accessModes": ["ReadWriteOnce"]}
    storage = storage_of([claim("data", volumeName="pv-0", **modes)], [volume("pv-0", "a")], [])
    user = pod("stranger", "n1", volumes=mounting("data"))
    nodes = [node("n0"), node("n1")]
    assert where(place(gang(2, volumes=mounting("data")), stored(nodes, storage, [user]))) == [
        "n1",
        "n1",
    ]


def test_a_driver_attaches_no_more_than_it_can() -> None:
    """The node's driver takes one volume, and a stranger has it."""
    csi = {"csi": {"driver": "d"}}
    claims = [claim(name, volumeName=f"pv-{name}") for name in ("data", "full")]
    volumes = [volume(f"pv-{name}", "a", **csi) for name in ("data", "full")]
    limits = parse_limits(
        {
            "metadata": {"name": "n0"},
            "spec": {
                "drivers": [
                    {"name": "d", "allocatable": {"count": 1}},
                    {"name": "unlimited"},
                    {"name": "none", "allocatable": {"count": 0}},
                ]
            },
        }
    )
    assert limits.limits == (("d", 1), ("none", 0))
    nodes = [with_limits(node("n0"), limits.limits)]
    storage = storage_of(claims, volumes, [])
    stranger = pod("stranger", "n0", volumes=mounting("full"))
    job = gang(volumes=mounting("data"))
    assert where(place(job, stored(nodes, storage))) == ["n0"]
    refusal = place(job, stored(nodes, storage, [stranger]))
    assert isinstance(refusal, Refusal)
    assert "too many volumes of d" in refusal.verdicts[0].reasons[0]


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        (mounting("data"), (Volume("team/data"),)),
        (
            [{"name": "d", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}],
            (Volume("team/data", read_only=True),),
        ),
        ([{"name": "own", "ephemeral": {"volumeClaimTemplate": {}}}], (Volume("team/p-own"),)),
        (
            [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}],
            (Volume(disk="awsElasticBlockStore v", exclusive=True),),
        ),
        ([{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "x"}}], ()),
        ("nonsense", ()),
    ],
)
def test_what_a_pod_mounts(volumes: Any, expected: tuple[Volume, ...]) -> None:
    assert pod("p", "n0", volumes=volumes).volumes == expected


# -- neighbours


def test_pods_of_the_same_namespace_count_where_a_job_spreads_by_labels() -> None:
    """Two pods of the app are in zone a, so the one worker more goes to b: 2 + 1 and 2. Three of
    another namespace that have the same labels do not count."""
    spread = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabels": {"app": "train"},
    }
    labels = {"app": "train", "pod-template-hash": "x"}
    pods = [pod(f"p{i}", "n0", labels=labels) for i in range(2)]
    pods += [pod(f"q{i}", "n1", "elsewhere", labels=labels) for i in range(3)]
    pods += [pod("r", "n1", labels={"app": "other"})]
    nodes = [node("n0", "a"), node("n1", "b")]
    seen = snapshot(nodes, pods, interest=Interest(residents=True))
    assert where(place(gang(3, spread), seen)).count("n1") == 2
    apart = snapshot(nodes, pods)
    assert apart.use_of("n0").residents == ()


def test_labels_of_a_gang_are_its_namespaces() -> None:
    one = gang().members[0]
    assert one.labels == (("app", "train"), (NAMESPACE, "team"))
    assert one.job == "team/train"


# -- unwelcome jobs


def avoiding(kind: str, uid: str) -> str:
    owner = {"kind": kind, "name": "train", "uid": uid}
    return json.dumps({"preferAvoidPods": [{"podSignature": {"podController": owner}}]})


@pytest.mark.parametrize(
    ("written", "avoids"),
    [
        (avoiding("TrainingJob", "uid-1"), ("team/train",)),
        (avoiding("TrainingJob", "uid-of-a-job-that-is-gone"), ()),
        (avoiding("ReplicaSet", "uid-1"), ()),
        ("{", ()),
        ("[" * 100_000, ()),
        ('{"preferAvoidPods": 3}', ()),
    ],
)
def test_a_node_names_the_jobs_that_it_would_rather_not_have(
    written: str, avoids: tuple[str, ...]
) -> None:
    seen = snapshot(
        [node("n0", avoid=written)], [], interest=Interest(jobs={"uid-1": "team/train"})
    )
    assert seen.nodes[0].avoids == avoids
