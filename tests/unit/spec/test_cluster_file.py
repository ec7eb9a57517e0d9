"""Cluster files: the shape of each node's CPUs, devices and names, and what is impossible."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mooring.model.cluster import (
    Cpu,
    CpuManager,
    Gpu,
    KubeletPolicy,
    Node,
    Taint,
    TopologyManager,
    TopologyScope,
    format_cpus,
)
from mooring.model.errors import BadInput
from mooring.spec import parse_cluster


def nodes_of(*groups: dict[str, Any]) -> tuple[Node, ...]:
    data = {"apiVersion": "mooring.dev/v1", "kind": "Cluster", "nodes": list(groups)}
    return parse_cluster(yaml.safe_dump(data), "cluster.yaml")


def test_a_node_with_sockets_cells_caches_and_siblings() -> None:
    (node,) = nodes_of(
        {
            "name": "big",
            "cpus": 16,
            "sockets": 2,
            "cellsPerSocket": 2,
            "smt": 2,
            "l3Groups": 2,
            "memory": "64Gi",
            "gpus": {"cells": [0, 0, 3], "kind": "a100"},
            "nicMbps": 25000,
            "labels": {"disk": "ssd"},
            "taints": [{"key": "dedicated", "value": "training"}],
        }
    )
    # 8 cores: one to each of 2 caches in each of 4 cells; siblings are i and i + 8.
    assert node.cpus[0] == Cpu(id=0, core=0, l3=0, cell=0, socket=0)
    assert node.cpus[3] == Cpu(id=3, core=3, l3=3, cell=1, socket=0)
    assert node.cpus[4] == Cpu(id=4, core=4, l3=4, cell=2, socket=1)
    assert node.cpus[15] == Cpu(id=15, core=7, l3=7, cell=3, socket=1)
    assert node.cells == (0, 1, 2, 3)
    assert (node.cpu_millis, node.memory_bytes, node.nic_mbps) == (16_000, 64 * 1024**3, 25_000)
    assert node.gpus == (Gpu(0, 0, "a100"), Gpu(1, 0, "a100"), Gpu(2, 3, "a100"))
    assert node.labels == {"disk": "ssd"}
    assert node.taints == (Taint("dedicated", "training", "NoSchedule"),)


@pytest.mark.parametrize(
    ("gpus", "cells"),
    [
        ({"count": 4}, [0, 0, 1, 1]),
        ({"count": 3}, [0, 0, 1]),
        ({"count": 1}, [0]),
        ({"perCell": 2}, [0, 0, 1, 1]),
        ({"perCell": 2, "count": 4}, [0, 0, 1, 1]),
        ({"cells": [1, 0]}, [1, 0]),
    ],
)
def test_gpus_hang_off_cells(gpus: dict[str, Any], cells: list[int]) -> None:
    (node,) = nodes_of({"name": "n", "cpus": 4, "sockets": 2, "memory": "1Gi", "gpus": gpus})
    assert [gpu.cell for gpu in node.gpus] == cells


def test_names_count_up_and_reserved_cpus_are_gone() -> None:
    nodes = nodes_of(
        {"name": "head", "cpus": 2, "memory": 1},
        {"namePrefix": "node", "count": 2, "cpus": 8, "memory": 1, "reservedCpus": "0-1,4"},
        {"namePrefix": "one", "cpus": 1, "memory": 1},
    )
    assert [node.name for node in nodes] == ["head", "node-0", "node-1", "one-0"]
    assert format_cpus({cpu.id for cpu in nodes[1].cpus}) == "2-3,5-7"
    assert nodes[1].cpu_millis == 5000


def test_gpus_have_switches_links_and_health() -> None:
    gpus = {"perCell": 4, "perSwitch": 2, "perLinkGroup": 4, "unhealthy": [5], "memory": "80Gi"}
    (node,) = nodes_of({"name": "n", "cpus": 4, "sockets": 2, "memory": "1Gi", "gpus": gpus})
    assert [gpu.switch for gpu in node.gpus] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [gpu.link_group for gpu in node.gpus] == [0] * 4 + [1] * 4
    assert [gpu.index for gpu in node.gpus if not gpu.healthy] == [5]
    assert {gpu.memory_bytes for gpu in node.gpus} == {80 << 30}


def test_a_kubelet_keeps_its_cpus_on_the_node_but_out_of_the_amount() -> None:
    kubelet = {
        "cpuManagerPolicy": "static",
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "fullPhysicalCoresOnly": True,
        "preferL3Alignment": True,
        "reservedCpus": "0,4",
    }
    plain, kept, shared = nodes_of(
        {"name": "a", "cpus": 8, "memory": 1},
        {"name": "b", "cpus": 8, "smt": 2, "memory": 1, "kubelet": kubelet},
        {"name": "c", "cpus": 8, "memory": 1, "kubelet": {}},
    )
    assert plain.kubelet is None
    assert kept.kubelet == KubeletPolicy(
        CpuManager.STATIC,
        TopologyManager.SINGLE_NUMA_NODE,
        TopologyScope.POD,
        full_physical_cores_only=True,
        reserved_cpus=frozenset({0, 4}),
        prefer_l3_alignment=True,
    )
    assert (len(kept.cpus), kept.cpu_millis) == (8, 6000)
    assert shared.kubelet == KubeletPolicy()


PLAIN = {"name": "n", "cpus": 8, "memory": "1Gi"}


@pytest.mark.parametrize(
    ("group", "path", "found", "accepted"),
    [({"cpus": _}, "nodes[0].cpus", "the number", "at") for _ in (0, -1, 1025)]
    + [
        ({"sockets": 3}, "nodes[0].sockets", "3", "3 sockets = 3 does not"),
        ({"smt": 2, "sockets": 8}, "nodes[0].sockets", "8", "2 threads a core x 8 sockets = 16"),
        ({"cellsPerSocket": 3}, "nodes[0].cellsPerSocket", "3", "divides the 8 cpus"),
        ({"l3Groups": 16}, "nodes[0].l3Groups", "16", "divides the 8 cpus"),
        ({"memory": "lots"}, "nodes[0].memory", "'lots'", "4Gi"),
        ({"memory": None}, "nodes[0].memory", "nothing", "a value for 'memory'"),
        ({"count": 2}, "nodes[0].name", "'n'", "namePrefix"),
        ({"name": None}, "nodes[0].name", "neither", "one of: name, namePrefix"),
        ({"namePrefix": "p"}, "nodes[0].name", "both", "one of: name, namePrefix"),
        ({"name": "Node_1"}, "nodes[0].name", "'Node_1'", "lower-case"),
        (
            {"name": None, "namePrefix": "p" * 63},
            "nodes[0].namePrefix",
            "ppp",
            "a shorter prefix",
        ),
        ({"gpus": {}}, "nodes[0].gpus.count", "nothing", "count, perCell, cells"),
        ({"gpus": {"perCell": 1, "cells": [0]}}, "nodes[0].gpus.perCell", "both", "not both"),
        ({"gpus": {"count": 2, "cells": [0]}}, "nodes[0].gpus.count", "2", "length of 'cells'"),
        ({"gpus": {"count": 3, "perCell": 2}}, "nodes[0].gpus.count", "3", "2 (perCell"),
        ({"gpus": {"cells": [1]}}, "nodes[0].gpus.cells[0]", "1", "from 0 to 0"),
        ({"reservedCpus": "all"}, "nodes[0].reservedCpus", "'all'", "ids and ranges"),
        ({"reservedCpus": "3-1"}, "nodes[0].reservedCpus", "'3-1'", "ids and ranges"),
        ({"reservedCpus": "8"}, "nodes[0].reservedCpus", "CPU 8", "from 0 to 7"),
        ({"reservedCpus": "0-7"}, "nodes[0].reservedCpus", "every CPU", "at least one"),
        ({"gpus": {"count": 2, "unhealthy": [2]}}, "nodes[0].gpus.unhealthy[0]", "2", "0 to 1"),
        (
            {"kubelet": {"cpuManagerPolicy": "static"}},
            "nodes[0].kubelet.reservedCpus",
            "nothing",
            "does not start without",
        ),
        (
            {"kubelet": {"fullPhysicalCoresOnly": True}},
            "nodes[0].kubelet.fullPhysicalCoresOnly",
            "true",
            "cpuManagerPolicy: static",
        ),
        (
            {"kubelet": {"cpuManagerPolicy": "static", "reservedCpus": "8"}},
            "nodes[0].kubelet.reservedCpus",
            "CPU 8",
            "from 0 to 7",
        ),
        (
            {"kubelet": {"topologyManagerPolicy": "strict"}},
            "nodes[0].kubelet.topologyManagerPolicy",
            "'strict'",
            "single-numa-node",
        ),
        (
            {"cpus": 16, "cellsPerSocket": 16, "kubelet": {"topologyManagerPolicy": "restricted"}},
            "nodes[0].kubelet.topologyManagerPolicy",
            "'restricted' with 16 cells",
            "at most 8 cells",
        ),
        (
            {"kubelet": {"reservedCpus": "0"}, "reservedCpus": "1"},
            "nodes[0].reservedCpus",
            "'1'",
            "of 'kubelet' instead",
        ),
        ({"nicMbps": 0}, "nodes[0].nicMbps", "0", "at least 1"),
        ({"taints": [{}]}, "nodes[0].taints[0].key", "nothing", "a value for 'key'"),
        ({"cpu": 8}, "nodes[0].cpu", "unknown field 'cpu'", "did you mean 'cpus'?"),
    ],
)
def test_an_impossible_node_is_named(
    group: dict[str, Any], path: str, found: str, accepted: str
) -> None:
    with pytest.raises(BadInput) as raised:
        nodes_of({**PLAIN, **group})
    (problem,) = raised.value.problems
    assert problem.path == path
    assert found in problem.found
    assert accepted in problem.accepted


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ([], "an empty list"),
        ([PLAIN, PLAIN], "the name 'n' a second time"),
        (
            [{**PLAIN, "name": "p-1"}, {"namePrefix": "p", "count": 2, "cpus": 1, "memory": 1}],
            "the name 'p-1' a second time",
        ),
        (
            [
                {"namePrefix": prefix, "count": 11_000, "cpus": 1, "memory": 1}
                for prefix in ("a", "b")
            ],
            "22000 nodes",
        ),
    ],
)
def test_an_impossible_cluster_is_named(groups: list[dict[str, Any]], found: str) -> None:
    with pytest.raises(BadInput, match=found):
        nodes_of(*groups)


def test_a_large_cluster() -> None:
    nodes = nodes_of({"namePrefix": "n", "count": 20_000, "cpus": 256, "smt": 2, "memory": "1Ti"})
    assert len(nodes) == 20_000


ONE = {"name": "n0", "cpus": 2, "memory": "1Gi"}


@pytest.mark.parametrize(
    ("more", "path", "found", "accepted"),
    [
        (
            {"nodes": [{**ONE, "pool": "adz"}], "pools": [{"name": "ads"}]},
            "nodes[0].pool",
            "unknown pool 'adz'",
            "'ads'",
        ),
        ({"nodes": [{**ONE, "pool": "ads"}]}, "nodes[0].pool", "unknown pool", "which has none"),
        ({"moveGroups": {}}, "moveGroups", "no such nodes", "nodes with a `pool`"),
        (
            {"moveGroups": {"spare": 1.5}},
            "moveGroups.spare",
            "the number 1.5",
            "at most 1",
        ),
        (
            {"moveGroups": {"short": 0.5, "spare": 0.5}},
            "moveGroups.spare",
            "the number 0.5",
            "less than short (0.5)",
        ),
        ({"moveGroups": {"delay": -1}}, "moveGroups.delay", "-1", "not negative"),
        ({"priorityClasses": {"High": 1}}, "priorityClasses.High", "'High'", "lower-case"),
        ({"priorityClasses": {"high": "1"}}, "priorityClasses.high", "'1'", "a whole number"),
        ({"priorityClasses": {"high": 2**31}}, "priorityClasses.high", "2147483648", "at most"),
    ],
)
def test_wrong_sharing_is_named(more: dict[str, Any], path: str, found: str, accepted: str) -> None:
    document = {"apiVersion": "mooring.dev/v1", "kind": "Cluster", "nodes": [ONE], **more}
    with pytest.raises(BadInput) as raised:
        parse_cluster(yaml.safe_dump(document), "c.yaml")
    (problem,) = [one for one in raised.value.problems if one.path == path]
    assert found in problem.found
    assert accepted in problem.accepted
