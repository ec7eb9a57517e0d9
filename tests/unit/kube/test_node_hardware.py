"""Cells, kubelets and devices of a cluster's nodes, and what the brain makes of them.

The nodes here say of themselves what the nodes of a cluster file would, and are treated alike.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.backends.kubernetes.objects.kubelet import parse_configz
from mooring.backends.kubernetes.objects.nodes import (
    NodeView,
    gpu_memory_bytes,
    parse_node,
    with_hardware,
)
from mooring.backends.kubernetes.objects.pods import PodView, parse_ids, parse_pod
from mooring.backends.kubernetes.objects.topology import NumaZone, TopologyView, parse_topology
from mooring.backends.kubernetes.objects.use import Kept, snapshot
from mooring.brain import place
from mooring.model.cluster import (
    CpuManager,
    KubeletPolicy,
    NodeUse,
    TopologyManager,
    TopologyScope,
)
from mooring.model.member import Gang, Member, MemberId, Pinning, Preset
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

STATIC = KubeletPolicy(CpuManager.STATIC, reserved_cpus=frozenset({0}))
GIB = 2**30


def node(cpus: int, gpus: int = 0, given: int | None = None, **labels: str) -> NodeView:
    capacity = {"cpu": str(cpus), "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
    return parse_node(
        {
            "metadata": {"name": "n0", "labels": labels},
            "status": {
                "capacity": capacity,
                "allocatable": {**capacity, "cpu": str(given or cpus)},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def zone(name: str, cpu: tuple[int, int, int], gpu: tuple[int, int, int] | None = None) -> Any:
    listed = {"cpu": cpu, **({"nvidia.com/gpu": gpu} if gpu else {})}
    keys = ("capacity", "allocatable", "available")
    return {
        "name": name,
        "type": "Node",
        "costs": [{"name": name, "value": 10}],
        "resources": [
            {"name": one, **dict(zip(keys, map(str, amounts), strict=True))}
            for one, amounts in listed.items()
        ],
    }


def topology(*zones: Any, **attributes: str) -> TopologyView:
    return parse_topology(
        {
            "metadata": {"name": "n0"},
            "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
            "zones": [*zones, {"name": "socket-0", "type": "Socket"}],
        }
    )


def configz(**config: Any) -> KubeletPolicy | None:
    return parse_configz({"kubeletconfig": config})


def pod(name: str, cpus: str, qos: str = "Guaranteed", gpus: int = 0) -> PodView:
    asked = {"cpu": cpus, "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    return parse_pod(
        {
            "metadata": {"name": name, "namespace": "team", "uid": name},
            "spec": {"nodeName": "n0", "containers": [{"resources": {"requests": asked}}]},
            "status": {"phase": "Running", "qosClass": qos},
        }
    )


def gang(cpus: int, count: int = 1, gpus: int = 0) -> Gang:
    asked = Resources(1000 * cpus, gpus=gpus)
    members = [
        Member(MemberId("worker", index), "job", asked, Pinning.EXCLUSIVE) for index in range(count)
    ]
    return Gang("job", tuple(members), Preset.SPREAD)


@pytest.mark.parametrize(
    ("config", "policy"),
    [
        ({"syncFrequency": "1m0s"}, KubeletPolicy()),
        ({"cpuManagerPolicy": "none", "systemReserved": {"cpu": "2"}}, KubeletPolicy()),
        (
            {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,4-5"},
            KubeletPolicy(CpuManager.STATIC, reserved_cpus=frozenset({0, 4, 5})),
        ),
        # 500m + 600m = 1100m, rounded up to 2 CPUs: the lowest.
        (
            {
                "cpuManagerPolicy": "static",
                "systemReserved": {"cpu": "500m"},
                "kubeReserved": {"cpu": "600m", "memory": "1Gi"},
            },
            KubeletPolicy(CpuManager.STATIC, reserved_cpus=frozenset({0, 1})),
        ),
        (
            {
                "cpuManagerPolicy": "static",
                "reservedSystemCPUs": "0",
                "topologyManagerPolicy": "single-numa-node",
                "topologyManagerScope": "pod",
                "cpuManagerPolicyOptions": {
                    "full-pcpus-only": "true",
                    "prefer-align-cpus-by-uncorecache": "true",
                },
            },
            KubeletPolicy(
                CpuManager.STATIC,
                TopologyManager.SINGLE_NUMA_NODE,
                TopologyScope.POD,
                full_physical_cores_only=True,
                reserved_cpus=frozenset({0}),
                prefer_l3_alignment=True,
            ),
        ),
        ({"topologyManagerPolicy": "of-the-future"}, None),
        ({}, None),
    ],
)
def test_what_a_kubelet_says_of_itself(config: dict[str, Any], policy: KubeletPolicy) -> None:
    assert configz(**config) == policy


def test_cells_have_the_cpus_and_devices_that_the_topology_gives_them() -> None:
    found = topology(
        zone("node-1", (4, 4, 1), (2, 2, 1)),
        zone("node-0", (4, 3, 3), (1, 1, 0)),
        topologyManagerPolicy="restricted",
        topologyManagerScope="pod",
    )
    assert found.zones == (NumaZone(0, 4, 3, 3, 1, 0), NumaZone(1, 4, 4, 1, 2, 1))
    whole = with_hardware(node(8, gpus=3, given=7), found, None)
    assert [cpu.cell for cpu in whole.node.cpus] == [0] * 4 + [1] * 4
    assert [gpu.cell for gpu in whole.node.gpus] == [0, 1, 1]
    # One of the four CPUs of cell 0 is not handed out.
    assert whole.node.kubelet == KubeletPolicy(
        CpuManager.STATIC,
        TopologyManager.RESTRICTED,
        TopologyScope.POD,
        reserved_cpus=frozenset({0}),
    )


@pytest.mark.parametrize(
    ("old", "policy", "scope"),
    [
        ("SingleNUMANodePodLevel", TopologyManager.SINGLE_NUMA_NODE, TopologyScope.POD),
        ("BestEffortContainerLevel", TopologyManager.BEST_EFFORT, TopologyScope.CONTAINER),
    ],
)
def test_the_old_names_of_policies(old: str, policy: TopologyManager, scope: TopologyScope) -> None:
    found = parse_topology({"topologyPolicies": [old], "zones": [zone("node-0", (4, 4, 4))]})
    assert found.policy == KubeletPolicy(CpuManager.STATIC, policy, scope)


@pytest.mark.parametrize("told", [{}, {"topologyManagerPolicy": "none"}])
def test_a_topology_without_a_policy_says_nothing_of_the_kubelet(told: dict[str, str]) -> None:
    found = topology(zone("node-0", (4, 4, 4)), zone("node-1", (4, 4, 4)), **told)
    whole = with_hardware(node(8), found, None)
    assert whole.node.cells == (0, 1)
    assert whole.node.kubelet is None


def test_the_kubelets_own_word_counts_more_than_the_topologys() -> None:
    cells = (zone("node-0", (4, 3, 3)), zone("node-1", (4, 4, 4)))
    found = topology(*cells, topologyManagerPolicy="single-numa-node")
    whole = with_hardware(node(8), found, KubeletPolicy())
    # It gives nobody CPUs of their own; what it keeps is still counted by cell.
    assert whole.node.kubelet == KubeletPolicy(reserved_cpus=frozenset({0}))


def test_a_topology_of_fewer_cpus_than_the_node_gives_is_not_believed() -> None:
    whole = with_hardware(node(8), topology(zone("node-0", (4, 4, 4))), STATIC)
    assert (whole.node.cells, whole.zones, whole.node.kubelet) == ((0,), (), STATIC)


def test_devices_that_no_cell_claims_cannot_be_misaligned() -> None:
    cells = (zone("node-0", (4, 4, 4)), zone("node-1", (4, 4, 4)))
    found = topology(*cells, topologyManagerPolicy="single-numa-node")
    whole = with_hardware(node(8, gpus=2), found, None)
    assert whole.node.kubelet == KubeletPolicy(CpuManager.STATIC)


def test_nodes_of_one_shape_share_their_parts() -> None:
    found = topology(zone("node-0", (4, 4, 4)), zone("node-1", (4, 4, 4)))
    one, two = with_hardware(node(8), found, STATIC), with_hardware(node(8), found, STATIC)
    assert one.node.cpus is two.node.cpus
    assert one.node.gpus is two.node.gpus


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, 0),
        ({"nvidia.com/gpu.memory": "40960"}, 40 * GIB),
        # A card that four devices share by turns has a quarter for each.
        ({"nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.replicas": "4"}, 10 * GIB),
        ({"nvidia.com/gpu.memory": "lots"}, 0),
        ({"amd.com/gpu.vram": "191G"}, 191 * GIB),
        ({"amd.com/gpu.vram": "512M"}, 512 * 2**20),
        ({"amd.com/gpu.vram": "some"}, 0),
    ],
)
def test_the_memory_of_devices_is_what_the_labels_say(
    labels: dict[str, str], expected: int
) -> None:
    assert gpu_memory_bytes(labels) == expected


def test_devices_are_called_as_their_labels_say() -> None:
    labels = {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.memory": "40960"}
    card = node(8, gpus=1, **labels).node.gpus[0]
    assert (card.kind, card.memory_bytes) == ("A100", 40 * GIB)


# -- what others hold


def test_a_strangers_own_cpus_are_in_the_cell_where_some_are_taken() -> None:
    """Cell 1 has 1 of 4 left, so the three CPUs of the only pinned stranger are there."""
    cells = (zone("node-0", (4, 3, 3)), zone("node-1", (4, 4, 1)))
    whole = with_hardware(node(8, given=7), topology(*cells), STATIC)
    there = snapshot([whole], [pod("pinned", "3"), pod("shares", "500m", "Burstable")])
    use = there.use_of("n0")
    assert use.cpus == frozenset({4, 5, 6})
    assert (use.resources.cpu_millis, use.sharers) == (3500, 1)


def test_without_a_topology_it_has_the_lowest_that_are_not_kept() -> None:
    whole = with_hardware(node(8, given=7), None, STATIC)
    held = {"n0": Kept(cpus=frozenset({1, 2}))}
    assert snapshot([whole], [pod("a", "2")], held).use_of("n0").cpus == frozenset({3, 4})


@pytest.mark.parametrize("kubelet", [None, KubeletPolicy()])
def test_nobody_has_cpus_of_their_own_where_no_static_kubelet_is_known(
    kubelet: KubeletPolicy | None,
) -> None:
    whole = with_hardware(node(8), None, kubelet)
    use = snapshot([whole], [pod("a", "2")]).use_of("n0")
    assert use == NodeUse(Resources(2000, GIB), sharers=1)


def test_a_strangers_devices_are_not_those_of_our_gangs() -> None:
    held = {"n0": Kept(gpus=frozenset({0, 1}))}
    there = snapshot([node(8, gpus=4)], [pod("a", "1", gpus=2)], held)
    assert there.use_of("n0").gpus == frozenset({2, 3})


@pytest.mark.parametrize("text", ["0-99999999", "0-9999," * 2000, "1" * 20_000, "x", "-"])
def test_hints_that_nobody_wrote_in_earnest_are_no_hints(text: str) -> None:
    assert parse_ids(text) == ()


# -- what the brain makes of it


def test_a_gang_is_refused_where_the_kubelet_would_turn_it_away() -> None:
    """Two cells of 4 CPUs: 5 on one cell are not to be had."""
    cells = (zone("node-0", (4, 4, 4)), zone("node-1", (4, 4, 4)))
    found = topology(*cells, topologyManagerPolicy="single-numa-node")
    there = snapshot([with_hardware(node(8), found, None)], [])
    plan = place(gang(4), there)
    assert isinstance(plan, Plan)
    assert plan.placements[0].slot.cells == (0,)
    refusal = place(gang(5), there)
    assert isinstance(refusal, Refusal)
    assert "TopologyAffinityError" in refusal.verdicts[0].reasons[0]


def test_a_gang_is_refused_where_a_stranger_has_the_cell() -> None:
    cells = (zone("node-0", (4, 4, 4)), zone("node-1", (4, 4, 1)))
    found = topology(*cells, topologyManagerPolicy="single-numa-node")
    whole = with_hardware(node(8), found, None)
    strangers = [pod("pinned", "3")]
    assert isinstance(place(gang(2, count=2), snapshot([whole], strangers)), Plan)
    assert isinstance(place(gang(3, count=2), snapshot([whole], strangers)), Refusal)


def test_a_gang_that_wants_its_own_cpus_goes_where_a_kubelet_gives_some() -> None:
    refusal = place(gang(1), snapshot([with_hardware(node(8), None, KubeletPolicy())], []))
    assert isinstance(refusal, Refusal)
    assert "gives nobody CPUs of their own" in refusal.verdicts[0].reasons[0]
