"""A pod template becomes what a role runs, needs and, on Kubernetes, is surrounded by.

All operators embed the same template. What differs is named in `Pod`: which container does the
work, which variables and host names the operator gives it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.frameworks import Framework
from mooring.importers.draft import KUBERNETES, Draft
from mooring.importers.pod_places import read_places
from mooring.importers.resources import read_resources
from mooring.importers.security import read_security
from mooring.importers.shell import (
    Expression,
    Word,
    command,
    expand_references,
    joined,
    peer,
    plain,
    variable,
)
from mooring.importers.tracked import Field

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ONE_CONTAINER = "a member has one container"
_NO_TERMINAL = "members have no terminal"
_NOT_IN_A_MEMBER = {
    "initContainers": "none: what comes before the training is a job of its own (or --drop)",
    "topologySpreadConstraints": "none: a placement preset or rule says how members spread",
    "hostAliases": "none: members find each other by their identity",
    "hostname": "none: Mooring names the members",
    "activeDeadlineSeconds": "a limit for the whole job",
}

_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
#: What a pod may ask about itself and a member knows too.
FIELD_REFERENCES = {
    "metadata.name": Expression("${MOORING_JOB}-${MOORING_MEMBER}"),
    "status.podIP": Expression("$(hostname -i | cut -d' ' -f1)"),
    f"metadata.annotations['{_COMPLETION_INDEX}']": variable("JOB_COMPLETION_INDEX"),
    f"metadata.labels['{_COMPLETION_INDEX}']": variable("JOB_COMPLETION_INDEX"),
    "metadata.labels['training.kubeflow.org/replica-index']": variable("MOORING_INDEX"),
    "metadata.labels['training.kubeflow.org/replica-type']": variable("MOORING_ROLE"),
    "metadata.labels['training.kubeflow.org/job-name']": variable("MOORING_JOB"),
    "metadata.annotations['volcano.sh/task-index']": variable("MOORING_INDEX"),
}


@dataclass(frozen=True)
class PeerNames:
    """Host names that the operator gives to pods, found in texts and replaced by where the member
    really is. Groups of the pattern: see `find_peer`."""

    pattern: re.Pattern[str]
    find_peer: Mapping[str, str]
    pods_per_job: Mapping[str, int] = field(default_factory=dict)

    def replace(self, text: str) -> Word:
        parts: list[str | Expression] = []
        end = 0
        for match in self.pattern.finditer(text):
            groups = match.groupdict()
            role = (
                self.find_peer[groups["role"]]
                if "role" in groups
                else next(iter(self.find_peer.values()))
            )
            index = int(groups["index"]) + self.pods_per_job.get(role, 0) * int(
                groups.get("job") or 0
            )
            parts += [text[end : match.start()], peer(role, index)]
            end = match.end()
        parts.append(text[end:])
        return joined(parts)


@dataclass(frozen=True)
class Pod:
    """One role's template, and what the importer of its kind knows about it.

    exports: variables that the operator sets and the framework's adapter does not;
    given: further variables that are there at run time; framework_ports: ports that Mooring
    chooses itself; entrypoint: what the images run if the manifest does not say.
    """

    draft: Draft
    role: str
    container_names: tuple[str, ...] = ()
    exports: Mapping[str, Word] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    framework_ports: frozenset[str] = frozenset()
    peers: PeerNames | None = None
    entrypoint: tuple[str, ...] = ()
    restart: bool = False
    role_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def at(self, *below: str) -> tuple[str | int, ...]:
        return self.draft.role(self.role, *below)

    def on_kubernetes(self, *below: str) -> tuple[str | int, ...]:
        return self.at("kubernetes", *below)


@dataclass(frozen=True)
class Program:
    """What the container runs: the words of its command, and variables for the shell to set."""

    argv: tuple[Word, ...]
    exports: Mapping[str, Word]
    sources: tuple[Field, ...]
    fields: tuple[Field | None, ...] = ()
    """Where each word stands in the manifest; None if it comes from elsewhere."""

    def texts(self) -> list[str]:
        """The words, those parts left out that only the shell knows."""
        return ["".join(part if isinstance(part, str) else "" for part in one) for one in self.argv]


def read_pod(template: Field, pod: Pod) -> Program | None:
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


def read_container(container: Field, pod: Pod) -> Program:
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
    _mounts(container["volumeMounts"], pod)
    for source in container["envFrom"].items():
        kept = pod.draft.get(pod.on_kubernetes("envFrom")) or []
        to = pod.on_kubernetes("envFrom")
        pod.draft.put(to, [*kept, source.map(to)])
    for name in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"):
        container[name].refuse("no probes or hooks: a member is judged by how its program ends")
    variables, exports = _variables(container["env"], pod)
    found: list[tuple[Field | None, Word]] = [*_words(container["command"], variables, pod)]
    if not found:
        found += [(None, (text,)) for text in pod.entrypoint]
    found += _words(container["args"], variables, pod)
    return Program(
        tuple(words for _, words in found),
        exports,
        (container["command"], container["args"]),
        tuple(field for field, _ in found),
    )


def write_command(
    program: Program | None, pod: Pod, argv: Sequence[Word] | None = None, before: str = ""
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
    pod.draft.put(pod.at("command"), command(words, program.exports, before))


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
        _volume(volume, spec["containers"], pod)
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


def _scheduler(name: Field, draft: Draft) -> None:
    if name.value == "default-scheduler":
        name.drop("Mooring places the gang; the cluster's scheduler binds its pods")
    elif name.value == "volcano":
        draft.carry((*KUBERNETES, "scheduler"), name, "volcano")
    else:
        name.refuse("default-scheduler, volcano")


def _seconds(text: object) -> int:
    return int(str(text)[:-1]) if text else 0


def _volume(volume: Field, containers: Field, pod: Pod) -> None:
    """Passed on as it is; memory under /dev/shm is a size that Mooring sets itself."""
    to = pod.on_kubernetes("volumes")
    memory = volume["emptyDir"]
    if memory["medium"].value == "Memory" and volume["name"].value in _shared(containers):
        size = memory["sizeLimit"]
        volume["name"].drop("Mooring mounts /dev/shm itself")
        memory["medium"].drop("Mooring mounts /dev/shm itself")
        if size.present:
            pod.draft.carry(pod.on_kubernetes("sharedMemory"), size)
        return
    pod.draft.put(to, [*(pod.draft.get(to) or []), volume.map(to)])


def _shared(containers: Field) -> set[object]:
    return {
        mount["name"].value
        for container in containers.items()
        for mount in container["volumeMounts"].items()
        if _is_shared_memory(mount)
    }


def _is_shared_memory(mount: Field) -> bool:
    return str(mount["mountPath"].value).rstrip("/") == "/dev/shm"


def _mounts(mounts: Field, pod: Pod) -> None:
    to = pod.on_kubernetes("volumeMounts")
    for mount in mounts.items():
        if _is_shared_memory(mount):
            mount["name"].drop("Mooring mounts /dev/shm itself")
            mount["mountPath"].drop("Mooring mounts /dev/shm itself")
        else:
            pod.draft.put(to, [*(pod.draft.get(to) or []), mount.map(to)])


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
        if name.value in pod.framework_ports:
            number.drop("Mooring chooses the framework's port and tells the members")
            name.drop("Mooring chooses the framework's port and tells the members")
        elif number.whole() is not None:
            label = name.value if isinstance(name.value, str) else f"port-{number.value}"
            to = pod.at("ports", label)
            name.map(to)
            pod.draft.carry(to, number)


def _variables(env: Field, pod: Pod) -> tuple[dict[str, Word], dict[str, Word]]:
    """All variables that a command may refer to, and those that the shell must set."""
    exports = dict(pod.exports)
    known: dict[str, Word] = {name: (variable(name),) for name in (*exports, *pod.given)}
    for entry in env.items():
        name = entry["name"].text()
        if name is None:
            pod.draft.ledger.missing(entry.path, "a variable without a name", "name: …")
            continue
        to = pod.at("env", name)
        if entry["valueFrom"].present:
            _value_from(entry, name, pod, exports)
            known[name] = (variable(name),)
            continue
        value = _runtime(expand_references(entry["value"].text() or "", known), pod)
        text = plain(value)
        if text is not None:
            entry["name"].map(to)
            entry["value"].map(to)
            pod.draft.put(to, text)
        else:
            entry["value"].map(pod.at("command"), note="the shell works it out")
            entry["name"].map(pod.at("command"))
            exports[name] = value
        known[name] = value
    return known, exports


class _Owned(dict[str, Word]):
    """The variables that the framework's adapter sets, whichever is asked for."""

    def __init__(self, names: Mapping[str, Word], framework: Framework) -> None:
        super().__init__(names)
        self._framework = framework

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self._framework.owns(name))

    def __missing__(self, name: str) -> Word:
        return (variable(name),)


