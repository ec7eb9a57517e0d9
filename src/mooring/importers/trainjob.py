"""TrainJob of Kubeflow Trainer v2: what runs is in the runtime that it names, which must be given.

The runtime is a JobSet with a policy for the framework; the TrainJob overrides parts of it.
"""

from __future__ import annotations

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.jobs import (
    Replicated,
    jobset_names,
    jobset_pod,
    read_jobset_policies,
    read_replicated,
    read_replicated_pod,
)
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import read_head, read_seconds
from mooring.importers.mpijob import drop_worker_command, read_mpi_settings, write_launcher
from mooring.importers.pod import ContainerProgram, Pod
from mooring.importers.pods import read_container, write_command
from mooring.importers.pytorchjob import runs_torchrun
from mooring.importers.resources import read_resources
from mooring.importers.tracked import Field, LeafLedger

VERSION = "trainer.kubeflow.org/v1alpha1"
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_FRAMEWORK = "trainer.kubeflow.org/framework"
_CONTAINER = ("node", "trainer")
_OVERRIDDEN = "the TrainJob says another"


@manifest("TrainJob", VERSION, project="Kubeflow Trainer")
def read_trainjob(document: Field, options: Options) -> JobDraft:
    spec = document["spec"]
    runtime = _runtime(spec["runtimeRef"], options)
    policy = runtime["spec"]["mlPolicy"] if runtime is not None else None
    mpi = policy is not None and policy["mpi"].present
    torch = policy is not None and policy["torch"].value is not None
    draft = JobDraft(document.ledger, "mpi" if mpi else "pytorch" if torch else "indexed")
    name = read_head(document, draft, options)
    for kind in ("labels", "annotations"):
        for key, value in spec[kind].fields():
            draft.carry((*KUBERNETES, kind, key), value)
    if spec["suspend"].flag():
        draft.carry((*KUBERNETES, "suspend"), spec["suspend"])
    spec["suspend"].drop("jobs are not suspended unless they say so")
    spec["managedBy"].drop("Mooring manages the imported job")
    read_seconds(spec["activeDeadlineSeconds"], draft, ("spec", "timeLimit"))
    spec["initializer"].refuse("none: a step before the training is a job of its own")
    for key in ("podSpecOverrides", "podTemplateOverrides", "runtimePatches"):
        spec[key].refuse("none: say it in the runtime")
    if runtime is None or policy is None:
        draft.put(draft.role("worker", "command"), ["true"])
        return draft
    draft.ledgers.append(runtime.ledger)
    _read_runtime_head(runtime, draft)
    _read_roles(runtime["spec"], policy, spec["trainer"], name, draft, options)
    return draft


def _runtime(reference: Field, options: Options) -> Field | None:
    kind = reference["kind"].text() or RUNTIMES[0]
    name = reference["name"].text() or ""
    reference["apiGroup"].map(("spec", "framework"))
    found = options.others.get((kind, name))
    if found is None:
        accepted = f"the {kind} {name!r} as another document or file of this import"
        reference.refuse(accepted, found=f"a runtime that was not given ({name})")
        if not reference["name"].present:
            reference.ledger.missing(reference["name"].path, "nothing", "a runtime's name")
        return None
    reference.understood(("spec", "framework"))
    return LeafLedger(found, options.drops).root


def _read_runtime_head(runtime: Field, draft: JobDraft) -> None:
    runtime["apiVersion"].map(("spec", "framework"))
    runtime["kind"].map(("spec", "framework"))
    metadata = runtime["metadata"]
    for key in ("name", "namespace", "annotations", "creationTimestamp"):
        metadata[key].drop("the runtime's own; the job has the TrainJob's")
    for _, value in metadata["labels"].fields():
        value.drop("the runtime's own; the job has the TrainJob's")
    group = runtime["spec"]["podGroupPolicy"]
    if group["coscheduling"].present:
        timeout = group["coscheduling"]["scheduleTimeoutSeconds"]
        timeout.drop("pods are made only once the whole gang has its place")
        if not timeout.present:
            group["coscheduling"].understood(("spec", "gang"))
    if group["volcano"].present:
        draft.put((*KUBERNETES, "scheduler"), "volcano")
        group["volcano"].understood((*KUBERNETES, "scheduler"))


