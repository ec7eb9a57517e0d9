"""Volcano Job: tasks become roles; its job plugins say which framework's identity they expect."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import read_head, read_min_available, read_seconds
from mooring.importers.mpijob import drop_worker_command, write_launcher
from mooring.importers.pod import PeerNames, Pod
from mooring.importers.pods import read_pod, write_command
from mooring.importers.tracked import Field

_FRAMEWORK_PLUGINS = ("tensorflow", "pytorch", "mpi")
#: The files of the plugin `svc` with the host names of a task, one a line.
_HOST_FILE = re.compile(r"cat /etc/volcano/([a-z0-9-]+)\.host\b")
_ANY_HOST_FILE = "/etc/volcano/"
_FAILURES = ("PodFailed", "PodEvicted", "TaskFailed", "*", "AnyEvent")
_ACTIONS = {
    "RestartJob": "gang",
    "RestartTask": "member",
    "RestartPod": "member",
    "AbortJob": "never",
    "TerminateJob": "never",
}


@dataclass(frozen=True)
class Task:
    name: str
    role: str
    count: int
    field: Field


@manifest("Job", "batch.volcano.sh/v1alpha1", project="Volcano")
def read_volcano(document: Field, options: Options) -> JobDraft:
    spec = document["spec"]
    plugins = dict(spec["plugins"].fields())
    plugin = next((one for one in _FRAMEWORK_PLUGINS if one in plugins), None)
    draft = JobDraft(document.ledger, plugin or "indexed", _strategy(plugin, spec))
    name = read_head(document, draft, options)
    tasks = _tasks(spec["tasks"], _renamed(plugin, spec["plugins"]), draft)
    for task in tasks:
        _read_task(task, tasks, name, draft, options, spec)
    members = sum(task.count for task in tasks)
    read_min_available(spec["minAvailable"], draft, members)
    _plugins(spec["plugins"], draft)
    for policy in spec["policies"].items():
        _policy(policy, None, draft)
    draft.carry(("spec", "failurePolicy", "maxRestarts"), spec["maxRetry"])
    read_seconds(spec["ttlSecondsAfterFinished"], draft, (*KUBERNETES, "ttlAfterFinished"))
    draft.carry(("spec", "priority"), spec["priorityClassName"])
    _scheduling(spec, draft)
    if spec["minSuccess"].whole() == members:
        spec["minSuccess"].map(("spec", "successPolicy"))
    else:
        spec["minSuccess"].refuse(f"{members}: all members, or a policy for TaskCompleted")
    return draft


def _strategy(plugin: str | None, spec: Field) -> str | None:
    if plugin != "tensorflow":
        return None
    names = {task["name"].value for task in spec["tasks"].items()}
    return "parameter-server" if "ps" in names else "all-reduce"


def _renamed(plugin: str | None, plugins: Field) -> dict[str, str]:
    """Task -> role, as the plugin's arguments (`--master=…`) say it."""
    usual = {"mpi": {"master": "launcher", "worker": "worker"}}.get(plugin or "", {})
    if plugin is None:
        return {}
    renamed = dict(usual)
    for item in plugins[plugin].items():
        match = re.fullmatch(r"--(master|worker|ps|chief|evaluator)=(\S+)", str(item.value))
        if match:
            item.map(("spec", "roles"))
            renamed[match.group(2)] = usual.get(match.group(1), match.group(1))
        elif re.fullmatch(r"--port=\d+", str(item.value)):
            item.drop("Mooring chooses the port and tells the members")
        else:
            item.refuse("--master, --worker, --port")
    return renamed


def _tasks(tasks: Field, renamed: dict[str, str], draft: JobDraft) -> list[Task]:
    found = []
    for number, task in enumerate(tasks.items()):
        name = task["name"].text() or f"task-{number}"
        role = renamed.get(name, name)
        task["name"].map(draft.role(role))
        count = task["replicas"].whole()
        draft.put(draft.role(role, "replicas"), 1 if count is None else count)
        task["replicas"].map(draft.role(role, "replicas"))
        found.append(Task(name, role, 1 if count is None else count, task))
    if not found:
        draft.ledger.missing(tasks.path, "nothing", "a list of tasks")
    return found


def _host_names(job: str, tasks: list[Task]) -> PeerNames:
    """`JOB-TASK-0`, with the job's name as subdomain or without."""
    roles = {task.name: task.role for task in tasks}
    names = "|".join(map(re.escape, roles)) or "-"
    pattern = re.compile(
        rf"(?:(?<=//)|(?<![\w./-])){re.escape(job)}-(?P<role>{names})-(?P<index>\d+)"
        rf"(?:\.{re.escape(job)}[a-z0-9.-]*)?(?![\w.-])"
    )
    return PeerNames(pattern, roles)