def _words(words: Field, known: Mapping[str, Word], pod: Pod) -> list[tuple[Field, Word]]:
    everything = _Owned(known, pod.draft.adapter)
    found = []
    for item in words.items():
        text = item.text()
        if text is not None:
            found.append((item, _runtime(expand_references(text, everything), pod)))
    return found


def _runtime(parts: Word, pod: Pod) -> Word:
    """With the operator's host names replaced."""
    if pod.peers is None:
        return parts
    replaced: list[str | Expression] = []
    for part in parts:
        replaced += pod.peers.replace(part) if isinstance(part, str) else (part,)
    return joined(replaced)


def _value_from(entry: Field, name: str, pod: Pod, exports: dict[str, Word]) -> None:
    source = entry["valueFrom"]
    secret = source["secretKeyRef"]
    to = pod.on_kubernetes("secretEnv", name)
    if secret.present:
        entry["name"].map(to)
        pod.draft.carry((*to, "secret"), secret["name"])
        pod.draft.carry((*to, "key"), secret["key"])
        if secret["optional"].flag():
            secret["optional"].refuse("false: the secret must be there")
        secret["optional"].drop("it is not optional")
        return
    path = source["fieldRef"]["fieldPath"].value
    known = FIELD_REFERENCES.get(path) if isinstance(path, str) else None
    if known is not None:
        where = pod.at("command")
        entry["name"].map(where)
        source["fieldRef"]["fieldPath"].map(where, note="the shell works it out")
        source["fieldRef"]["apiVersion"].drop("there is one version of this")
        exports[name] = (known,)
        return
    accepted = "value, valueFrom.secretKeyRef, or valueFrom.fieldRef of name, address or index"
    for kind, value in source.fields():
        value.refuse(accepted, found=f"a variable from {kind}")
    entry["name"].refuse(accepted, found=f"{name}, whose value comes from elsewhere")


