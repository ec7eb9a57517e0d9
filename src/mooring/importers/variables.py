"""A container's variables and the words of its command, with the references between them.

`$(NAME)` is replaced as the kubelet does it. What only the running member knows (a variable that
the adapter sets, a peer's host name, the pod's own name) is left to the shell.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.frameworks import Framework
from mooring.importers.pod import Pod
from mooring.importers.shell import Expression, Word, expand_references, joined, plain, variable
from mooring.importers.tracked import Field

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


def read_variables(env: Field, pod: Pod) -> tuple[dict[str, Word], dict[str, Word]]:
    """All variables that a command may refer to, and those that the shell must set."""
    exports = dict(pod.exports)
    known: dict[str, Word] = {name: (variable(name),) for name in (*exports, *pod.given)}
    for entry in env.items():
        name = entry["name"].text()
        if name is None:
            pod.draft.ledger.missing(entry.path, "a variable without a name", "name: …")
            continue
        to = pod.at("env", name)
        if name in pod.exports:
            entry.drop("the operator sets this variable itself")
            continue
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


def read_words(words: Field, known: Mapping[str, Word], pod: Pod) -> list[tuple[Field, Word]]:
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
    for kind, ours, part in (
        ("secretKeyRef", "secretEnv", "secret"),
        ("configMapKeyRef", "configMapEnv", "configMap"),
    ):
        one = source[kind]
        if one.present:
            to = pod.on_kubernetes(ours, name)
            entry["name"].map(to)
            pod.draft.carry((*to, part), one["name"])
            pod.draft.carry((*to, "key"), one["key"])
            if one["optional"].flag():
                one["optional"].refuse("false: it must be there")
            one["optional"].drop("it is not optional")
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
    if isinstance(path, str):
        to = pod.on_kubernetes("fieldEnv", name)
        entry["name"].map(to)
        pod.draft.carry(to, source["fieldRef"]["fieldPath"])
        source["fieldRef"]["apiVersion"].drop("there is one version of this")
        return
    accepted = "value, or valueFrom a secretKeyRef, a configMapKeyRef or a fieldRef"
    for kind, value in source.fields():
        value.refuse(accepted, found=f"a variable from {kind}")
    entry["name"].refuse(accepted, found=f"{name}, whose value comes from elsewhere")
