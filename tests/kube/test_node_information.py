"""What nodes are made of and how their kubelets are set: read from a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import MARK, NodeShape, fake_nodes
from kube.cluster.puppets import puppets
from kube.objects import pods_path
from kube.operator import Flags, Jobs, jobs_path, training_job
from kube.operator import operator as run_operator
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "noderesourcetopologies.topology.node.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements"},
    },
    "spec": {
        "group": "topology.node.k8s.io",
        "scope": "Cluster",
        "names": {
            "kind": "NodeResourceTopology",
            "listKind": "NodeResourceTopologyList",
            "plural": "noderesourcetopologies",
            "singular": "noderesourcetopology",
        },
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _ANYTHING},
            }
        ],
    },
}


def topology(node: str, *cpus: int) -> Json:
    """A node with these CPUs in its cells, and a kubelet that keeps pods on one of them."""
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [
            {
                "name": f"node-{cell}",
                "type": "Node",
                "resources": [
                    {
                        "name": "cpu",
                        "capacity": str(count),
                        "allocatable": str(count),
                        "available": str(count),
                    }
                ],
            }
            for cell, count in enumerate(cpus)
        ],
    }


@contextmanager
def published(plane: ControlPlane, *topologies: Json) -> Iterator[None]:
    """As long as the block runs: nobody else's operator shall know of them."""
    plane.admin.create(DEFINITIONS, DEFINITION)
    try:
        until(lambda: _served(plane), "topologies are served", 60)
        for one in topologies:
            plane.admin.create(TOPOLOGIES, one)
        yield
    finally:
        plane.admin.delete(f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")
        until(lambda: not _served(plane), "topologies are gone", 60)


def _served(plane: ControlPlane) -> bool:
    listed = plane.kubectl("get", "noderesourcetopologies.topology.node.k8s.io")
    return listed.returncode == 0


def pinned(name: str, cpu: int, workers: int) -> Json:
    job = training_job(name, {"worker": workers}, cpu=cpu, pinning="exclusive", gracePeriod=0)
    job["spec"]["placement"] = {"nodeSelector": {MARK: "true"}}
    return job


def test_cells_of_nodes_decide_where_a_gang_fits(
    control_plane: ControlPlane, namespace: str, jobs: Jobs
) -> None:
    """Both nodes have 8 CPUs; 6 on one cell are to be had only where the cells are 6 and 2. The
    operator has the installed account's rights, and kubelets that nobody can reach are no harm."""
    admin = control_plane.admin
    flags = Flags(as_account=True, more=("--kubelet-config",))
    with fake_nodes(admin, 2, NodeShape(cpus=8), "cell") as names, puppets(admin):
        even, odd = names
        with (
            published(control_plane, topology(even, 4, 4), topology(odd, 6, 2)),
            run_operator(control_plane, namespace, flags) as operator,
        ):
            jobs.create(pinned("fits", 6, 1))
            jobs.create(pinned("waits", 5, 2))
            found = jobs.wait_phase("fits", "Running")
            assert found["status"]["placement"] == {"worker": [odd]}
            status = until(
                lambda: (
                    now
                    if "kubelet would not admit it"
                    in (now := jobs.status("waits")).get("message", "")
                    else None
                ),
                "the other one is told why it waits",
                60,
            )
            assert status["phase"] == "Queued"
            # The exporter of the first node says something else of it.
            changed = topology(even, 6, 2)
            patch = {"zones": changed["zones"]}
            merge = "application/merge-patch+json"
            admin.patch(f"{TOPOLOGIES}/{even}", patch, content_type=merge)
            jobs.delete("fits")
            found = jobs.wait_phase("waits", "Running")
            assert sorted(found["status"]["placement"]["worker"]) == names
            assert operator.log.count("settings of kubelets stay unknown") == 1
            assert operator.defects == []
            for name in ("fits", "waits"):
                jobs.delete(name)
            until(lambda: not jobs.pods("waits"), "its pods are gone", 60)


STORAGE = "/apis/storage.k8s.io/v1"
ZONE = "topology.kubernetes.io/zone"


@contextmanager
def volume_in(plane: ControlPlane, namespace: str, zone: str) -> Iterator[None]:
    """The claim `data`, which has a volume that only nodes of one zone reach."""
    here = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    shape = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
    volume = {
        "metadata": {"name": f"{namespace}-data"},
        "spec": {
            **shape,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "mooring.test", "volumeHandle": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            **shape,
            "volumeName": f"{namespace}-data",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    admin = plane.admin
    admin.create("/api/v1/persistentvolumes", volume)
    admin.create(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
    try:
        yield
    finally:
        admin.delete(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data")
        admin.delete(f"/api/v1/persistentvolumes/{namespace}-data")


def mounting(name: str, workers: int) -> Json:
    job = training_job(name, {"worker": workers}, gracePeriod=0)
    job["spec"]["placement"] = {"nodeSelector": {MARK: "true"}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    job["spec"]["kubernetes"] = {"volumes": [volume]}
    return job


def test_a_gang_goes_where_its_volume_is(
    control_plane: ControlPlane, namespace: str, jobs: Jobs
) -> None:
    """The first zone is as good but for the volume; and there the driver attaches none to one of
    the two nodes. A job whose claim does not exist yet is told so, and runs once it does."""
    admin = control_plane.admin
    shapes = {zone: NodeShape(labels={ZONE: zone}) for zone in "ab"}
    none = {"name": "mooring.test", "nodeID": "x", "allocatable": {"count": 0}}
    with (
        fake_nodes(admin, 2, shapes["a"], "zone-a"),
        fake_nodes(admin, 2, shapes["b"], "zone-b") as [full, free],
        puppets(admin),
        run_operator(control_plane, namespace, Flags(as_account=True)) as operator,
    ):
        limits = {"metadata": {"name": full}, "spec": {"drivers": [none]}}
        admin.create(f"{STORAGE}/csinodes", limits)
        try:
            jobs.create(mounting("reads", 3))
            said = f"claim {namespace}/data is not there"
            until(lambda: said in jobs.status("reads").get("message", ""), "it is told why", 60)
            with volume_in(control_plane, namespace, "b"):
                found = jobs.wait_phase("reads", "Running")
                assert found["status"]["placement"] == {"worker": [free] * 3}
                jobs.delete("reads")
                until(lambda: not jobs.pods("reads"), "its pods are gone", 60)
        finally:
            admin.delete(f"{STORAGE}/csinodes/{full}", missing_ok=True)
        assert operator.defects == []


def test_a_gang_waits_for_a_silent_node_until_it_is_declared_out_of_service(
    control_plane: ControlPlane, namespace: str, jobs: Jobs
) -> None:
    """Nobody plays the kubelet here: a pod that was told to go stays."""
    admin = control_plane.admin
    job = training_job("held", {"worker": 1}, gracePeriod="1s")
    with (
        fake_nodes(admin, 1, NodeShape(cpus=2, labels={"for": "silence"}), "silent") as [node],
        run_operator(control_plane, namespace) as process,
    ):
        job["spec"]["placement"] = {"nodeSelector": {"for": "silence"}}
        jobs.create(job)
        path = f"{pods_path(namespace)}/held-worker-0"
        until(lambda: jobs.pods("held"), "it has a pod", 60)
        until(lambda: admin.get(path)["spec"].get("nodeName"), "it is bound", 60)
        condition = {"type": "Ready", "status": "Unknown", "reason": "Test"}
        body = {"status": {"conditions": [condition]}}
        admin.patch(f"/api/v1/nodes/{node}/status", body)
        merge = "application/merge-patch+json"
        held = {"spec": {"kubernetes": {"suspend": True}}}
        admin.patch(jobs_path(namespace, "held"), held, content_type=merge)
        said = f"it waits for held-worker-0 on {node}, which is not ready"
        until(lambda: said in jobs.status("held").get("message", ""), "it says for whom", 60)
        assert "deletionTimestamp" in admin.get(path)["metadata"]
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        admin.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}}, content_type=merge)
        jobs.wait_phase("held", "Suspended", deadline_s=120)
        assert jobs.pods("held") == []
        assert process.defects == []
        jobs.delete("held")
