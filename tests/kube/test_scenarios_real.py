"""Real frameworks in real pods, sent by `moor submit`: the examples, made small."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.cluster.control_plane import ControlPlane
from kube.cluster.images import PYTHON
from kube.cluster.real_node import RealNode
from kube.operator import Jobs, OperatorProcess, training_job
from kube.test_real_node import cpus
from support.hostile import hostile
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.root]

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE = {"kubernetes.io/hostname": "real"}
SMALL = {"cpu": "100m", "memory": "1Gi"}
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def example(folder: str, target: Path, command: list[str] | None = None) -> Path:
    """The example for the real node, which has little more than one CPU to give."""
    shutil.copytree(EXAMPLES / folder, target, dirs_exist_ok=True)
    job: dict[str, Any] = yaml.safe_load((target / "job.yaml").read_text())
    job["spec"] |= {"image": PYTHON, "placement": {"nodeSelector": HERE}, "gracePeriod": "2s"}
    if command:
        job["spec"]["command"] = command
    for role in job["spec"]["roles"].values():
        role["resources"] = SMALL
        role.pop("processes", None)
    if folder == "wide-deep":  # five TensorFlows take long to start; one worker shows the same
        job["spec"]["roles"]["worker"]["replicas"] = 1
    (target / "job.yaml").write_text(yaml.safe_dump(job))
    return target / "job.yaml"


def submit(plane: ControlPlane, namespace: str, file: Path) -> str:
    """Until the job's end; what `moor` said."""
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "mooring", "submit", str(file), "--wait"),
            *("--kubeconfig", str(plane.kubeconfig), "--namespace", namespace),
        ],
        capture_output=True,
        text=True,
        timeout=420,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr + logs(plane, namespace)
    return done.stdout


def logs(plane: ControlPlane, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods"
    told = []
    for pod in plane.admin.items(path):
        name = pod["metadata"]["name"]
        told.append(f"--- {name} {pod['status']['phase']}")
        told.append(plane.kubectl("logs", "-n", namespace, name, "--tail=30").stdout)
    return "\n".join(told)


@pytest.mark.framework
@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("wide-deep", ["python", "train.py", "--steps", "40", "--rows", "2000", "--judge", "0"]),
        ("pytorch-ddp", ["python", "train.py", "--steps", "20"]),
        ("mpi-allreduce", None),
        ("indexed", None),
    ],
)
def test_an_example_succeeds_in_pods(
    control_plane: ControlPlane,
    real_node: RealNode,
    operator: OperatorProcess,
    namespace: str,
    tmp_path: Path,
    folder: str,
    command: list[str] | None,
) -> None:
    told = submit(control_plane, namespace, example(folder, tmp_path, command))
    assert told.splitlines()[-1].startswith("Succeeded")
    assert operator.defects == []


def test_a_pinned_member_has_its_cpu_alone_and_a_shared_one_has_not(
    real_node: RealNode, operator: OperatorProcess, namespace: str, jobs: Jobs
) -> None:
    for name, pinning, cpu in (("shared", "shared", "100m"), ("pinned", "exclusive", 1)):
        job = training_job(name, {"worker": 1}, cpu=cpu, memory="128Mi", pinning=pinning)
        job["spec"] |= {"placement": {"nodeSelector": HERE}, "gracePeriod": 0}
        job["spec"]["roles"]["worker"]["command"] = SLEEP
        jobs.create(job)
        jobs.wait_phase(name, "Running")
    alone = cpus(real_node.cpuset(namespace, "pinned-worker-0", "member"))
    assert len(alone) == 1
    until(
        lambda: not alone & cpus(real_node.cpuset(namespace, "shared-worker-0", "member")),
        "the shared member has left the pinned one's CPU",
    )


ECHO = """
import json, os, sys
print(json.dumps(sys.argv[1:]))
print(json.dumps([os.environ[f"T{index}"] for index in range(len(sys.argv) - 1)]))
"""


def test_hostile_texts_reach_a_program_in_a_pod_as_they_are(
    control_plane: ControlPlane,
    real_node: RealNode,
    operator: OperatorProcess,
    namespace: str,
    jobs: Jobs,
    tmp_path: Path,
) -> None:
    texts = hostile(tmp_path / "executed")
    job = training_job("echo", {"worker": 1}, cpu="100m", memory="128Mi")
    job["spec"] |= {"placement": {"nodeSelector": HERE}, "gracePeriod": 0}
    job["spec"]["env"] = {f"T{index}": text for index, text in enumerate(texts)}
    job["spec"]["roles"]["worker"]["command"] = [sys.executable, "-c", ECHO, *texts]
    jobs.create(job)
    jobs.wait_phase("echo", "Succeeded", "Failed", deadline_s=120)
    log = control_plane.admin.text(f"/api/v1/namespaces/{namespace}/pods/echo-worker-0/log")
    arguments, variables = (json.loads(line) for line in log.splitlines() if line.startswith("["))
    assert arguments == texts
    assert variables == texts
    assert operator.defects == []