def read_object_metadata(metadata: Field, draft: Draft, rename: str | None = None) -> str:
    """The name, labels and annotations of the whole job. Returns its name in the manifest."""
    name = metadata["name"].text() or ""
    generated = metadata["generateName"].text()
    if rename is not None:
        metadata["name"].drop(f"--name {rename}")
        metadata["generateName"].drop(f"--name {rename}")
        draft.put(("metadata", "name"), rename)
    elif name:
        draft.carry(("metadata", "name"), metadata["name"])
        metadata["generateName"].drop("there is a name")
    elif generated:
        draft.carry(("metadata", "name"), metadata["generateName"], generated.rstrip("-"))
    else:
        draft.ledger.missing((*metadata.path, "name"), "nothing", "a name, here or with --name")
        draft.put(("metadata", "name"), "unnamed")
    draft.carry((*KUBERNETES, "namespace"), metadata["namespace"])
    for key, value in metadata["labels"].fields():
        if key == KUEUE_QUEUE:
            draft.carry((*KUBERNETES, "queue"), value)
            draft.put((*KUBERNETES, "scheduler"), "kueue")
        else:
            draft.carry(("metadata", "labels", key), value)
    for key, value in metadata["annotations"].fields():
        if key == _LAST_APPLIED:
            value.drop("kubectl's own copy of the manifest")
        else:
            draft.carry((*KUBERNETES, "annotations", key), value)
    for key in (
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):
        metadata[key].drop("the API server writes it")
    metadata["ownerReferences"].drop("the imported job belongs to nobody")
    metadata["finalizers"].drop("they belong to the other operator")
    return name or (generated or "").rstrip("-") or "unnamed"
