"""A large cluster as objects: nodes as kubelets report them, pods of somebody else on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_raw import Body, body

Json = dict[str, Any]
_CPUS = 96
_MEMORY_KIB = 384 * 2**20
_IMAGES = 50
_VARIABLES = 20
_GI = 2**30
_CONDITIONS = {
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "NetworkUnavailable": "False",
    "Ready": "True",
}


def nodes(count: int) -> Iterator[Body]:
    for index in range(count):
        yield body("/api/v1/nodes", node(index))


def pods(namespace: str, count: int, on: int) -> Iterator[Body]:
    """Bound already, evenly over the nodes."""
    for index in range(count):
        yield body(f"/api/v1/namespaces/{namespace}/pods", pod(index, index % on))


def node_name(index: int) -> str:
    return f"node-{index:05d}.zone-{index % 3}.example"


def node(index: int) -> Json:
    """96 CPUs, of every fourth 8 GPUs; labels, conditions and 50 images, as on a node in use."""
    name, gpus = node_name(index), 8 if index % 4 == 0 else 0
    kind = {"nvidia.com/gpu.product": "A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
    amounts = {
        "cpu": str(_CPUS),
        "memory": f"{_MEMORY_KIB}Ki",
        "ephemeral-storage": str(800 * _GI),
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": "110",
        **({"nvidia.com/gpu": str(gpus)} if gpus else {}),
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "gpu-8x" if gpus else "cpu-96",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": f"zone-{index % 3}",
        "example.com/rack": f"rack-{index // 20}",
        **{f"feature.node.kubernetes.io/cpu-cpuid.F{n}": "true" for n in range(12)},
        **(kind if gpus else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": {**amounts, "cpu": "95500m"},
            "conditions": [
                {
                    "type": kind_,
                    "status": status,
                    "reason": f"Kubelet{kind_}",
                    "message": f"kubelet reports {kind_.lower()} {status.lower()}",
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                for kind_, status in _CONDITIONS.items()
            ],
            "addresses": [
                {
                    "type": "InternalIP",
                    "address": f"10.{index // 65536}.{index // 256}.{index % 256}",
                },
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": f"{index:032x}",
                "containerRuntimeVersion": "containerd://1.7.0",
                "kernelVersion": "6.1.0",
                "kubeProxyVersion": "v1.20.2",
                "kubeletVersion": "v1.20.2",
                "machineID": f"{index:032x}",
                "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 12",
                "systemUUID": f"{index:032x}",
            },
            "images": [_image((index * 7 + n) % 200) for n in range(_IMAGES)],
        },
    }


def _image(number: int) -> Json:
    name = f"registry.example/team-{number % 9}/image-{number:03d}"
    return {
        "names": [f"{name}@sha256:{number:064x}", f"{name}:v1.{number}"],
        "sizeBytes": 10**8 + number,
    }


def pod(index: int, on: int) -> Json:
    """20 variables, two containers, as a service's replica has them."""
    variables = [
        {"name": f"SETTING_{n}", "value": f"value-{n}-of-the-service"} for n in range(_VARIABLES)
    ]
    labels = {"app": f"service-{index // 40}", "pod-template-hash": f"{index // 40:08x}"}
    container = {
        "name": "main",
        "image": "registry.example/team-1/image-001:v1.1",
        "env": variables,
        "ports": [{"containerPort": 8080}],
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"memory": "2Gi"},
        },
    }
    beside = {
        "name": "proxy",
        "image": "registry.example/team-1/image-002:v1.2",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"service-{index // 40}-{index:05d}", "labels": labels},
        "spec": {
            "nodeName": node_name(on),
            "automountServiceAccountToken": False,
            "containers": [container, beside],
        },
    }
