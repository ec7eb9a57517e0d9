"""What each field becomes, one row a field: a pod's, then those of the kinds around it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mooring.importers import Imported, import_manifests

Data = dict[str, Any]


def indexed_job(container: Data | None = None, pod: Data | None = None, **spec: Any) -> Data:
    main = {"name": "main", "image": "i:1", "command": ["python", "a.py"], **(container or {})}
    template = {"spec": {"containers": [main], **(pod or {})}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template, **spec},
    }


def kubeflow(kind: str, key: str, roles: Data, container: str, **spec: Any) -> Data:
    """`roles`: replica type -> further fields of its replica spec, `container` of its container."""
    specs = {}
    for name, given in roles.items():
        extra = dict(given)
        main = {"name": container, "image": "i:1", "command": ["python", "a.py"]}
        main |= extra.pop("container", {})
        pod = {"containers": [main], **extra.pop("pod", {})}
        specs[name] = {"replicas": 1, "template": {"spec": pod}, **extra}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "j"},
        "spec": {key: specs, **spec},
    }


def tfjob(roles: Data, **spec: Any) -> Data:
    return kubeflow("TFJob", "tfReplicaSpecs", roles, "tensorflow", **spec)


def pytorchjob(roles: Data, **spec: Any) -> Data:
    return kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles, "pytorch", **spec)


def mpijob(launcher: Data, worker: Data, **spec: Any) -> Data:
    roles = {"Launcher": launcher, "Worker": {"container": {"command": None}, **worker}}
    return kubeflow("MPIJob", "mpiReplicaSpecs", roles, "mpi", **spec)


def volcano(*tasks: Data, **spec: Any) -> Data:
    made = []
    for task in tasks:
        extra = dict(task)
        main = {"name": "m", "image": "i:1", "command": ["python"], **extra.pop("container", {})}
        pod = {"containers": [main], **extra.pop("pod", {})}
        made.append({"name": "worker", "replicas": 1, "template": {"spec": pod}, **extra})
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": made, **spec},
    }


def run_import(manifest: Data, **options: Any) -> Imported:
    [result] = import_manifests([("m.yaml", yaml.safe_dump(manifest))], **options)
    return result


def job_of(manifest: Data, **options: Any) -> Data:
    result = run_import(manifest, **options)
    assert result.text is not None, [str(one) for one in result.accounts[0].problems]
    job: Data = yaml.safe_load(result.text)
    return job


def at(data: Any, path: str) -> Any:
    for part in path.split("/"):
        data = data.get(part) if isinstance(data, dict) else None
    return data


POD_ROWS: list[tuple[Data, Data, str, Any]] = [
    # container, pod, where in the job, what
    ({}, {}, "spec/image", "i:1"),
    ({"args": ["-x"]}, {}, "spec/roles/worker/command", ["python", "a.py", "-x"]),
    ({"workingDir": "/w"}, {}, "spec/workingDir", "/w"),
    ({"env": [{"name": "A", "value": "1"}]}, {}, "spec/roles/worker/env", {"A": "1"}),
    ({"env": [{"name": "A"}]}, {}, "spec/roles/worker/env", {"A": ""}),
    (
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "x$(A)$$(A)$(C)"}]},
        {},
        "spec/roles/worker/env/B",
        "x1$(A)$(C)",
    ),
    (
        {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {},
        "spec/kubernetes/secretEnv/T",
        {"secret": "s", "key": "k"},
    ),
    (
        {"env": [{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]},
        {},
        "spec/kubernetes/configMapEnv/B",
        {"configMap": "c", "key": "k"},
    ),
    (
        {"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
        {},
        "spec/kubernetes/fieldEnv/N",
        "spec.nodeName",
    ),
    (
        {"envFrom": [{"configMapRef": {"name": "c"}}]},
        {},
        "spec/kubernetes/envFrom",
        [{"configMapRef": {"name": "c"}}],
    ),
    ({"imagePullPolicy": "Always"}, {}, "spec/kubernetes/imagePullPolicy", "Always"),
    # CPU is what is requested, memory what it is limited to.
    (
        {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}},
        {},
        "spec/roles/worker/resources/cpu",
        "1",
    ),
    (
        {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
        {},
        "spec/roles/worker/resources/memory",
        "2Gi",
    ),
    ({"resources": {"limits": {"cpu": 2}}}, {}, "spec/roles/worker/resources/cpu", 2),
    ({"resources": {"limits": {"amd.com/gpu": 2}}}, {}, "spec/roles/worker/resources/gpu", 2),
    (
        {"resources": {"limits": {"rdma/hca": 1}}},
        {},
        "spec/roles/worker/resources/extended",
        {"rdma/hca": 1},
    ),
    ({"ports": [{"containerPort": 80}]}, {}, "spec/roles/worker/ports", {"port-80": 80}),
    (
        {"ports": [{"containerPort": 80, "name": "web", "protocol": "TCP"}]},
        {},
        "spec/roles/worker/ports",
        {"web": 80},
    ),
    (
        {"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
        {"volumes": [{"name": "d", "emptyDir": {}}]},
        "spec/kubernetes/volumes",
        [{"name": "d", "emptyDir": {}}],
    ),
    (
        {"volumeMounts": [{"name": "d", "mountPath": "/d", "subPath": "x"}]},
        {"volumes": [{"name": "d", "emptyDir": {}}]},
        "spec/kubernetes/volumeMounts",
        [{"name": "d", "mountPath": "/d", "subPath": "x"}],
    ),
    (
        {"volumeMounts": [{"name": "m", "mountPath": "/dev/shm/"}]},
        {"volumes": [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
        "spec/kubernetes/sharedMemory",
        "1Gi",
    ),
    ({"securityContext": {"runAsUser": 7}}, {}, "spec/kubernetes/securityContext/runAsUser", 7),
    ({}, {"securityContext": {"fsGroup": 7}}, "spec/kubernetes/securityContext/fsGroup", 7),
    ({}, {"serviceAccountName": "sa"}, "spec/kubernetes/serviceAccountName", "sa"),
    ({}, {"serviceAccount": "sa"}, "spec/kubernetes/serviceAccountName", "sa"),
    ({}, {"runtimeClassName": "nvidia"}, "spec/kubernetes/runtimeClassName", "nvidia"),
    ({}, {"imagePullSecrets": [{"name": "r"}]}, "spec/kubernetes/imagePullSecrets", ["r"]),
    ({}, {"terminationGracePeriodSeconds": 30}, "spec/gracePeriod", "30s"),
    ({}, {"priorityClassName": "high"}, "spec/priority", "high"),
    ({}, {"schedulerName": "volcano"}, "spec/kubernetes/scheduler", "volcano"),
    ({}, {"nodeSelector": {"disk": "ssd"}}, "spec/roles/worker/nodeSelector", {"disk": "ssd"}),
    ({}, {"nodeName": "n1"}, "spec/roles/worker/nodeName", "n1"),
    (
        {},
        {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
        "spec/roles/worker/tolerations",
        [{"key": "a", "operator": "Exists"}],
    ),
]


@pytest.mark.parametrize(("container", "pod", "where", "what"), POD_ROWS)
def test_fields_of_a_pod(container: Data, pod: Data, where: str, what: Any) -> None:
    assert at(job_of(indexed_job(container, pod)), where) == what


def test_node_affinity_is_kept_as_it_is() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": terms[0]}],
    }
    job = job_of(indexed_job(pod={"affinity": {"nodeAffinity": affinity}}))
    assert job["spec"]["roles"]["worker"]["nodeAffinity"] == affinity


def test_a_preferred_affinity_between_roles_is_a_weighted_rule() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {
            "matchExpressions": [
                {
                    "key": "training.kubeflow.org/replica-type",
                    "operator": "In",
                    "values": ["ps", "worker"],
                }
            ]
        },
    }
    preferred = [{"weight": 9, "podAffinityTerm": term}]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    manifest = tfjob({"PS": {}, "Worker": {"pod": {"affinity": affinity}}})
    assert job_of(manifest)["spec"]["placement"]["rules"] == [
        {"relation": "together", "roles": ["worker"], "with": ["ps", "worker"], "weight": 9}
    ]


KIND_ROWS: list[tuple[Data, str, Any]] = [
    # manifest, where in the job, what
    (indexed_job(completions=3, parallelism=3, completionMode="Indexed"), "spec/gang", False),
    (indexed_job(backoffLimit=2), "spec/failurePolicy/maxRestarts", 2),
    (indexed_job(), "spec/failurePolicy/maxRestarts", 6),
    (indexed_job(activeDeadlineSeconds=60), "spec/timeLimit", "60s"),
    (indexed_job(suspend=True), "spec/kubernetes/suspend", True),
    (
        indexed_job(successPolicy={"rules": [{"succeededCount": 1}]}),
        "spec/successPolicy",
        {"roles": ["worker"], "mode": "any"},
    ),
    (tfjob({"Worker": {}}), "spec/strategy", "all-reduce"),
    (tfjob({"Worker": {}, "PS": {}}), "spec/strategy", "parameter-server"),
    (tfjob({"Master": {}, "Worker": {}}), "spec/roles/chief/replicas", 1),
    (tfjob({"Chief": {}}), "spec/roles/worker/replicas", 1),
    (tfjob({"Worker": {}, "Eval": {}}), "spec/roles/evaluator/replicas", 1),
    (tfjob({"Worker": {}, "PS": {"replicas": 0}}), "spec/strategy", "all-reduce"),
    (tfjob({"Worker": {}}, successPolicy="AllWorkers"), "spec/successPolicy/roles", ["worker"]),
    (tfjob({"Worker": {"restartPolicy": "Never"}}), "spec/roles/worker/restart", "never"),
    (tfjob({"Worker": {"restartPolicy": "OnFailure"}}), "spec/roles/worker/restart", "member"),
    (tfjob({"Worker": {}}), "spec/roles/worker/restart", None),  # never is the default there
    (
        tfjob({"Worker": {"replicas": 4}}, runPolicy={"schedulingPolicy": {"minAvailable": 2}}),
        "spec/minAvailable",
        2,
    ),
    (
        tfjob({"Worker": {}}, runPolicy={"schedulingPolicy": {"priorityClass": "high"}}),
        "spec/priority",
        "high",
    ),
    (
        tfjob({"Worker": {}}, runPolicy={"cleanPodPolicy": "All"}),
        "spec/kubernetes/cleanPods",
        "all",
    ),
    (
        tfjob({"Worker": {}}, runPolicy={"cleanPodPolicy": "None"}),
        "spec/kubernetes/cleanPods",
        "running",
    ),
    (pytorchjob({"Worker": {}}), "spec/roles/worker/restart", "member"),  # OnFailure there
    (pytorchjob({"Master": {}}), "spec/roles/worker/replicas", 1),
    (
        pytorchjob(
            {"Worker": {"container": {"command": ["torchrun", "a.py"]}}}, nprocPerNode="gpu"
        ),
        "spec/roles/worker/env/PET_NPROC_PER_NODE",
        "gpu",
    ),
    (
        pytorchjob({"Worker": {"replicas": 3}}, elasticPolicy={"minReplicas": 2}),
        "spec/minAvailable",
        2,
    ),
    (
        pytorchjob(
            {"Worker": {}}, elasticPolicy={"rdzvHost": "etcd", "rdzvPort": 2379, "minReplicas": 1}
        ),
        "spec/roles/worker/env/PET_RDZV_ENDPOINT",
        "etcd:2379",
    ),
    (mpijob({}, {}, slotsPerWorker=4), "spec/roles/worker/processes", 4),
    (
        mpijob({"container": {"command": ["sh", "-c", "mpirun --hostfile /etc/mpi/hosts a"]}}, {}),
        "spec/roles/launcher/command",
        ["sh", "-c", "mpirun a"],
    ),
    (volcano({}, queue="q"), "spec/kubernetes/queue", "q"),
    (volcano({"replicas": 3}, minAvailable=2), "spec/minAvailable", 2),
    (volcano({}, maxRetry=7), "spec/failurePolicy/maxRestarts", 7),
    (
        volcano({}, policies=[{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]),
        "spec/failurePolicy/restart",
        "gang",
    ),
    (
        volcano({"policies": [{"event": "PodFailed", "action": "RestartTask"}]}),
        "spec/roles/worker/restart",
        "member",
    ),
    (
        volcano({}, volumes=[{"mountPath": "/d", "volumeClaimName": "c"}]),
        "spec/kubernetes/volumeMounts",
        [{"name": "c", "mountPath": "/d"}],
    ),
    (
        volcano({"name": "ps"}, {"name": "worker"}, plugins={"tensorflow": []}),
        "spec/strategy",
        "parameter-server",
    ),
    (
        volcano({"name": "m"}, {"name": "w"}, plugins={"pytorch": ["--master=m", "--worker=w"]}),
        "spec/roles/master/replicas",
        1,
    ),
]


@pytest.mark.parametrize(("manifest", "where", "what"), KIND_ROWS)
def test_fields_of_a_kind(manifest: Data, where: str, what: Any) -> None:
    assert at(job_of(manifest), where) == what


REFUSED: list[tuple[Data, str, str]] = [
    # manifest, the field that is named, a part of what is accepted
    (indexed_job({"livenessProbe": {"exec": {"command": ["x"]}}}), "livenessProbe", "no probes"),
    (indexed_job(pod={"initContainers": [{"name": "i"}]}), "initContainers[0].name", "of its own"),
    (indexed_job(pod={"hostNetwork": True}), "spec.hostNetwork", "false"),
    (indexed_job({"securityContext": {"privileged": True}}), "privileged", "restricted"),
    (
        indexed_job({"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}),
        "capabilities.add[0]",
        "restricted",
    ),
    (indexed_job({"securityContext": {"runAsUser": 0}}), "securityContext.runAsUser", ""),
    (indexed_job({"ports": [{"containerPort": 1, "protocol": "UDP"}]}), "protocol", "TCP"),
    (indexed_job({"ports": [{"containerPort": 1, "hostPort": 2}]}), "ports[0].hostPort", ""),
    (indexed_job({"env": [{"name": "MOORING_X", "value": "1"}]}), "env[0].name", "MOORING_"),
    (
        indexed_job(
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}
        ),
        "valueFrom.resourceFieldRef.resource",
        "configMapKeyRef",
    ),
    (
        indexed_job({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}),
        "valueFrom.fieldRef.fieldPath",
        "spec.nodeName",
    ),
    (
        indexed_job(
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "configMapKeyRef": {"name": "c", "key": "k", "optional": True}
                        },
                    }
                ]
            }
        ),
        "configMapKeyRef.optional",
        "false",
    ),
    (indexed_job(completions=4, parallelism=2, completionMode="Indexed"), "spec.parallelism", "4"),
    (indexed_job(completions=2, parallelism=2), "spec.completionMode", "Indexed"),
    (indexed_job(pod={"schedulerName": "yunikorn"}), "schedulerName", "volcano"),
    (pytorchjob({"Worker": {}}, nprocPerNode="4"), "spec.nprocPerNode", "torchrun"),
    (
        pytorchjob({"Worker": {}}, elasticPolicy={"maxReplicas": 9}),
        "elasticPolicy.maxReplicas",
        "at most 1",
    ),
    (
        pytorchjob({"Worker": {"container": {"env": [{"name": "RANK", "value": "0"}]}}}),
        "env[0].value",
        "any other variable",
    ),
    (tfjob({"Worker": {}, "Helper": {}}), "tfReplicaSpecs.Helper.replicas", "Chief"),
    (tfjob({"Worker": {}}, enableDynamicWorker=True), "spec.enableDynamicWorker", "false"),
    (mpijob({"container": {"command": ["horovodrun", "a"]}}, {}), "command[0]", "mpirun"),
    (
        mpijob({"container": {"command": ["mpirun", "-H", "a,b", "x"]}}, {}),
        "command[1]",
        "no list of hosts",
    ),
    (mpijob({}, {"container": {"command": ["python", "w.py"]}}), "Worker", "sshd"),
    (mpijob({}, {}, mpiImplementation="Intel"), "spec.mpiImplementation", "OpenMPI"),
    (volcano({"dependsOn": {"name": ["a"]}}), "dependsOn.name[0]", "start together"),
    (volcano({}, plugins={"ssh": []}), "spec.plugins.ssh", "mpi"),
    (volcano({}, minSuccess=3), "spec.minSuccess", "1"),
    (
        volcano({"container": {"command": ["sh", "-c", "head /etc/volcano/w.host"]}}),
        "command[0]",
        "VC_TASK_HOSTS",
    ),
    (volcano({}, policies=[{"event": "PodFailed", "action": "Sync"}]), "policies[0].action", ""),
    (volcano({"name": "a-name-much-too-long"}), "tasks[0].name", "1 to 15"),
]


@pytest.mark.parametrize(("manifest", "field", "accepted"), REFUSED)
def test_what_cannot_be_kept_is_named(manifest: Data, field: str, accepted: str) -> None:
    result = run_import(manifest)
    assert result.text is None
    problems = result.accounts[0].problems
    assert any(field in one.path and accepted in one.accepted for one in problems), [
        str(one) for one in problems
    ]


def test_drop_lets_a_refused_field_go() -> None:
    sidecar = {"name": "proxy", "image": "p:1", "command": ["proxy"]}
    manifest = indexed_job(pod={"hostNetwork": True})
    manifest["spec"]["template"]["spec"]["containers"].append(sidecar)
    assert run_import(manifest).text is None
    result = run_import(
        manifest,
        drops=["spec.template.spec.containers[1]", "spec.template.spec.hostNetwork"],
    )
    assert result.text is not None
    assert "proxy" not in result.text
    dropped = {entry.note for entry in result.accounts[0].entries if "--drop" in entry.note}
    assert dropped == {
        "--drop spec.template.spec.containers[1]",
        "--drop spec.template.spec.hostNetwork",
    }


def test_a_star_in_drop_is_any_one_part() -> None:
    manifest = tfjob({role: {"pod": {"hostNetwork": True}} for role in ("PS", "Worker")})
    assert run_import(manifest, drops=["spec.tfReplicaSpecs.*.template.spec.hostNetwork"]).text


def test_the_entrypoint_of_an_image_must_be_said() -> None:
    manifest = indexed_job({"command": None, "args": ["--x"]})
    problems = run_import(manifest).accounts[0].problems
    assert [one.path for one in problems] == ["spec.template.spec.containers[0].command"]
    job = job_of(manifest, entrypoint=["python", "main.py"])
    assert job["spec"]["roles"]["worker"]["command"] == ["python", "main.py", "--x"]


def test_a_long_name_is_named_and_can_be_replaced() -> None:
    manifest = indexed_job()
    manifest["metadata"]["name"] = "n" * 41
    assert [one.path for one in run_import(manifest).accounts[0].problems] == ["metadata.name"]
    assert job_of(manifest, name="short")["metadata"]["name"] == "short"
