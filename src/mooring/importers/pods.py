"""A pod template becomes what a role runs, needs and, on Kubernetes, is surrounded by.

All operators embed the same template. What differs is named in `Pod`: which container does the
work, which variables and host names the operator gives it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.pod import ContainerProgram, Pod
from mooring.importers.pod_places import read_places
from mooring.importers.resources import read_resources
from mooring.importers.security import read_security
from mooring.importers.shell import Word, command
from mooring.importers.tracked import Field
from mooring.importers.variables import read_variables, read_words
from mooring.importers.volumes import read_mounts, read_volume

_ONE_CONTAINER = "a member has one container"
_NO_TERMINAL = "members have no terminal"
_NOT_IN_A_MEMBER = {
    "initContainers": "none: what comes before the training is a job of its own (or --drop)",
    "topologySpreadConstraints": "none: a placement preset or rule says how members spread",
    "hostAliases": "none: members find each other by their identity",
    "hostname": "none: Mooring names the members",
    "activeDeadlineSeconds": "a limit for the whole job",
}


def read_pod(template: Field, pod: Pod) -> ContainerProgram | None:
    """Everything but the command, which the caller may look at before `write_command`."""
    _metadata(template["metadata"], pod)
    spec = template["spec"]
    if not spec.present:
        pod.draft.ledger.missing(spec.path, "nothing", "a pod's spec with a container")
        return None
    _pod_settings(spec, pod)
    read_places(spec, pod.draft, pod.role, pod.role_labels)
    container = _main_container(spec["containers"], pod)
    if container is None:
        return None
    return read_container(container, pod)


def read_container(container: Field, pod: Pod) -> ContainerProgram:
    container["name"].drop(_ONE_CONTAINER)
    pod.draft.carry(pod.on_kubernetes("image"), container["image"])
    pod.draft.carry(pod.on_kubernetes("imagePullPolicy"), container["imagePullPolicy"])
    pod.draft.carry(pod.at("workingDir"), container["workingDir"])
    for name in ("terminationMessagePath", "terminationMessagePolicy"):
        container[name].drop("members' last words are in their logs")
    for name in ("stdin", "stdinOnce", "tty"):
        container[name].drop(_NO_TERMINAL)
    read_resources(container["resources"], pod.draft, pod.role)
    read_security(container["securityContext"], pod.draft, pod.role)
    _ports(container["ports"], pod)
    read_mounts(container["volumeMounts"], pod)
    for source in container["envFrom"].items():
        kept = pod.draft.get(pod.on_kubernetes("envFrom")) or []
        to = pod.on_kubernetes("envFrom")
        pod.draft.put(to, [*kept, source.map(to)])
    for name in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"):
        container[name].refuse("no probes or hooks: a member is judged by how its program ends")
    variables, exports = read_variables(container["env"], pod)
    found: list[tuple[Field | None, Word]] = [*read_words(container["command"], variables, pod)]
    if not found:
        found += [(None, (text,)) for text in pod.entrypoint]
    found += read_words(container["args"], variables, pod)
    return ContainerProgram(
        tuple(words for _, words in found),
        exports,
        (container["command"], container["args"]),
        tuple(field for field, _ in found),
    )


def write_command(
    program: ContainerProgram | None, pod: Pod, argv: Sequence[Word] | None = None
) -> None:
    """Put the program's command, or another that the caller made of it, into the role."""
    if program is None:
        return
    words = program.argv if argv is None else tuple(argv)
    named = program.sources[0].present or pod.entrypoint or argv is not None
    for source in program.sources:
        source.map(pod.at("command"))
    if not named:
        # Something must stand there, or its absence would be reported a second time.
        pod.draft.put(pod.at("command"), ["entrypoint"])
        program.sources[0].ledger.missing(
            program.sources[0].path,
            "nothing: the image's own entrypoint runs",
            "a command; an import cannot see into images: say it with --entrypoint",
        )
        return
    pod.draft.put(pod.at("command"), command(words, program.exports))


