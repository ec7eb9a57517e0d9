"""TFJob: parameter servers, or workers that reduce among themselves; TF_CONFIG either way."""

from __future__ import annotations

from mooring.importers.draft import JobDraft
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import (
    Style,
    pod_of,
    read_head,
    read_replica,
    read_replicas,
    read_run_policy,
)
from mooring.importers.pods import write_command
from mooring.importers.tracked import Field

STYLE = Style(container="tensorflow", port="tfjob-port", restart="Never")
_ROLES = {"Chief": "chief", "Master": "chief", "PS": "ps", "Worker": "worker"}
_EVALUATORS = {"Evaluator": "evaluator", "Eval": "evaluator"}


@manifest("TFJob", "kubeflow.org/v1", project="Kubeflow training operator")
def read_tfjob(document: Field, options: Options) -> JobDraft:
    spec = document["spec"]
    specs = spec["tfReplicaSpecs"]
    names = {name.lower() for name, below in specs.fields() if below["replicas"].value != 0}
    draft = JobDraft(
        document.ledger, "tensorflow", "parameter-server" if "ps" in names else "all-reduce"
    )
    name = read_head(document, draft, options)
    roles = {**_ROLES, **_EVALUATORS}
    if names and names <= {"chief", "master"}:
        roles = dict.fromkeys(roles, "worker")
        draft.ledger.remark("the only replica is the job's one worker, not its chief")
    replicas = read_replicas(specs, roles, draft)
    for one in replicas:
        pod = pod_of(one, STYLE, name, replicas, draft, options)
        write_command(read_replica(one, pod, STYLE), pod)
    read_run_policy(spec["runPolicy"], draft, sum(one.count for one in replicas))
    _success(spec["successPolicy"], draft)
    if spec["enableDynamicWorker"].flag():
        spec["enableDynamicWorker"].refuse("false: every member knows the whole cluster")
    spec["enableDynamicWorker"].drop("every member knows the whole cluster")
    return draft


def _success(policy: Field, draft: JobDraft) -> None:
    text = policy.choice("", "AllWorkers")
    if text == "AllWorkers":
        draft.carry(("spec", "successPolicy", "roles"), policy, ["worker"])
        return
    policy.drop("the default")
    if "chief" not in draft.role_names:
        draft.ledger.remark(
            "the job succeeds when all workers have ended well; a TFJob without a chief does when "
            "worker 0 has"
        )
