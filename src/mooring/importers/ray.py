"""RayCluster and RayJob: the head, the workers and the driver as roles of an indexed job.

The commands are those that KubeRay itself would generate (`ray start`, `ray job submit`), with the
head's address from Mooring's identity. The driver's end is the job's.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import read_head, read_seconds
from mooring.importers.pod import ContainerProgram, Pod
from mooring.importers.pods import read_pod
from mooring.importers.shell import command, peer
from mooring.importers.tracked import Field
from mooring.model.errors import BadInput, Problem
from mooring.model.resources import parse_quantity
from mooring.spec.document import parse_document

HEAD = "head"
DRIVER = "driver"
_DASHBOARD_PORT = 8265
_VERSIONS = ("ray.io/v1", "ray.io/v1alpha1")
_HEAD_PORTS = frozenset({"gcs", "gcs-server", "redis"})
#: Parameters of `ray start` that depend on where the head is, or that Mooring sets.
_OURS = ("address", "port", "head", "block", "dashboard-host", "dashboard-port", "node-ip-address")


@manifest("RayCluster", *_VERSIONS, project="KubeRay")
def read_raycluster(document: Field, options: Options) -> JobDraft:
    draft = JobDraft(document.ledger, "indexed")
    read_head(document, draft, options)
    _cluster(document["spec"], draft, options)
    draft.put(("spec", "successPolicy", "roles"), [HEAD])
    draft.ledger.remark("a cluster has no end: the job runs until it is stopped")
    return draft


@manifest("RayJob", *_VERSIONS, project="KubeRay")
def read_rayjob(document: Field, options: Options) -> JobDraft:
    draft = JobDraft(document.ledger, "indexed")
    read_head(document, draft, options)
    spec = document["spec"]
    cluster = spec["rayClusterSpec"]
    if not cluster.present:
        draft.ledger.missing(
            cluster.path, "nothing", "a cluster: the job brings its own and shares none"
        )
    spec["clusterSelector"].refuse("rayClusterSpec: the job brings its own cluster")
    _cluster(cluster, draft, options)
    _driver(spec, cluster, draft)
    if spec["suspend"].flag():
        draft.carry((*KUBERNETES, "suspend"), spec["suspend"])
    spec["suspend"].drop("jobs are not suspended unless they say so")
    read_seconds(spec["ttlSecondsAfterFinished"], draft, (*KUBERNETES, "ttlAfterFinished"))
    read_seconds(spec["activeDeadlineSeconds"], draft, ("spec", "timeLimit"))
    if spec["backoffLimit"].whole():
        draft.carry(("spec", "failurePolicy", "maxRestarts"), spec["backoffLimit"])
        draft.put(("spec", "failurePolicy", "restart"), "gang")
    spec["backoffLimit"].drop("no restarts")
    draft.put(("spec", "successPolicy", "roles"), [DRIVER])
    spec["jobId"].drop("KubeRay's own name of the submission")
    spec["deletionStrategy"].refuse("cleanPods of the job: nothing finer")
    spec["managedBy"].drop("Mooring manages the imported job")
    return draft


def _cluster(spec: Field, draft: JobDraft, options: Options) -> None:
    spec["rayVersion"].drop("the image says which version it is")
    if spec["enableInTreeAutoscaling"].flag():
        spec["enableInTreeAutoscaling"].refuse("false: the number of workers is fixed")
    spec["enableInTreeAutoscaling"].drop("the number of workers is fixed")
    autoscaler = spec["autoscalerOptions"]
    if not spec["enableInTreeAutoscaling"].value:
        autoscaler.drop("there is no autoscaler")
    spec["gcsFaultToleranceOptions"].refuse("none: the head is not started again alone")
    spec["headServiceAnnotations"].drop("the head has no Service of its own")
    if not spec["suspend"].flag():
        spec["suspend"].drop("jobs are not suspended unless they say so")
    spec["managedBy"].drop("Mooring manages the imported job")
    head = spec["headGroupSpec"]
    for name in ("serviceType", "headService", "enableIngress"):
        head[name].drop("the head has no Service of its own")
    draft.put(draft.role(HEAD, "replicas"), 1)
    draft.put(draft.role(HEAD, "ports", "dashboard"), _DASHBOARD_PORT)
    pod = Pod(
        draft, HEAD, container_names=("ray-head",), framework_ports=_HEAD_PORTS | {"dashboard"}
    )
    program = read_pod(head["template"], pod)
    start = _start(head["rayStartParams"], pod)
    _write(
        program,
        pod,
        f"exec ray start --head --port={peer(HEAD, 0, 'port').code} "
        f"--dashboard-host=0.0.0.0 --dashboard-port={_DASHBOARD_PORT} --block{start}",
    )
    for number, group in enumerate(spec["workerGroupSpecs"].items()):
        _group(group, "worker" if number == 0 else f"worker-{number}", draft)


def _group(group: Field, role: str, draft: JobDraft) -> None:
    count = group["replicas"].whole()
    hosts = group["numOfHosts"].whole() or 1
    group["groupName"].drop(f"the role is called {role}")
    for name in ("minReplicas", "maxReplicas"):
        group[name].drop("only an autoscaler uses it")
    if count == 0:
        group.drop("it has no replicas")
        return
    draft.put(draft.role(role, "replicas"), (1 if count is None else count) * hosts)
    group["replicas"].map(draft.role(role, "replicas"))
    group["numOfHosts"].map(draft.role(role, "replicas"))
    group["scaleStrategy"].refuse("none: the number of workers is fixed")
    group["idleTimeoutSeconds"].drop("only an autoscaler uses it")
    pod = Pod(draft, role, container_names=("ray-worker", "machine-learning"))
    program = read_pod(group["template"], pod)
    address = peer(HEAD, 0, "address").code
    _write(
        program,
        pod,
        f'head="{address}"\nuntil ray health-check --address "$head" >/dev/null 2>&1; '
        f'do sleep 1; done\nexec ray start --address="$head" --block'
        + _start(group["rayStartParams"], pod),
    )


def _start(params: Field, pod: Pod) -> str:
    """Further options of `ray start`, and CPUs and GPUs as KubeRay derives them."""
    options: dict[str, str] = {}
    for name, value in params.fields():
        if name in _OURS:
            value.drop("the command says it")
        else:
            options[name] = str(value.map(pod.at("command")))
    resources: Mapping[str, object] = pod.draft.get(pod.at("resources")) or {}
    if "gpu" in resources:
        options.setdefault("num-gpus", str(resources["gpu"]))
    if "cpu" in resources:
        options.setdefault("num-cpus", str(_whole_cpus(str(resources["cpu"]))))
    return "".join(f" --{name}={shlex.quote(value)}" for name, value in options.items())


def _whole_cpus(text: str) -> int:
    """Rounded up, as KubeRay does it; 0 for what is no quantity, which the loader then rejects."""
    try:
        return math.ceil(parse_quantity(text))
    except (ValueError, ArithmeticError):
        return 0


def _write(program: ContainerProgram | None, pod: Pod, script: str) -> None:
    if program is None:
        return
    reason = "KubeRay's own command stands for it"
    texts = " ".join(program.texts())
    if program.argv and "ulimit" not in texts and "ray start" not in texts:
        for source in program.sources:
            source.refuse("no command: `ray start` runs in the head and the workers")
        return
    for source in program.sources:
        source.drop(reason)
    empty = ContainerProgram((), program.exports, ())
    pod.draft.put(pod.at("command"), _command(empty, script))


def _command(program: ContainerProgram, script: str) -> list[str]:
    return command([("sh",), ("-c",), (script,)], program.exports)


def _driver(spec: Field, cluster: Field, draft: JobDraft) -> None:
    """`ray job submit` where KubeRay would run it: in a pod of its own."""
    entrypoint = spec["entrypoint"].text()
    mode = spec["submissionMode"].choice("K8sJobMode", "HTTPMode", "SidecarMode")
    if mode is not None:
        spec["submissionMode"].map(draft.role(DRIVER))
    if entrypoint is None:
        draft.ledger.missing(spec["entrypoint"].path, "nothing", "the program that is submitted")
        return
    draft.put(draft.role(DRIVER, "replicas"), 1)
    submit = ""
    to = draft.role(DRIVER, "command")
    environment = spec["runtimeEnvYAML"].text()
    if environment is not None:
        data = _inner_yaml(spec["runtimeEnvYAML"], environment)
        submit += f" --runtime-env-json={shlex.quote(json.dumps(data))}"
        spec["runtimeEnvYAML"].map(to)
    for name, option in (
        ("entrypointNumCpus", "--entrypoint-num-cpus"),
        ("entrypointNumGpus", "--entrypoint-num-gpus"),
        ("entrypointResources", "--entrypoint-resources"),
    ):
        if spec[name].present:
            submit += f" {option}={shlex.quote(str(spec[name].map(to)))}"
    if spec["metadata"].present:
        submit += f" --metadata-json={shlex.quote(json.dumps(spec['metadata'].map(to)))}"
    spec["shutdownAfterJobFinishes"].drop("members are stopped when the driver has ended")
    spec["submitterConfig"].drop("the driver is a member like the others")
    spec["entrypoint"].map(to)
    address = f"http://{peer(HEAD, 0).code}:{_DASHBOARD_PORT}"
    script = (
        f'export RAY_ADDRESS="{address}"\n'
        "until ray job list >/dev/null 2>&1; do sleep 1; done\n"
        f"exec ray job submit{submit} -- {entrypoint}"
    )
    pod = Pod(draft, DRIVER, container_names=("ray-job-submitter",))
    template = spec["submitterPodTemplate"]
    program = read_pod(template, pod) if template.present else ContainerProgram((), {}, ())
    if program is not None:
        for source in program.sources:
            source.drop("KubeRay's own command stands for it")
        draft.put(to, _command(ContainerProgram((), program.exports, ()), script))
    if not template.present:
        head = draft.get(draft.role(HEAD, "kubernetes")) or {}
        if "image" in head:
            draft.put(draft.role(DRIVER, "kubernetes", "image"), head["image"])


def _inner_yaml(field: Field, text: str) -> Any:
    """The data of a text that is YAML itself, within the bounds of every file; else refused."""
    problems: Sequence[Problem]
    try:
        document = parse_document(text, "runtimeEnvYAML")
        problems = [problem for _, problem in document.problems]
        data = document.data
    except BadInput as error:
        problems, data = error.problems, None
    if problems:
        field.refuse(problems[0].accepted, found=problems[0].found)
    return data
