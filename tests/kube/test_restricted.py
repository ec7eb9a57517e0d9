"""Pods of jobs, as the API server has them, conform to the `restricted` Pod Security Standard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kube.cluster.client import ApiError, Json
from kube.cluster.fake_nodes import NodeShape
from kube.operator import training_job
from kube.scenarios import Stage
from support.pod_security import breaches

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/job.yaml"))


@pytest.fixture(scope="module", autouse=True)
def nodes(stage: Stage) -> Iterator[None]:
    with stage.nodes(4, NodeShape(cpus=16, memory_bytes=64 * 2**30, gpus=4)):
        yield


def every_option() -> Json:
    kubernetes = {
        "securityContext": {"runAsUser": 2000, "runAsGroup": 0, "supplementalGroups": [4]},
        "serviceAccountName": "default",
        "sharedMemory": "1Gi",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "envFrom": [{"configMapRef": {"name": "c", "optional": True}}],
        "secretEnv": {"TOKEN": {"secret": "s", "key": "k"}},
    }
    return training_job("options", cpu=2, gpu=1, pinning="exclusive", kubernetes=kubernetes)


def test_pods_of_all_examples_conform(stage: Stage) -> None:
    jobs = [yaml.safe_load(path.read_text()) for path in EXAMPLES] + [every_option()]
    found = {}
    for job in jobs:
        job["spec"].setdefault("image", "registry.example/train:1")
        name = stage.run(job)
        found |= {pod["metadata"]["name"]: breaches(pod["spec"]) for pod in stage.jobs.pods(name)}
        stage.delete(name)
    assert len(found) >= 2 * len(jobs)
    assert {pod: told for pod, told in found.items() if told} == {}


def test_root_cannot_be_asked_for(stage: Stage) -> None:
    job = training_job("root", kubernetes={"securityContext": {"runAsUser": 0}})
    with pytest.raises(ApiError, match=r"securityContext\.runAsUser") as refused:
        stage.submit(job)
    assert refused.value.status == 422
