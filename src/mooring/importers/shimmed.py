"""MXJob, XGBoostJob, PaddleJob and JAXJob: all that their programs need is a few variables.

There is no adapter for these frameworks. The job is `indexed`, and the command sets the operator's
variables from Mooring's identity before it becomes the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
from mooring.importers.pods import write_command
from mooring.importers.shell import Expression, Word, peer, variable
from mooring.importers.tracked import Field

Variables = Callable[[str, Replicas, list[Replicas]], Mapping[str, Word]]
_WORLD = variable("MOORING_WORLD_SIZE")
_INDEX = variable("MOORING_INDEX")


def _hosts(role: str) -> Expression:
    return variable(f"VC_{role.upper()}_HOSTS")


def _after(one: Replicas, all_replicas: list[Replicas]) -> Expression:
    """The member's number over all replicas, in the order of their types."""
    before = sum(each.count for each in all_replicas[: all_replicas.index(one)])
    return Expression(f"$((MOORING_INDEX + {before}))") if before else _INDEX


def _mxnet(job: str, one: Replicas, all_replicas: list[Replicas]) -> Mapping[str, Word]:
    count = {each.role: each.count for each in all_replicas}
    variables: dict[str, Word] = {
        "DMLC_ROLE": (one.role,),
        "DMLC_NUM_SERVER": (str(count.get("server", 0)),),
        "DMLC_NUM_WORKER": (str(count.get("worker", 0)),),
        "DMLC_USE_KUBERNETES": ("1",),
    }
    if "scheduler" in count:
        variables["DMLC_PS_ROOT_URI"] = (peer("scheduler", 0),)
        variables["DMLC_PS_ROOT_PORT"] = (peer("scheduler", 0, "port"),)
    if one.role == "worker":
        variables["DMLC_WORKER_ID"] = (_INDEX,)
    return variables


def _xgboost(job: str, one: Replicas, all_replicas: list[Replicas]) -> Mapping[str, Word]:
    first = all_replicas[0].role
    variables: dict[str, Word] = {
        "MASTER_ADDR": (peer(first, 0),),
        "MASTER_PORT": (peer(first, 0, "port"),),
        "WORLD_SIZE": (_WORLD,),
        "RANK": (_after(one, all_replicas),),
    }
    if any(each.role == "worker" for each in all_replicas):
        variables["WORKER_ADDRS"] = (_hosts("worker"),)
        variables["WORKER_PORT"] = (peer("worker", 0, "port"),)
    return variables


def _paddle(job: str, one: Replicas, all_replicas: list[Replicas]) -> Mapping[str, Word]:
    roles = [each.role for each in all_replicas]
    first = "master" if "master" in roles else "worker"
    variables: dict[str, Word] = {
        "PADDLE_JOB_ID": (job,),
        "PADDLE_NNODES": (_WORLD,),
        "PADDLE_MASTER": (peer(first, 0, "address"),),
    }
    if first == "master":
        kind = "SERVER" if one.role == "master" else "TRAINER"
        variables[f"PADDLE_{kind}_NUM"] = ("1",)
    return variables


def _jax(job: str, one: Replicas, all_replicas: list[Replicas]) -> Mapping[str, Word]:
    return {
        "COORDINATOR_ADDRESS": (peer("worker", 0),),
        "COORDINATOR_PORT": (peer("worker", 0, "port"),),
        "NUM_PROCESSES": (_WORLD,),
        "PROCESS_ID": (_INDEX,),
    }


_MASTER = {"Master": "master", "Worker": "worker"}


@manifest("MXJob", "kubeflow.org/v1", project="Kubeflow training operator")
def read_mxjob(document: Field, options: Options) -> JobDraft:
    style = Style(container="mxnet", port="mxjob-port", restart="Never")
    roles = {"Scheduler": "scheduler", "Server": "server", "Worker": "worker"}
    draft = _read(document, options, "mxReplicaSpecs", roles, style, _mxnet)
    mode = document["spec"]["jobMode"]
    if mode.choice("MXTrain"):
        mode.map(("spec", "roles"))
    return draft


@manifest("XGBoostJob", "kubeflow.org/v1", project="Kubeflow training operator")
def read_xgboostjob(document: Field, options: Options) -> JobDraft:
    style = Style(container="xgboost", port="xgboostjob-port", restart="Never")
    return _read(document, options, "xgbReplicaSpecs", _MASTER, style, _xgboost)


@manifest("PaddleJob", "kubeflow.org/v1", project="Kubeflow training operator")
def read_paddlejob(document: Field, options: Options) -> JobDraft:
    style = Style(container="paddle", port="master", restart="OnFailure")
    draft = _read(document, options, "paddleReplicaSpecs", _MASTER, style, _paddle)
    document["spec"]["elasticPolicy"].refuse("none: the number of members is fixed")
    return draft


@manifest("JAXJob", "kubeflow.org/v1", project="Kubeflow training operator")
def read_jaxjob(document: Field, options: Options) -> JobDraft:
    style = Style(container="jax", port="jaxjob-port", restart="Never")
    return _read(document, options, "jaxReplicaSpecs", {"Worker": "worker"}, style, _jax)


def _read(
    document: Field,
    options: Options,
    key: str,
    roles: Mapping[str, str],
    style: Style,
    variables: Variables,
) -> JobDraft:
    draft = JobDraft(document.ledger, "indexed")
    name = read_head(document, draft, options)
    replicas = read_replicas(document["spec"][key], roles, draft)
    for one in replicas:
        own = Style(
            style.container, style.port, style.restart, exports=variables(name, one, replicas)
        )
        pod = pod_of(one, own, name, replicas, draft, options)
        write_command(read_replica(one, pod, own), pod)
    read_run_policy(document["spec"]["runPolicy"], draft, sum(one.count for one in replicas))
    if "scheduler" in draft.role_names and "worker" in draft.role_names:
        draft.put(("spec", "successPolicy", "roles"), ["worker"])
    elif "master" in draft.role_names:
        draft.put(("spec", "successPolicy", "roles"), ["master"])
    return draft
