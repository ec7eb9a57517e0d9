"""PyTorchJob: a master and workers; torchrun's settings come as PET_* variables.

The training operator sets RANK by pod and WORLD_SIZE by process, which agree only if a pod runs one
process, or if torchrun starts them and sets both anew. A command that is neither is refused.
"""

from __future__ import annotations

import re

from mooring.importers.draft import JobDraft
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import (
    Replicas,
    Style,
    pod_of,
    read_head,
    read_replica,
    read_replicas,
    read_run_policy,
)
from mooring.importers.pod import ContainerProgram
from mooring.importers.pods import write_command
from mooring.importers.tracked import Field

STYLE = Style(container="pytorch", port="pytorchjob-port", restart="OnFailure")
_TORCHRUN = re.compile(r"\btorchrun\b|torch\.distributed\.(run|launch)\b")
_RDZV = {"rdzvBackend": "PET_RDZV_BACKEND", "rdzvId": "PET_RDZV_ID"}


@manifest("PyTorchJob", "kubeflow.org/v1", project="Kubeflow training operator")
def read_pytorchjob(document: Field, options: Options) -> JobDraft:
    spec = document["spec"]
    draft = JobDraft(document.ledger, "pytorch")
    name = read_head(document, draft, options)
    specs = spec["pytorchReplicaSpecs"]
    roles = {"Master": "master", "Worker": "worker"}
    names = {key.lower() for key, below in specs.fields() if below["replicas"].value != 0}
    if names == {"master"}:
        roles = {"Master": "worker"}
        draft.ledger.remark("the only replica is the job's one worker, of rank 0")
    replicas = read_replicas(specs, roles, draft)
    programs = []
    for one in replicas:
        pod = pod_of(one, STYLE, name, replicas, draft, options)
        program = read_replica(one, pod, STYLE)
        write_command(program, pod)
        programs.append((one, program))
    members = sum(one.count for one in replicas)
    read_run_policy(spec["runPolicy"], draft, members)
    elastic = spec["elasticPolicy"]
    older = elastic["nProcPerNode"]
    processes = spec["nprocPerNode"] if spec["nprocPerNode"].present else older
    _processes(processes, programs, draft)
    if processes is not older:
        older.drop("nprocPerNode of the job counts")
    _elastic(elastic, replicas, draft, members)
    return draft


def runs_torchrun(program: ContainerProgram | None) -> bool:
    return program is not None and _TORCHRUN.search(" ".join(program.texts())) is not None


def _processes(
    field: Field, programs: list[tuple[Replicas, ContainerProgram | None]], draft: JobDraft
) -> None:
    if not field.present:
        return
    if all(runs_torchrun(program) for _, program in programs):
        for one, _ in programs:
            to = draft.role(one.role, "env", "PET_NPROC_PER_NODE")
            draft.carry(to, field, str(field.value))
    elif str(field.value) == "1":
        field.map(*(draft.role(one.role, "processes") for one, _ in programs))
    else:
        field.refuse(
            "1, or a command that runs torchrun: with others RANK would count pods and WORLD_SIZE "
            "processes"
        )


def _elastic(policy: Field, replicas: list[Replicas], draft: JobDraft, members: int) -> None:
    if not policy.present:
        return
    least, most = policy["minReplicas"].whole(), policy["maxReplicas"].whole()
    wanted = next((one.count for one in replicas if one.role == "worker"), members)
    fixed = members - wanted
    if most is not None and most > wanted:
        policy["maxReplicas"].refuse(f"at most {wanted}, the replicas of Worker", str(most))
    policy["maxReplicas"].drop("the role's replicas are the most")
    if least is not None and least < wanted:
        draft.carry(("spec", "minAvailable"), policy["minReplicas"], least + fixed)
        for one in replicas:
            sizes = f"{least + fixed}:{members}"
            draft.put(draft.role(one.role, "env", "PET_NNODES"), sizes)
    elif least is not None:
        policy["minReplicas"].map(("spec", "gang"), note="all replicas start together")
    settings = {**_RDZV, "maxRestarts": "PET_MAX_RESTARTS"}
    for name, variable in settings.items():
        for one in replicas:
            to = draft.role(one.role, "env", variable)
            if policy[name].present:
                draft.carry(to, policy[name], str(policy[name].value))
    _endpoint(policy, replicas, draft)
    if policy["standalone"].flag():
        policy["standalone"].refuse("false: the members find each other")
    policy["standalone"].drop("the members find each other")
    policy["metrics"].refuse("none: the number of members does not follow metrics")


def _endpoint(policy: Field, replicas: list[Replicas], draft: JobDraft) -> None:
    """An endpoint outside of the job is said; its own is worker 0, which Mooring says itself."""
    host, port = policy["rdzvHost"], policy["rdzvPort"]
    if host.text() is not None:
        for one in replicas:
            to = draft.role(one.role, "env", "PET_RDZV_ENDPOINT")
            address = f"{host.value}:{port.value}" if port.present else host.value
            draft.carry(to, host, address)
            port.map(to)
    else:
        port.drop("Mooring chooses the port where the members meet")
    settings = [f"{item['key'].value}={item['value'].value}" for item in policy["rdzvConf"].items()]
    for one in replicas:
        if settings:
            to = draft.role(one.role, "env", "PET_RDZV_CONF")
            draft.put(to, ",".join(settings))
            policy["rdzvConf"].understood(to)
