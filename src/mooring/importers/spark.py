"""SparkApplication: a standalone Spark of its own, because a job's members are fixed beforehand.

The Spark operator lets the driver ask the API server for executors. Here the driver's member runs
a standalone master beside `spark-submit` in client mode, and each executor is a standalone worker
with one executor. The driver's end is the job's.
"""

from __future__ import annotations

import math
import re
import shlex

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import read_head, read_seconds
from mooring.importers.pod import Pod
from mooring.importers.pod_places import read_places
from mooring.importers.pods import read_container
from mooring.importers.shell import Word, command, peer
from mooring.importers.tracked import Field

DRIVER = "driver"
EXECUTOR = "executor"
_BIN = "${SPARK_HOME:-/opt/spark}/bin"
_SIZE = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNIT_MIB = {"k": 1 / 1024, "": 1 / 1024**2, "m": 1, "g": 1024, "t": 1024**2}
#: What Spark adds to the heap: a part of it, at least 384 MiB.
_OVERHEAD_JVM, _OVERHEAD_OTHERS, _LEAST_OVERHEAD_MIB = 0.1, 0.4, 384


@manifest("SparkApplication", "sparkoperator.k8s.io/v1beta2", project="Spark operator")
def read_sparkapplication(document: Field, options: Options) -> JobDraft:
    draft = JobDraft(document.ledger, "indexed")
    read_head(document, draft, options)
    spec = document["spec"]
    spec["type"].choice("Java", "Scala", "Python", "R")
    spec["type"].map(draft.role(EXECUTOR, "resources", "memory"), note="how much overhead")
    if spec["mode"].choice("cluster", "client"):
        spec["mode"].map(draft.role(DRIVER), note="the driver is a member of the job")
    overhead = _OVERHEAD_JVM if spec["type"].value in ("Java", "Scala") else _OVERHEAD_OTHERS
    if spec["memoryOverheadFactor"].present:
        overhead = _factor(spec["memoryOverheadFactor"], draft)
    conf = _configuration(spec, draft)
    submit = _submit(spec, draft, conf)
    memory = _member(spec["driver"], DRIVER, spec, draft, overhead)
    conf += [f"--driver-memory {memory}m"] if memory else []
    exports: dict[str, Word] = {}
    driver = spec["driver"]
    if driver["javaOptions"].text() is not None:
        java = driver["javaOptions"].map(draft.role(DRIVER, "command"))
        conf.append(f"--driver-java-options {shlex.quote(java)}")
    heap = _member(spec["executor"], EXECUTOR, spec, draft, overhead) or 1024
    cores = spec["executor"]["cores"].whole() or 1
    count = spec["executor"]["instances"].whole() or 1
    draft.put(draft.role(EXECUTOR, "replicas"), count)
    spec["executor"]["instances"].map(draft.role(EXECUTOR, "replicas"))
    draft.put(draft.role(DRIVER, "replicas"), 1)
    conf += [
        f"--conf spark.executor.memory={heap}m",
        f"--conf spark.executor.cores={cores}",
        f"--conf spark.cores.max={cores * count}",
    ]
    if spec["executor"]["javaOptions"].text() is not None:
        java = spec["executor"]["javaOptions"].map(draft.role(DRIVER, "command"))
        conf.append(f"--conf spark.executor.extraJavaOptions={shlex.quote(java)}")
    host, port = peer(DRIVER, 0).code, peer(DRIVER, 0, "port").code
    script = (
        f'host="{host}"; port="{port}"\n'
        f'"{_BIN}/spark-class" org.apache.spark.deploy.master.Master --host "$host" '
        '--port "$port" --webui-port 0 &\n'
        f'"{_BIN}/spark-submit" --master "spark://$host:$port" --deploy-mode client '
        '--conf "spark.driver.host=$host" --conf spark.driver.bindAddress=0.0.0.0 '
        f"{' '.join(conf)} {submit}"
    )
    draft.put(draft.role(DRIVER, "command"), command([("sh",), ("-c",), (script,)], exports))
    worker = (
        f'exec "{_BIN}/spark-class" org.apache.spark.deploy.worker.Worker --webui-port 0 '
        f'--cores {cores} --memory {heap}m "spark://{peer(DRIVER, 0, "address").code}"'
    )
    draft.put(draft.role(EXECUTOR, "command"), command([("sh",), ("-c",), (worker,)], {}))
    draft.put(("spec", "successPolicy", "roles"), [DRIVER])
    draft.ledger.remark(
        "Spark runs standalone: the driver's member also runs the master, executors are its workers"
    )
    _policies(spec, draft)
    return draft


def _factor(field: Field, draft: JobDraft) -> float:
    try:
        factor = float(field.value)
    except (TypeError, ValueError):
        factor = math.nan
    if 0 <= factor < 100:
        field.map(draft.role(EXECUTOR, "resources", "memory"))
        return factor
    field.refuse("a number such as 0.1")
    return 0


def _configuration(spec: Field, draft: JobDraft) -> list[str]:
    to = draft.role(DRIVER, "command")
    conf = []
    for prefix, settings in (("", spec["sparkConf"]), ("spark.hadoop.", spec["hadoopConf"])):
        for name, value in settings.fields():
            if name.startswith("spark.kubernetes."):
                value.drop("Spark does not talk to Kubernetes here")
            elif name == "spark.dynamicAllocation.enabled" and value.value == "true":
                value.refuse("false: the number of executors is fixed")
            else:
                conf.append(f"--conf {shlex.quote(f'{prefix}{name}={value.map(to)}')}")
    return conf


