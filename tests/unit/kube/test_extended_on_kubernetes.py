"""Extended resources and images: what nodes and pods of a cluster say of them."""

from __future__ import annotations

import json
from typing import Any

from mooring.backends.kubernetes.objects.nodes import parse_node
from mooring.backends.kubernetes.objects.pods import parse_pod, pod_resources
from mooring.backends.kubernetes.objects.use import snapshot
from mooring.brain import place
from mooring.model.cluster import Node
from mooring.model.member import Gang, Member, MemberId, Preset
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

FPGA = "example.com/fpga"


def node(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n0"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], **status},
    }


def pod(name: str, fpgas: int) -> dict[str, Any]:
    requests = {"cpu": "1", FPGA: str(fpgas)}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"nodeName": "n0", "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }


def test_a_node_has_what_its_plugins_report() -> None:
    listed = {
        "cpu": "8",
        "memory": "16Gi",
        "pods": "110",
        "nvidia.com/gpu": "2",
        FPGA: "4",
        "hugepages-2Mi": "64Mi",
    }
    found = parse_node(node(allocatable=listed, capacity=listed)).node
    assert found.extended == ((FPGA, 4), ("hugepages-2Mi", 64 << 20))
    assert len(found.gpus) == 2


def test_what_pods_hold_is_not_free() -> None:
    view = parse_node(node(allocatable={"cpu": "8", "memory": "16Gi", FPGA: "4"}))
    there = snapshot([view], [parse_pod(pod("other", 3))])

    def job(count: int) -> Gang:
        asked = Resources(1000, extended=((FPGA, count),))
        return Gang("job", (Member(MemberId("worker", 0), "job", asked),), Preset.SPREAD)

    assert isinstance(place(job(1), there), Plan)
    refusal = place(job(2), there)
    assert isinstance(refusal, Refusal)
    assert f"1 insufficient {FPGA}" in refusal.sentence


def test_the_largest_init_container_counts_beside_all_others() -> None:
    # Containers need 1 + 1 at the same time, the init container 3 before them: 3.
    def needs(count: int) -> dict[str, Any]:
        return {"resources": {"requests": {FPGA: str(count)}}}

    spec = {"containers": [needs(1), needs(1)], "initContainers": [needs(3)]}
    assert pod_resources(spec).count(FPGA) == 3


def test_the_images_that_a_node_has() -> None:
    images = [{"names": ["train@sha256:0", "train:1"], "sizeBytes": 7}, {"names": None}]
    found = parse_node(node(allocatable={"cpu": "1"}, images=images)).node
    assert found.images == (("train:1", 7), ("train@sha256:0", 7))


def test_what_nodes_have_in_common_is_kept_once() -> None:
    """Thousands of nodes say the same: a cache of them must not grow with every word."""
    images = [{"names": ["a:1", "a@sha256:0"], "sizeBytes": 7}, {"names": ["b:1"], "sizeBytes": 9}]
    listed = {"cpu": "96", "nvidia.com/gpu": "8", FPGA: "4"}

    def parsed() -> Node:
        written = json.dumps(node(allocatable=listed, capacity=listed, images=images))
        return parse_node(json.loads(written)).node

    one, other = parsed(), parsed()
    assert one == other
    for share in ("cpus", "gpus", "images", "extended", "taints"):
        assert getattr(one, share) is getattr(other, share), share
