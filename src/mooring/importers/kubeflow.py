"""What the jobs of Kubeflow's training operator have in common: replica specs and a run policy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.kinds import Options
from mooring.importers.metadata import read_object_metadata
from mooring.importers.pod import ContainerProgram, PeerNames, Pod
from mooring.importers.pods import read_pod
from mooring.importers.shell import Word
from mooring.importers.tracked import Field

_KUBEFLOW_LABEL = "training.kubeflow.org/"


@dataclass(frozen=True)
class Replicas:
    """One replica spec: its name in the manifest, the role it becomes, its field."""

    name: str
    role: str
    count: int
    spec: Field


@dataclass(frozen=True)
class Style:
    """What differs between the kinds: names of the container and its port, the default policy."""

    container: str
    port: str
    restart: str
    given: frozenset[str] = frozenset()
    exports: Mapping[str, Word] = field(default_factory=dict)


def read_head(document: Field, draft: JobDraft, options: Options) -> str:
    """apiVersion, kind, metadata and status. Returns the job's name in the manifest."""
    document["apiVersion"].map(("apiVersion",))
    document["kind"].map(("spec", "framework"))
    document["status"].drop("what became of another run")
    return read_object_metadata(document["metadata"], draft, options.name)


def read_replicas(specs: Field, roles: Mapping[str, str], draft: JobDraft) -> list[Replicas]:
    """The replica specs in the order of `roles` (their name in the manifest -> role)."""
    found = []
    by_lower = {name.lower(): name for name in roles}
    for name, spec in specs.fields():
        known = by_lower.get(name.lower())
        if known is None:
            spec.refuse(f"a replica type that this kind has: {', '.join(roles)}")
            continue
        count = 1
        if spec["replicas"].whole() is not None:
            count = spec["replicas"].value
            if count == 0:
                spec.drop("it has no replicas")
                continue
            draft.carry(draft.role(roles[known], "replicas"), spec["replicas"])
        else:
            draft.put(draft.role(roles[known], "replicas"), 1)
        found.append(Replicas(known, roles[known], count, spec))
    if not found:
        draft.ledger.missing(specs.path, "no replicas", f"one of: {', '.join(roles)}")
    return sorted(found, key=lambda one: list(roles).index(one.name))


def labels_of(job: str, replicas: Sequence[Replicas]) -> dict[str, dict[str, str]]:
    """The labels that the operator gives to the pods of each role, and those of the template."""
    return {
        one.role: {
            **{
                str(name): str(value.value)
                for name, value in one.spec["template"]["metadata"]["labels"].fields()
            },
            f"{_KUBEFLOW_LABEL}job-name": job,
            f"{_KUBEFLOW_LABEL}replica-type": one.name.lower(),
            "job-name": job,
            "replica-type": one.name.lower(),
        }
        for one in replicas
    }


def host_names(job: str, replicas: Sequence[Replicas]) -> PeerNames:
    """`JOB-worker-0`, with or without the cluster's suffix."""
    roles = {one.name.lower(): one.role for one in replicas}
    names = "|".join(map(re.escape, roles))
    pattern = re.compile(
        rf"(?:(?<=//)|(?<![\w./-])){re.escape(job)}-(?P<role>{names})-(?P<index>\d+)"
        r"(?:\.[a-z0-9-]+\.svc[a-z0-9.-]*|\.svc)?(?![\w.-])"
    )
    return PeerNames(pattern, roles)


def pod_of(
    one: Replicas,
    style: Style,
    job: str,
    all_replicas: Sequence[Replicas],
    draft: JobDraft,
    options: Options,
) -> Pod:
    return Pod(
        draft,
        one.role,
        container_names=(style.container,),
        exports=style.exports,
        given=style.given,
        framework_ports=frozenset({style.port}),
        peers=host_names(job, all_replicas),
        entrypoint=options.entrypoint,
        role_labels=labels_of(job, all_replicas),
    )


def read_replica(one: Replicas, pod: Pod, style: Style) -> ContainerProgram | None:
    """The replica's restart policy and its pods."""
    read_restart(one.spec["restartPolicy"], pod.draft, one.role, style.restart)
    return read_pod(one.spec["template"], pod)


def read_restart(policy: Field, draft: JobDraft, role: str, default: str) -> None:
    text = policy.choice("Never", "OnFailure", "Always", "ExitCode") or default
    restart = "never" if text == "Never" else "member"
    to = draft.role(role, "restart")
    notes = {
        "ExitCode": "after any exit code but 0, not only after 128 and above",
        "Always": "after a failure; a member that ends well is not started again",
    }
    if policy.present:
        draft.carry(to, policy, restart, notes.get(text, ""))
    elif restart != "never":
        draft.put(to, restart)


def read_run_policy(policy: Field, draft: JobDraft, members: int) -> None:
    read_clean_pods(policy["cleanPodPolicy"], draft)
    read_seconds(policy["ttlSecondsAfterFinished"], draft, (*KUBERNETES, "ttlAfterFinished"))
    read_seconds(policy["activeDeadlineSeconds"], draft, ("spec", "timeLimit"))
    draft.carry(
        ("spec", "failurePolicy", "maxRestarts"),
        policy["backoffLimit"],
        note="counted for each member and for the gang, not in total",
    )
    if policy["suspend"].flag():
        draft.carry((*KUBERNETES, "suspend"), policy["suspend"])
    policy["suspend"].drop("jobs are not suspended unless they say so")
    policy["managedBy"].drop("Mooring manages the imported job")
    read_scheduling(policy["schedulingPolicy"], draft, members)


def read_clean_pods(policy: Field, draft: JobDraft) -> None:
    """`None` keeps even pods that still run, which would hold their place for ever."""
    text = policy.choice("Running", "All", "None")
    if text is not None:
        note = (
            "pods that have ended are kept, those still running are not" if text == "None" else ""
        )
        clean = "all" if text == "All" else "running"
        draft.carry((*KUBERNETES, "cleanPods"), policy, clean, note)


def read_scheduling(policy: Field, draft: JobDraft, members: int) -> None:
    read_min_available(policy["minAvailable"], draft, members)
    if policy["queue"].present:
        draft.carry((*KUBERNETES, "queue"), policy["queue"])
        draft.put((*KUBERNETES, "scheduler"), "volcano")
    draft.carry(("spec", "priority"), policy["priorityClass"])
    policy["minResources"].drop("the gang's needs are the sum of its members'")
    policy["scheduleTimeoutSeconds"].drop(
        "pods are made only once the whole gang has its place; until then it waits"
    )


def read_min_available(field: Field, draft: JobDraft, members: int) -> None:
    wanted = field.whole()
    if wanted is None:
        return
    if wanted >= members:
        field.map(("spec", "gang"), note="all members start together")
    else:
        draft.carry(("spec", "minAvailable"), field)


def read_seconds(field: Field, draft: JobDraft, to: tuple[str | int, ...]) -> None:
    if field.whole() is not None:
        draft.carry(to, field, f"{field.value}s")