def _submit(spec: Field, draft: JobDraft, conf: list[str]) -> str:
    to = draft.role(DRIVER, "command")
    for name, option in (
        ("jars", "--jars"),
        ("files", "--files"),
        ("pyFiles", "--py-files"),
        ("archives", "--archives"),
        ("packages", "--packages"),
        ("excludePackages", "--exclude-packages"),
        ("repositories", "--repositories"),
    ):
        listed = spec["deps"][name]
        texts = [_local(str(item.value)) for item in listed.items()]
        if texts:
            listed.map(to)
            conf.append(f"{option} {shlex.quote(','.join(texts))}")
    if spec["mainClass"].text() is not None:
        conf.append(f"--class {shlex.quote(spec['mainClass'].map(to))}")
    main = spec["mainApplicationFile"].text()
    if main is None:
        draft.ledger.missing(spec["mainApplicationFile"].path, "nothing", "what is to run")
        return ""
    spec["mainApplicationFile"].map(to)
    arguments = [str(item.value) for item in spec["arguments"].items()]
    spec["arguments"].map(to)
    return shlex.join([_local(main), *arguments])


def _local(place: str) -> str:
    """`local://` means: in the image. Standalone Spark takes the path alone."""
    return place.removeprefix("local://")


def _member(member: Field, role: str, spec: Field, draft: JobDraft, overhead: float) -> int | None:
    """What driver and executor have in common. Returns the heap in MiB."""
    pod = Pod(draft, role)
    resources = draft.role(role, "resources")
    heap = _mebibytes(member["memory"])
    if heap is not None:
        extra = _mebibytes(member["memoryOverhead"])
        if extra is None:
            extra = max(_LEAST_OVERHEAD_MIB, math.ceil(heap * overhead))
        note = "with the overhead that Spark adds to the heap"
        draft.carry((*resources, "memory"), member["memory"], f"{heap + extra}Mi", note)
        member["memoryOverhead"].map((*resources, "memory"))
    cores = member["coreRequest"] if member["coreRequest"].present else member["cores"]
    draft.carry((*resources, "cpu"), cores)
    member["cores"].map((*resources, "cpu"))
    member["coreLimit"].drop("CPUs are reserved by request; members that share may use more")
    gpu = member["gpu"]
    if gpu["name"].value in ("nvidia.com/gpu", "amd.com/gpu"):
        gpu["name"].map((*resources, "gpu"))
        draft.carry((*resources, "gpu"), gpu["quantity"])
    image = member["image"] if member["image"].present else spec["image"]
    draft.carry(pod.on_kubernetes("image"), image)
    draft.carry(pod.on_kubernetes("imagePullPolicy"), spec["imagePullPolicy"])
    for secret in spec["imagePullSecrets"].items():
        to = pod.on_kubernetes("imagePullSecrets")
        draft.put(to, [*(draft.get(to) or []), secret.map(to)])
    account = spec["driver"]["serviceAccount"]
    account.drop("the driver asks the API server for nothing")
    spec["executor"]["serviceAccount"].drop("executors ask the API server for nothing")
    for kind in ("labels", "annotations"):
        for name, value in member[kind].fields():
            draft.carry(pod.on_kubernetes(kind, name), value)
    read_places(member, draft, role, {})
    # The operator's names for these are those of a container.
    container = member.only("env", "envFrom", "volumeMounts")
    if container.present:
        read_container(container, pod)
    for volume in spec["volumes"].items():
        to = pod.on_kubernetes("volumes")
        draft.put(to, [*(draft.get(to) or []), volume.map(to)])
    return heap


def _mebibytes(field: Field) -> int | None:
    text = field.text()
    match = _SIZE.fullmatch(text) if text is not None else None
    if match is None:
        field.refuse("an amount such as 512m or 2g")
        return None
    return math.ceil(int(match.group(1)) * _UNIT_MIB[match.group(2).lower()])


def _policies(spec: Field, draft: JobDraft) -> None:
    policy = spec["restartPolicy"]
    kind = policy["type"].choice("Never", "OnFailure")
    if kind is not None:
        restart = "gang" if kind == "OnFailure" else "never"
        draft.carry(("spec", "failurePolicy", "restart"), policy["type"], restart)
    draft.carry(("spec", "failurePolicy", "maxRestarts"), policy["onFailureRetries"])
    if policy["onFailureRetryInterval"].whole() is not None:
        seconds = policy["onFailureRetryInterval"].value
        to = ("spec", "failurePolicy", "backoff")
        policy["onFailureRetryInterval"].map(to)
        draft.put(to, {"initial": f"{seconds}s", "factor": 1.0, "max": f"{seconds}s"})
    for name in ("onSubmissionFailureRetries", "onSubmissionFailureRetryInterval"):
        policy[name].drop("nothing is submitted to the API server by the driver")
    read_seconds(spec["timeToLiveSeconds"], draft, (*KUBERNETES, "ttlAfterFinished"))
    spec["sparkVersion"].drop("the image says which version it is")
    spec["pythonVersion"].drop("the image says which version it is")
    for member in (spec["driver"], spec["executor"]):
        member["deleteOnTermination"].drop("cleanPods of the job counts")
    if spec["dynamicAllocation"]["enabled"].flag():
        spec["dynamicAllocation"].refuse("enabled: false: the number of executors is fixed")
    spec["dynamicAllocation"].drop("the number of executors is fixed")
    scheduler = spec["batchScheduler"]
    if scheduler.choice("volcano"):
        draft.carry((*KUBERNETES, "scheduler"), scheduler)
        draft.carry((*KUBERNETES, "queue"), spec["batchSchedulerOptions"]["queue"])
        draft.carry(("spec", "priority"), spec["batchSchedulerOptions"]["priorityClassName"])
    if spec["suspend"].flag():
        draft.carry((*KUBERNETES, "suspend"), spec["suspend"])
    spec["suspend"].drop("jobs are not suspended unless they say so")
