"""Imported jobs, for real: what the manifests' commands expect of their operator is there.

Ray and Spark are stood in for by small programs that behave as far as the commands need.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from support.moor import Moor, leftovers

STARTERS = Path(__file__).parents[2] / "src" / "mooring" / "frameworks" / "starters"


def import_and_run(folder: Path, manifest: str | dict[str, Any], **env: str) -> str:
    """Import, run beside the manifest, and return what the members printed."""
    text = dedent(manifest) if isinstance(manifest, str) else yaml.safe_dump(manifest)
    (folder / "manifest.yaml").write_text(text)
    moor = Moor(folder / "home")
    imported = moor("import", folder / "manifest.yaml", "-o", folder / "job.yaml")
    assert imported.returncode == 0, imported.stderr
    answer = moor("run", folder / "job.yaml", timeout_s=300, env=env)
    logs = moor("logs", "last").stdout
    assert answer.returncode == 0, answer.stdout + answer.stderr + logs
    assert leftovers(moor.only_run()) == []
    return logs


def kubeflow(kind: str, key: str, container: str, roles: dict[str, Any], **spec: Any) -> Any:
    specs = {
        name: {
            "replicas": count,
            "restartPolicy": "Never",
            "template": {"spec": {"containers": [{"name": container, "command": command}]}},
        }
        for name, (count, command) in roles.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "imported"},
        "spec": {key: specs, **spec},
    }


@pytest.mark.framework
def test_tfjob_trains_with_parameter_servers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((STARTERS / "tensorflow" / "train.py").read_text())
    train = ["python", "train.py"]
    roles = {"Chief": (1, train), "PS": (1, train), "Worker": (1, train)}
    logs = import_and_run(tmp_path, kubeflow("TFJob", "tfReplicaSpecs", "tensorflow", roles))
    assert "chief-0" in logs


@pytest.mark.framework
def test_pytorchjob_runs_torchrun_in_every_member(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        dedent(
            """
            import torch, torch.distributed as dist
            dist.init_process_group("gloo")
            total = torch.tensor([float(dist.get_rank())])
            dist.all_reduce(total)
            rank, size = dist.get_rank(), dist.get_world_size()
            print(f"rank {rank} of {size}: {total.item():.0f}", flush=True)
            dist.destroy_process_group()
            """
        )
    )
    roles = {"Master": (1, ["torchrun", "train.py"]), "Worker": (1, ["torchrun", "train.py"])}
    manifest = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", roles, nprocPerNode="2")
    logs = import_and_run(tmp_path, manifest)
    # 0 + 1 + 2 + 3 = 6 in each of the four processes.
    assert set(re.findall(r"rank (\d) of 4: 6", logs)) == {"0", "1", "2", "3"}


@pytest.mark.framework
def test_mpijob_runs_its_ranks_in_the_workers(tmp_path: Path) -> None:
    command = ["mpirun", "--allow-run-as-root", "-np", "2", "--hostfile", "/etc/mpi/hostfile"]
    command += ["sh", "-c", 'echo "rank $OMPI_COMM_WORLD_RANK in $MOORING_MEMBER"']
    roles = {"Launcher": (1, command), "Worker": (2, ["/usr/sbin/sshd", "-De"])}
    logs = import_and_run(tmp_path, kubeflow("MPIJob", "mpiReplicaSpecs", "mpi", roles))
    assert set(re.findall(r"rank (\d) in (\S+)", logs)) == {("0", "worker-0"), ("1", "worker-1")}


@pytest.mark.slow
def test_indexed_job_tells_each_pod_its_index(tmp_path: Path) -> None:
    manifest = """
        apiVersion: batch/v1
        kind: Job
        metadata: {name: shards}
        spec:
          completions: 3
          parallelism: 3
          completionMode: Indexed
          template:
            spec:
              restartPolicy: Never
              containers:
                - name: main
                  image: busybox
                  env: [{name: OUT, value: part}]
                  command: [echo, "$(OUT)-$(JOB_COMPLETION_INDEX)"]
    """
    logs = import_and_run(tmp_path, manifest)
    assert set(re.findall(r"part-\d", logs)) == {"part-0", "part-1", "part-2"}


@pytest.mark.slow
def test_jobset_finds_its_first_pod_and_counts_within_each_job(tmp_path: Path) -> None:
    manifest = """
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: set}
        spec:
          replicatedJobs:
            - name: driver
              template:
                spec:
                  template:
                    spec:
                      containers: [{name: d, command: [echo, driver]}]
            - name: workers
              replicas: 2
              template:
                spec:
                  parallelism: 2
                  completions: 2
                  completionMode: Indexed
                  template:
                    spec:
                      containers:
                        - name: w
                          env: [{name: FIRST, value: "set-workers-0-0.set"}]
                          command: [sh, -c, 'echo "pod $JOB_COMPLETION_INDEX at $FIRST"']
    """
    logs = import_and_run(tmp_path, manifest)
    # Two jobs of two pods: each index twice.
    assert sorted(re.findall(r"pod (\d) at 127\.", logs)) == ["0", "0", "1", "1"]


@pytest.mark.slow
def test_volcano_job_reads_its_hosts(tmp_path: Path) -> None:
    script = "for h in `cat /etc/volcano/ps.host`; do echo ${VC_TASK_INDEX}:$VC_WORKER_NUM:$h; done"
    task = {"template": {"spec": {"containers": [{"name": "t", "command": ["sh", "-c", script]}]}}}
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "imported"},
        "spec": {
            "minAvailable": 3,
            "plugins": {"svc": [], "env": []},
            "tasks": [
                {"name": "ps", "replicas": 1, **task},
                {"name": "worker", "replicas": 2, **task},
            ],
        },
    }
    logs = import_and_run(tmp_path, manifest)
    assert sorted(re.findall(r"(\d):2:127\.", logs)) == ["0", "0", "1"]


_IDENTITY = {
    "MXJob": (
        "mxReplicaSpecs",
        "mxnet",
        {"Scheduler": 1, "Server": 1, "Worker": 2},
        'echo "id $DMLC_ROLE$DMLC_WORKER_ID $DMLC_NUM_SERVER $DMLC_NUM_WORKER $DMLC_PS_ROOT_PORT"',
        {"scheduler 1 2", "server 1 2", "worker0 1 2", "worker1 1 2"},
    ),
    "XGBoostJob": (
        "xgbReplicaSpecs",
        "xgboost",
        {"Master": 1, "Worker": 2},
        'echo "id $RANK $WORLD_SIZE $MASTER_PORT"',
        {"0 3", "1 3", "2 3"},
    ),
    "PaddleJob": (
        "paddleReplicaSpecs",
        "paddle",
        {"Worker": 2},
        'echo "id $PADDLE_JOB_ID $PADDLE_NNODES ${PADDLE_MASTER##*:}"',
        {"imported 2"},
    ),
    "JAXJob": (
        "jaxReplicaSpecs",
        "jax",
        {"Worker": 2},
        'echo "id $PROCESS_ID $NUM_PROCESSES $COORDINATOR_PORT"',
        {"0 2", "1 2"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", _IDENTITY)
def test_the_operators_variables_are_there_and_agree(tmp_path: Path, kind: str) -> None:
    key, container, counts, script, expected = _IDENTITY[kind]
    # The job ends with its master: nobody ends before all have spoken.
    script += '; touch "$STATE/$MOORING_MEMBER"; '
    script += f'until [ "$(ls "$STATE" | wc -l)" -eq {sum(counts.values())} ]; do sleep 0.1; done'
    roles = {name: (count, ["sh", "-c", script]) for name, count in counts.items()}
    state = tmp_path / "state"
    state.mkdir()
    manifest = kubeflow(kind, key, container, roles)
    logs = import_and_run(tmp_path, manifest, STATE=str(state))
    found = re.findall(r"id (.+) (\d+)$", logs, re.MULTILINE)
    assert {who for who, _ in found} == expected
    assert len(found) == sum(counts.values())
    assert len({port for _, port in found}) == 1  # everybody meets at the same place


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + dedent(text))
    path.chmod(0o755)


@pytest.mark.slow
def test_rayjob_starts_head_and_workers_and_ends_with_its_driver(tmp_path: Path) -> None:
    _program(
        tmp_path / "bin" / "ray",
        """
        echo "ray $MOORING_MEMBER $*"
        case "$1 $2" in
          "start --head") touch "$STATE/head"; exec sleep 600 ;;
          "health-check --address") test -e "$STATE/head" ;;
          "start --address="*) touch "$STATE/worker"; exec sleep 600 ;;
          "job list") test -e "$STATE/worker" ;;
          "job submit") shift 3; exec "$@" ;;
        esac
        """,
    )
    pod = {"spec": {"containers": [{"name": "ray", "resources": {"limits": {"cpu": "500m"}}}]}}
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "imported"},
        "spec": {
            "entrypoint": "echo the driver ran",
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": pod},
                "workerGroupSpecs": [{"replicas": 1, "groupName": "g", "template": pod}],
            },
        },
    }
    path = f"{tmp_path / 'bin'}:{Moor(tmp_path).env['PATH']}"
    logs = import_and_run(tmp_path, manifest, PATH=path, STATE=str(tmp_path))
    assert "the driver ran" in logs
    [port] = re.findall(r"ray head-0 start --head --port=(\d+)", logs)
    assert f"ray worker-0 start --address=127.0.0.1:{port} --block --num-cpus=1" in logs


@pytest.mark.slow
def test_sparkapplication_runs_master_workers_and_driver(tmp_path: Path) -> None:
    _program(
        tmp_path / "bin" / "spark-class",
        """
        echo "spark $MOORING_MEMBER $*"
        touch "$STATE/$MOORING_ROLE"
        exec sleep 600
        """,
    )
    _program(
        tmp_path / "bin" / "spark-submit",
        """
        until test -e "$STATE/executor" && test -e "$STATE/driver"; do sleep 0.1; done
        echo "submit $*"
        """,
    )
    manifest = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "imported"},
        "spec": {
            "type": "Scala",
            "mainClass": "org.example.Pi",
            "mainApplicationFile": "local:///opt/pi.jar",
            "arguments": ["a b"],
            "driver": {"memory": "64m"},
            "executor": {"instances": 1, "memory": "64m", "cores": 1},
        },
    }
    logs = import_and_run(tmp_path, manifest, SPARK_HOME=str(tmp_path), STATE=str(tmp_path))
    [port] = re.findall(r"master\.Master --host \S+ --port (\d+)", logs)
    assert re.search(rf"worker\.Worker .*--cores 1 --memory 64m spark://127\.\S+:{port}", logs)
    assert re.search(rf"submit --master spark://127\.\S+:{port} .*--class org.example.Pi", logs)
    assert "/opt/pi.jar a b" in logs
