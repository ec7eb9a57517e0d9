"""Kubernetes' own: an indexed Job, and a JobSet, which is several of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import read_head, read_seconds
from mooring.importers.pod import ContainerProgram, PeerNames, Pod
from mooring.importers.pods import read_pod, write_command
from mooring.importers.shell import Expression, Word, variable
from mooring.importers.tracked import Field

NOT_RENAMED: Mapping[str, str] = MappingProxyType({})
_INDEX = "JOB_COMPLETION_INDEX"
#: What the Job controller allows if nobody says.
_DEFAULT_BACKOFF_LIMIT = 6


@manifest("Job", "batch/v1", project="Kubernetes")
def read_job(document: Field, options: Options) -> JobDraft:
    draft = JobDraft(document.ledger, "indexed")
    name = read_head(document, draft, options)
    spec = document["spec"]
    mode = spec["completionMode"].choice("Indexed", "NonIndexed") or "NonIndexed"
    pods = read_counts(spec, draft, "worker", 1)
    if mode == "NonIndexed" and pods > 1:
        spec["completionMode"].refuse("Indexed: members are told apart by their index")
        if not spec["completionMode"].present:
            draft.ledger.missing(spec["completionMode"].path, "nothing (NonIndexed)", "Indexed")
    spec["completionMode"].map(("spec", "framework"))
    if pods > 1:
        draft.put(("spec", "gang"), False)
    subdomain = str(spec["template"]["spec"]["subdomain"].value or "")
    spec["template"]["spec"]["subdomain"].drop("members are found under Mooring's names")
    pattern = re.compile(
        rf"(?:(?<=//)|(?<![\w./-])){re.escape(name)}-(?P<index>\d+)"
        rf"\.{re.escape(subdomain)}[a-z0-9.-]*(?![\w-])"
    )
    names = PeerNames(pattern, {"": "worker"}) if subdomain else None
    pod = Pod(
        draft,
        "worker",
        peers=names,
        entrypoint=options.entrypoint,
        restart=True,
        given=frozenset({_INDEX}),
        role_labels={"worker": template_labels(spec)},
    )
    spec["template"]["spec"]["restartPolicy"].map(
        pod.at("restart"), note="a Job starts failed pods again either way"
    )
    write_command(read_pod(spec["template"], pod), pod)
    read_job_policies(spec, draft)
    draft.put(draft.role("worker", "restart"), "member")
    _success(spec["successPolicy"], draft)
    spec["selector"].drop("the Job controller writes it")
    spec["manualSelector"].drop("the Job controller's own")
    if spec["suspend"].flag():
        draft.carry((*KUBERNETES, "suspend"), spec["suspend"])
    spec["suspend"].drop("jobs are not suspended unless they say so")
    read_seconds(spec["ttlSecondsAfterFinished"], draft, (*KUBERNETES, "ttlAfterFinished"))
    return draft


def template_labels(spec: Field) -> dict[str, str]:
    return {
        name: str(value.value) for name, value in spec["template"]["metadata"]["labels"].fields()
    }


def read_counts(spec: Field, draft: JobDraft, role: str, jobs: int) -> int:
    """completions and parallelism of one Job, of which there are `jobs`; how many pods it has."""
    completions, parallelism = spec["completions"].whole(), spec["parallelism"].whole()
    pods = completions if completions is not None else parallelism or 1
    to = draft.role(role, "replicas")
    for field in (spec["completions"], spec["parallelism"]):
        field.map(to)
    if completions is not None and (parallelism or 1) < completions:
        accepted = f"{completions}, as many as completions: all members run at the same time"
        if spec["parallelism"].present:
            spec["parallelism"].refuse(f"{accepted} (or --drop)")
        elif not spec.ledger.dropped_by_user(spec["parallelism"].path):
            spec.ledger.missing(spec["parallelism"].path, "nothing (1)", accepted)
    draft.put(to, pods * jobs)
    return pods


def read_job_policies(spec: Field, draft: JobDraft) -> None:
    """Limits of a Job that the job file can say."""
    read_seconds(spec["activeDeadlineSeconds"], draft, ("spec", "timeLimit"))
    to = ("spec", "failurePolicy", "maxRestarts")
    per_index, total = spec["backoffLimitPerIndex"], spec["backoffLimit"]
    if per_index.present:
        draft.carry(to, per_index)
        total.drop("backoffLimitPerIndex counts, as in Mooring, for each member")
    elif total.present:
        draft.carry(to, total, note="counted for each member, not in total")
    elif draft.get(to) is None:
        draft.put(to, _DEFAULT_BACKOFF_LIMIT)
    spec["maxFailedIndexes"].refuse("none: a member that fails for good fails the job")
    spec["podFailurePolicy"].refuse("none: restarts do not depend on the exit code")
    spec["podReplacementPolicy"].drop("a member is started again only when it has ended")
    if spec["managedBy"].present:
        spec["managedBy"].drop("Mooring manages the imported job")


def _success(policy: Field, draft: JobDraft) -> None:
    for number, rule in enumerate(policy["rules"].items()):
        if number == 0 and rule["succeededCount"].value == 1:
            rule["succeededCount"].map(("spec", "successPolicy", "mode"))
            draft.put(("spec", "successPolicy"), {"roles": ["worker"], "mode": "any"})
        rule["succeededIndexes"].refuse("succeededCount: 1, or no rule: any member, or all")
        if rule["succeededCount"].value != 1:
            rule["succeededCount"].refuse("1, or no rule: any member, or all")


@dataclass(frozen=True)
class Replicated:
    """One job of a set: `jobs` copies of a Job with `pods` pods each become one role."""

    role: str
    jobs: int
    pods: int
    field: Field


@manifest("JobSet", "jobset.x-k8s.io/v1alpha2", project="JobSet")
def read_jobset(document: Field, options: Options) -> JobDraft:
    draft = JobDraft(document.ledger, "indexed")
    name = read_head(document, draft, options)
    spec = document["spec"]
    replicated = read_replicated(spec["replicatedJobs"], draft)
    subdomain = str(spec["network"]["subdomain"].value or name)
    names = jobset_names(name, subdomain, replicated)
    for one in replicated:
        pod = jobset_pod(one, replicated, draft, names, options)
        write_command(read_replicated_pod(one, pod), pod)
    read_jobset_policies(spec, draft, replicated)
    return draft


def read_replicated(
    jobs: Field, draft: JobDraft, renamed: Mapping[str, str] = NOT_RENAMED
) -> list[Replicated]:
    found: list[Replicated] = []
    for one in jobs.items():
        name = one["name"].text() or f"job-{len(found)}"
        role = renamed.get(name, name)
        one["name"].map(draft.role(role))
        count = one["replicas"].whole()
        template = one["template"]["spec"]
        pods = read_counts(template, draft, role, 1 if count is None else count)
        one["replicas"].map(draft.role(role, "replicas"))
        one["groupName"].drop("roles have no groups")
        one["dependsOn"].refuse("none: the members of a job start together")
        for key in ("labels", "annotations", "creationTimestamp"):
            one["template"]["metadata"][key].drop("there are no Jobs between the job and its pods")
        found.append(Replicated(role, 1 if count is None else count, pods, one))
    if not found:
        draft.ledger.missing(jobs.path, "nothing", "a list of jobs")
    return found


def jobset_names(name: str, subdomain: str, replicated: list[Replicated]) -> PeerNames:
    """`SET-JOB-JOBINDEX-PODINDEX.SUBDOMAIN`, or without the subdomain."""
    roles = {one.role: one.role for one in replicated}
    listed = "|".join(map(re.escape, roles)) or "-"
    pattern = re.compile(
        rf"(?:(?<=//)|(?<![\w./-])){re.escape(name)}-(?P<role>{listed})-(?P<job>\d+)-(?P<index>\d+)"
        rf"(?:\.{re.escape(subdomain)}[a-z0-9.-]*)?(?![\w-])"
    )
    return PeerNames(pattern, roles, {one.role: one.pods for one in replicated})


def jobset_pod(
    one: Replicated,
    replicated: list[Replicated],
    draft: JobDraft,
    names: PeerNames | None,
    options: Options,
    containers: tuple[str, ...] = (),
) -> Pod:
    return Pod(
        draft,
        one.role,
        container_names=containers,
        exports=_index_of(one, replicated) if draft.framework == "indexed" else {},
        given=frozenset({_INDEX}),
        peers=names,
        entrypoint=options.entrypoint,
        role_labels=_labels(replicated),
    )


def _labels(replicated: list[Replicated]) -> Mapping[str, Mapping[str, str]]:
    return {
        one.role: {
            **template_labels(one.field["template"]["spec"]),
            "jobset.sigs.k8s.io/replicatedjob-name": one.role,
        }
        for one in replicated
    }


def _index_of(one: Replicated, replicated: list[Replicated]) -> Mapping[str, Word]:
    """Mooring counts over all roles; a Job counts its own pods."""
    indexed = one.field["template"]["spec"]["completionMode"].value == "Indexed"
    if not indexed or (one.jobs == 1 and len(replicated) == 1):
        return {}
    if one.jobs == 1:
        return {_INDEX: (variable("MOORING_INDEX"),)}
    return {_INDEX: (Expression(f"$((MOORING_INDEX % {one.pods}))"),)}


def read_replicated_pod(one: Replicated, pod: Pod) -> ContainerProgram | None:
    spec = one.field["template"]["spec"]
    if spec["completionMode"].choice("Indexed", "NonIndexed"):
        spec["completionMode"].map(("spec", "framework"))
    read_job_limits(spec)
    return read_pod(spec["template"], pod)


def read_job_limits(spec: Field) -> None:
    for name in ("backoffLimit", "backoffLimitPerIndex", "podReplacementPolicy"):
        spec[name].drop("the set's failurePolicy counts: its jobs restart together")
    spec["activeDeadlineSeconds"].refuse("a limit for the whole job, not for one of its roles")
    spec["podFailurePolicy"].refuse("none: restarts do not depend on the exit code")
    spec["ttlSecondsAfterFinished"].drop("the whole job is kept or removed, not one of its roles")
    spec["suspend"].drop("the set is suspended or not, as a whole")


def read_jobset_policies(spec: Field, draft: JobDraft, replicated: list[Replicated]) -> None:
    success = spec["successPolicy"]
    if success.present:
        targets = [item.value for item in success["targetReplicatedJobs"].items()]
        roles = targets or [one.role for one in replicated]
        draft.put(("spec", "successPolicy", "roles"), roles)
        success["targetReplicatedJobs"].map(("spec", "successPolicy", "roles"))
        if success["operator"].choice("All", "Any"):
            mode = str(success["operator"].value).lower()
            draft.carry(("spec", "successPolicy", "mode"), success["operator"], mode)
    failure = spec["failurePolicy"]
    if failure["maxRestarts"].whole() is not None:
        draft.carry(("spec", "failurePolicy", "maxRestarts"), failure["maxRestarts"])
        draft.put(("spec", "failurePolicy", "restart"), "gang")
    failure["restartStrategy"].drop("the gang is stopped whole before it starts again")
    failure["rules"].refuse("maxRestarts alone: every failure is treated alike")
    order = spec["startupPolicy"]["startupPolicyOrder"]
    if order.choice("AnyOrder", "InOrder"):
        note = "" if order.value == "AnyOrder" else "in no order, but none before all are ready"
        order.map(("spec", "gang"), note=note)
    for name in ("enableDNSHostnames", "publishNotReadyAddresses", "subdomain"):
        spec["network"][name].drop("members are found under Mooring's names")
    spec["coordinator"].drop("a label for programs that ask the API server")
    if spec["suspend"].flag():
        draft.carry((*KUBERNETES, "suspend"), spec["suspend"])
    spec["suspend"].drop("jobs are not suspended unless they say so")
    read_seconds(spec["ttlSecondsAfterFinished"], draft, (*KUBERNETES, "ttlAfterFinished"))
    spec["managedBy"].drop("Mooring manages the imported job")