def _read_roles(
    runtime: Field, policy: Field, trainer: Field, name: str, draft: JobDraft, options: Options
) -> None:
    template = runtime["template"]
    for kind in ("labels", "annotations"):
        for key, value in template["metadata"][kind].fields():
            draft.carry((*KUBERNETES, kind, key), value)
    jobs = template["spec"]["replicatedJobs"]
    ancestors = {
        str(job["name"].value): str(job["template"]["metadata"]["labels"][_STEP].value)
        for job in jobs.items()
    }
    renamed = {job: "worker" for job in ancestors if job != "launcher"}
    for job in jobs.items():
        if ancestors[str(job["name"].value)].endswith("initializer"):
            job.refuse("none: a step before the training is a job of its own")
    replicated = [
        one
        for one in read_replicated(jobs, draft, renamed)
        if not ancestors[str(one.field["name"].value)].endswith("initializer")
    ]
    _node_count(policy["numNodes"], trainer["numNodes"], draft)
    names = jobset_names(name, name, replicated)
    for one in replicated:
        own = _trains(one, draft)
        pod = jobset_pod(one, replicated, draft, names, options, _CONTAINER)
        program = read_replicated_pod(one, pod)
        if program is not None:
            program = _overridden(one, program, trainer, pod, own)
        _write(program, pod, one, draft)
        _processes(policy, trainer, program, one, draft)
    read_jobset_policies(template["spec"], draft, replicated)
    if policy["mpi"].present:
        read_mpi_settings(policy["mpi"], draft)


def _trains(one: Replicated, draft: JobDraft) -> bool:
    """Whether the TrainJob's command is for these pods: in MPI only for the launcher's."""
    if draft.framework == "mpi":
        return one.role == "launcher"
    return True


def _node_count(usual: Field, wanted: Field, draft: JobDraft) -> None:
    to = draft.role("worker", "replicas")
    draft.carry(to, usual)
    if wanted.present:
        draft.carry(to, wanted)
        usual.drop(_OVERRIDDEN)


def _overridden(
    one: Replicated, program: ContainerProgram, trainer: Field, pod: Pod, own: bool
) -> ContainerProgram:
    container = next(iter(one.field["template"]["spec"]["template"]["spec"]["containers"].items()))
    keys = ("image", "env", "command", "args") if own else ("image", "env")
    above = trainer.only(*keys)
    if above.present:
        over = read_container(above, pod)
        words = program.argv
        if over.sources[0].present or over.sources[1].present:
            words = over.argv
        for key, _ in above.fields():
            if key != "env":
                container[key].drop(_OVERRIDDEN)
        chosen = over if words is over.argv else program
        exports = {**program.exports, **over.exports}
        program = ContainerProgram(words, exports, chosen.sources, chosen.fields)
    if pod.role == "worker" and trainer["resourcesPerNode"].present:
        pod.draft.put(pod.at("resources"), {})
        container["resources"].drop(_OVERRIDDEN)
        read_resources(trainer["resourcesPerNode"], pod.draft, pod.role)
    return program


def _write(program: ContainerProgram | None, pod: Pod, one: Replicated, draft: JobDraft) -> None:
    if draft.framework != "mpi":
        write_command(program, pod)
    elif one.role == "launcher":
        write_launcher(program, pod)
    else:
        drop_worker_command(program)


def _processes(
    policy: Field,
    trainer: Field,
    program: ContainerProgram | None,
    one: Replicated,
    draft: JobDraft,
) -> None:
    if one.role != "worker":
        return
    wanted = trainer["numProcPerNode"]
    usual = policy["mpi" if draft.framework == "mpi" else "torch"]["numProcPerNode"]
    chosen = wanted if wanted.present else usual
    if draft.framework == "mpi":
        draft.carry(draft.role("worker", "processes"), chosen)
    elif draft.framework == "pytorch":
        if runs_torchrun(program):
            to = draft.role("worker", "env", "PET_NPROC_PER_NODE")
            draft.carry(to, chosen, str(chosen.value))
        elif str(chosen.value) in ("None", "1", "auto"):
            chosen.drop("without torchrun a member is one process")
        else:
            chosen.refuse("1, or a command that runs torchrun")
        policy["torch"]["elasticPolicy"].refuse("none: the number of nodes is fixed")
    if wanted.present:
        usual.drop(_OVERRIDDEN)