def _read_task(
    task: Task, tasks: list[Task], job: str, draft: JobDraft, options: Options, spec: Field
) -> None:
    labels = {
        one.role: {
            **{
                key: str(value.value)
                for key, value in one.field["template"]["metadata"]["labels"].fields()
            },
            "volcano.sh/task-spec": one.name,
            "volcano.sh/job-name": job,
        }
        for one in tasks
    }
    pod = Pod(
        draft,
        task.role,
        peers=_host_names(job, tasks),
        entrypoint=options.entrypoint,
        restart=True,
        given=frozenset(),
        role_labels=labels,
    )
    template = task.field["template"]
    policy = template["spec"]["restartPolicy"]
    if policy.choice("Never", "OnFailure", "Always"):
        restart = "never" if policy.value == "Never" else "member"
        draft.carry(pod.at("restart"), policy, restart)
    program = read_pod(template, pod)
    if draft.framework == "mpi" and task.role == "worker":
        drop_worker_command(program)
    elif draft.framework == "mpi":
        write_launcher(program, pod)
    elif program is not None:
        argv = [
            tuple(
                _HOST_FILE.sub(_hosts_of, part) if isinstance(part, str) else part for part in one
            )
            for one in program.argv
        ]
        if any(_ANY_HOST_FILE in str(part) for one in argv for part in one):
            for source in program.sources:
                accepted = "'cat /etc/volcano/TASK.host', or the variables VC_TASK_HOSTS"
                source.refuse(accepted, f"a command that uses {_ANY_HOST_FILE}")
        write_command(program, pod, argv if program.argv else None)
    field = task.field
    if field["minAvailable"].whole() == task.count:
        field["minAvailable"].map(("spec", "gang"))
    field["minAvailable"].refuse(f"{task.count}: all of the task, or minAvailable of the job")
    draft.carry(("spec", "failurePolicy", "maxRestarts"), field["maxRetry"])
    field["dependsOn"].refuse("none: the members of a job start together")
    if field["topologyPolicy"].value == "none":
        field["topologyPolicy"].drop("the default")
    field["topologyPolicy"].refuse("none: say 'pinning: exclusive' in the job")
    for one in field["policies"].items():
        _policy(one, task.role, draft)


def _hosts_of(match: re.Match[str]) -> str:
    name = match.group(1).upper().replace("-", "_")
    return f"echo $VC_{name}_HOSTS | tr , '\\n'"


def _plugins(plugins: Field, draft: JobDraft) -> None:
    for name, plugin in plugins.fields():
        if name in ("env", "svc"):
            for item in plugin.items():
                item.drop("members' names are there before they start")
            if not plugin.items():
                plugin.understood(("spec", "framework"), note="VC_* variables")
        elif name in _FRAMEWORK_PLUGINS:
            if not plugin.items():
                plugin.understood(("spec", "framework"))
        elif name == "ssh" and draft.framework == "mpi":
            plugin.drop("ranks are started without ssh")
        elif name == "ssh":
            plugin.refuse("the plugin mpi instead: members are not reached by ssh")


def _policy(policy: Field, role: str | None, draft: JobDraft) -> None:
    events = [item.value for item in policy["events"].items()] or [policy["event"].value]
    action = policy["action"].text()
    policy["timeout"].refuse("none: policies act at once")
    policy["exitCode"].refuse("an event: restarts do not depend on the exit code")
    fields = (policy["event"], policy["events"], policy["action"])
    if action == "CompleteJob" and events == ["TaskCompleted"] and role is not None:
        to: tuple[str, ...] = ("spec", "successPolicy", "roles")
        draft.put(to, [*(draft.get(to) or []), role])
    elif all(event in _FAILURES for event in events) and action in _ACTIONS:
        where = ("spec", "failurePolicy") if role is None else draft.role(role)
        to = tuple(map(str, (*where, "restart")))
        evicted = events == ["PodEvicted"]
        if not evicted or draft.get(to) is None:
            draft.put(to, _ACTIONS[action])
        if role is None:
            # A task without a policy of its own follows the job's, whatever its pods say.
            for name in draft.role_names:
                if not evicted or draft.get(draft.role(name, "restart")) != "member":
                    (draft.get(draft.role(name)) or {}).pop("restart", None)
    else:
        for field in fields:
            field.refuse(
                f"a failure ({', '.join(_FAILURES)}) with {', '.join(_ACTIONS)}; in a task "
                "TaskCompleted with CompleteJob"
            )
        return
    for field in fields:
        field.map(to, note="any failure of a member" if action in _ACTIONS else "")


def _scheduling(spec: Field, draft: JobDraft) -> None:
    name, queue = spec["schedulerName"], spec["queue"]
    if queue.present or name.value == "volcano":
        name.map((*KUBERNETES, "scheduler"))
        draft.put((*KUBERNETES, "scheduler"), "volcano")
        draft.carry((*KUBERNETES, "queue"), queue)
    elif name.value == "default-scheduler":
        name.drop("Mooring places the gang; the cluster's scheduler binds its pods")
    else:
        name.refuse("volcano, default-scheduler")
    spec["runningEstimate"].drop("a hint for Volcano's own plugins")
    for volume in spec["volumes"].items():
        _job_volume(volume, draft)


def _job_volume(volume: Field, draft: JobDraft) -> None:
    claim = volume["volumeClaimName"]
    if claim.text() is None:
        volume["mountPath"].refuse("a claim that exists (volumeClaimName)")
        volume["volumeClaim"].refuse("a claim that exists (volumeClaimName)")
        return
    volumes, mounts = (*KUBERNETES, "volumes"), (*KUBERNETES, "volumeMounts")
    source = {"persistentVolumeClaim": {"claimName": claim.map(volumes)}}
    draft.put(volumes, [*(draft.get(volumes) or []), {"name": str(claim.value), **source}])
    mount = {"name": str(claim.value), "mountPath": volume["mountPath"].map(mounts)}
    draft.put(mounts, [*(draft.get(mounts) or []), mount])