def _metadata(metadata: Field, pod: Pod) -> None:
    for name in ("name", "generateName", "namespace", "creationTimestamp"):
        metadata[name].drop("Mooring names the pods")
    for kind in ("labels", "annotations"):
        for name, value in metadata[kind].fields():
            pod.draft.carry(pod.on_kubernetes(kind, name), value)


def _pod_settings(spec: Field, pod: Pod) -> None:
    draft = pod.draft
    account = spec["serviceAccountName"]
    draft.carry(pod.on_kubernetes("serviceAccountName"), account)
    older = spec["serviceAccount"]
    if older.present and not account.present:
        draft.carry(pod.on_kubernetes("serviceAccountName"), older)
    elif older.present:
        older.drop("the old name of serviceAccountName")
    draft.carry(pod.on_kubernetes("runtimeClassName"), spec["runtimeClassName"])
    for secret in spec["imagePullSecrets"].items():
        to = pod.on_kubernetes("imagePullSecrets")
        name = secret["name"].map(to)
        draft.put(to, [*(draft.get(to) or []), name])
    for volume in spec["volumes"].items():
        read_volume(volume, spec["containers"], pod)
    read_security(spec["securityContext"], draft, pod.role)
    _scheduler(spec["schedulerName"], draft)
    draft.carry(("spec", "priority"), spec["priorityClassName"])
    spec["priority"].drop("what the priority class stands for")
    spec["preemptionPolicy"].refuse("none: priorities of jobs decide (spec.priority)")
    grace = spec["terminationGracePeriodSeconds"]
    if grace.whole() is not None:
        to = ("spec", "gracePeriod")
        draft.carry(to, grace, f"{max(grace.value, _seconds(draft.get(to)))}s")
    spec["enableServiceLinks"].drop("peers are found by their identity")
    if spec["automountServiceAccountToken"].flag():
        spec["automountServiceAccountToken"].refuse("false: members' pods mount no token")
    spec["automountServiceAccountToken"].drop("members' pods mount no token")
    if spec["dnsPolicy"].value in ("ClusterFirst", "ClusterFirstWithHostNet"):
        spec["dnsPolicy"].drop("Mooring's pods use the cluster's names")
    for name in ("hostNetwork", "hostIPC", "hostPID", "shareProcessNamespace"):
        if spec[name].flag():
            spec[name].refuse("false: members' pods share nothing with their node or each other")
        spec[name].drop("it is off anyway")
    for name, accepted in _NOT_IN_A_MEMBER.items():
        spec[name].refuse(accepted)
    if not pod.restart:
        spec["restartPolicy"].drop("the job's own restart policy counts, not the template's")


def _scheduler(name: Field, draft: JobDraft) -> None:
    if name.value == "default-scheduler":
        name.drop("Mooring places the gang; the cluster's scheduler binds its pods")
    elif name.value == "volcano":
        draft.carry((*KUBERNETES, "scheduler"), name, "volcano")
    else:
        name.refuse("default-scheduler, volcano")


def _seconds(text: object) -> int:
    return int(str(text)[:-1]) if text else 0


def _main_container(containers: Field, pod: Pod) -> Field | None:
    items = containers.items()
    if not items:
        pod.draft.ledger.missing(containers.path, "nothing", "a container")
        return None
    named = [item for item in items if item["name"].value in pod.container_names]
    main = (named or items)[0]
    for item in items:
        if item is not main:
            item.refuse("one container a member (to run it without this one: --drop)")
    return main


def _ports(ports: Field, pod: Pod) -> None:
    for port in ports.items():
        number, name = port["containerPort"], port["name"]
        if port["protocol"].value not in (None, "TCP"):
            port["protocol"].refuse("TCP")
        port["protocol"].drop("ports of members are TCP")
        if str(name.value) in pod.framework_ports:
            number.drop("Mooring chooses the framework's port and tells the members")
            name.drop("Mooring chooses the framework's port and tells the members")
        elif number.whole() is not None:
            label = name.value if isinstance(name.value, str) else f"port-{number.value}"
            to = pod.at("ports", label)
            name.map(to)
            pod.draft.carry(to, number)
