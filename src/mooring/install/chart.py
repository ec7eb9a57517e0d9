"""The Helm chart, made from the same manifests as `moor install`.

A template must say what depends on a value. That is found out, not written down: the manifests are
made for every combination of the choices, and whatever is there only in some of them gets the
condition that tells those apart. So the chart cannot say anything that the command does not.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mooring.install.manifests import custom_resources, objects
from mooring.install.names import Manifest
from mooring.install.settings import InstallSettings
from mooring.spec.write import dump_yaml
from mooring.version import VERSION

#: Values that are true or false, or a list that may be empty (`watch`), as in `_settings`.
_FLAGS = ("webhook", "kubeletConfig", "volcano", "networkPolicy", "watch")
_LIST = "watch"
#: Stand for values while the manifests are made. YAML puts quotes around a text that begins with @.
_NAMESPACE, _IMAGE, _WATCHED, _REPLICAS = "@namespace@", "@image@", "@watched@", 77_000_077
_OPEN, _CLOSE = "@open ", "@close@"
_NOTE = "# Written by docs/generate.py from the code behind `moor install`: run `make docs`.\n"

Choice = tuple[bool, ...]
#: Flag -> the value that it must have.
Condition = dict[str, bool]

_FILES = {
    "PriorityClass": "priorities.yaml",
    "ServiceAccount": "rbac.yaml",
    "ClusterRole": "rbac.yaml",
    "ClusterRoleBinding": "rbac.yaml",
    "Role": "rbac.yaml",
    "RoleBinding": "rbac.yaml",
    "Service": "services.yaml",
    "Deployment": "deployment.yaml",
    "ValidatingWebhookConfiguration": "webhook.yaml",
}

_VALUES = f"""\
# The image of Mooring, built from the Dockerfile.
image: mooring:{VERSION}
# Copies of the operator; one leads.
replicas: 2
# Whether jobs are checked before they are stored. The operator checks them in any case.
webhook: true
# Whether the operator may ask kubelets for their CPU manager settings.
kubeletConfig: false
# Whether the operator may make PodGroups, for jobs with `scheduler: volcano`.
volcano: false
# Whether each job gets a NetworkPolicy: only its own pods may then reach its ports.
networkPolicy: true
# The only namespaces of jobs; the operator then may write nowhere else. Empty: all namespaces.
watch: []
"""


def chart() -> dict[str, str]:
    """Path in the chart -> text."""
    head = {
        "apiVersion": "v2",
        "name": "mooring",
        "description": "Runs distributed training jobs and makes them fast",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
    }
    files = {"Chart.yaml": _NOTE + dump_yaml(head), "values.yaml": _NOTE + _VALUES}
    for definition in custom_resources(InstallSettings()):
        plural = definition["spec"]["names"]["plural"]
        files[f"crds/{plural}.yaml"] = _NOTE + dump_yaml(definition)
    for name, text in _templates():
        path = f"templates/{name}"
        files[path] = files.get(path, _NOTE) + text
    return files


def _templates() -> Iterable[tuple[str, str]]:
    """(file, template of one manifest); the namespace is Helm's own business."""
    choices = list(itertools.product((True, False), repeat=len(_FLAGS)))
    made = {choice: objects(_settings(choice)) for choice in choices}
    for key in _in_order([[_key(one) for one in documents] for documents in made.values()]):
        versions = {
            choice: document
            for choice, documents in made.items()
            for document in documents
            if _key(document) == key
        }
        body = dump_yaml(_merged(versions, str(key)))
        text = f"---\n{_filled(body)}"
        test = _test(_condition(set(versions), set(choices), str(key)))
        if key[1] == _WATCHED:
            # One for each of them; that there are any is all that it may depend on.
            assert test == f"if $.Values.{_LIST}", test
            test = f"range $.Values.{_LIST}"
        if test:
            text = f"{{{{- {test} }}}}\n{text}{{{{- end }}}}\n"
        yield _FILES[key[0]], text


def _settings(choice: Choice) -> InstallSettings:
    webhook, kubelet_config, volcano, network_policy, watch = choice
    return InstallSettings(
        namespace=_NAMESPACE,
        image=_IMAGE,
        replicas=_REPLICAS,
        webhook=webhook,
        kubelet_config=kubelet_config,
        volcano=volcano,
        network_policy=network_policy,
        watch=(_WATCHED,) if watch else (),
    )


def _key(document: Manifest) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _merged(versions: dict[Choice, Any], at: str) -> Any:
    """One value for all choices, with markers around the items of lists that only some have."""
    values = list(versions.values())
    first = values[0]
    if all(value == first for value in values):
        return first
    if all(isinstance(value, dict) and value.keys() == first.keys() for value in values):
        return {
            key: _merged({choice: one[key] for choice, one in versions.items()}, f"{at}.{key}")
            for key in first
        }
    if not all(isinstance(value, list) for value in values):
        raise ValueError(f"{at}: differs in a way that no template can say")
    if all(len(value) == len(first) for value in values):
        return [
            _merged({choice: one[index] for choice, one in versions.items()}, f"{at}[{index}]")
            for index in range(len(first))
        ]
    tested = []
    for item in _in_order(values):
        having = {choice for choice, value in versions.items() if item in value}
        tested.append((_test(_condition(having, set(versions), at)), item))
    result = []
    for test, group in itertools.groupby(tested, key=lambda pair: pair[0]):
        items = [item for _, item in group]
        result += [_OPEN + test, *items, _CLOSE] if test else items
    return result


def _in_order(sequences: Iterable[Sequence[Any]]) -> list[Any]:
    """Everything that is in any of them, once, each after what stands before it there."""
    result: list[Any] = []
    for sequence in sequences:
        position = 0
        for item in sequence:
            if item in result:
                position = result.index(item) + 1
            else:
                result.insert(position, item)
                position += 1
    return result


def _condition(having: set[Choice], of: set[Choice], at: str) -> Condition:
    """The flags that tell `having` apart from the rest."""
    condition: Condition = {}
    for index, flag in enumerate(_FLAGS):
        found = {choice[index] for choice in having}
        if len(found) == 1 and {choice[index] for choice in of} == {True, False}:
            condition[flag] = found.pop()
    said = {
        choice
        for choice in of
        if all(choice[_FLAGS.index(flag)] is value for flag, value in condition.items())
    }
    if said != having:
        raise ValueError(f"{at}: depends on several values in a way that no template can say")
    return condition


def _test(condition: Condition) -> str:
    """`if and $.Values.a (not $.Values.b)`"""
    if not condition:
        return ""
    parts = [
        f"$.Values.{flag}" if value else f"(not $.Values.{flag})"
        for flag, value in condition.items()
    ]
    return f"if {parts[0]}" if len(parts) == 1 else f"if and {' '.join(parts)}"


def _filled(text: str) -> str:
    """Markers and stand-ins as the template language says them.

    A list item that depends on the list alone is written once for each of its values.
    """
    each = rf"^ *- '?{_OPEN}if \$\.Values\.{_LIST}'?$(\n[^\n]*{_WATCHED}[^\n]*\n)"
    text = re.sub(each, rf"{{{{- range $.Values.{_LIST} }}}}\1", text, flags=re.MULTILINE)
    text = re.sub(rf"^ *- '?{_OPEN}(.*?)'?$", r"{{- \1 }}", text, flags=re.MULTILINE)
    text = re.sub(rf"^ *- '?{_CLOSE}'?$", "{{- end }}", text, flags=re.MULTILINE)
    for stand_in, value in (
        (_NAMESPACE, "$.Release.Namespace"),
        (_IMAGE, "$.Values.image"),
        (_WATCHED, "."),
    ):
        text = text.replace(f"'{stand_in}'", f"{{{{ {value} | quote }}}}")
        text = text.replace(stand_in, f"{{{{ {value} }}}}")
    return text.replace(str(_REPLICAS), "{{ $.Values.replicas }}")
