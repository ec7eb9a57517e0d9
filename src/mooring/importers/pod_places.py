"""Where a pod may and would like to run becomes a role's node choice and rules between roles.

Affinities between pods are carried over where they are about the pods of this very job and about
nodes: that is what a placement rule can say.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.importers.draft import JobDraft
from mooring.importers.tracked import Field

_HOST = "kubernetes.io/hostname"
_RULES = ("spec", "placement", "rules")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Labels = Mapping[str, Mapping[str, str]]


def read_places(spec: Field, draft: JobDraft, role: str, role_labels: Labels) -> None:
    for name in ("nodeSelector", "tolerations", "nodeName"):
        if name == "tolerations":
            _tolerations(spec[name], draft, role)
        else:
            draft.carry(draft.role(role, name), spec[name])
    affinity = spec["affinity"]
    draft.carry(draft.role(role, "nodeAffinity"), affinity["nodeAffinity"])
    for name, relation in (("podAntiAffinity", "apart"), ("podAffinity", "together")):
        terms = affinity[name]
        for term in terms[_REQUIRED].items():
            _rule(term, None, relation, draft, role, role_labels)
        for weighted in terms[_PREFERRED].items():
            _rule(
                weighted["podAffinityTerm"], weighted["weight"], relation, draft, role, role_labels
            )


def _tolerations(tolerations: Field, draft: JobDraft, role: str) -> None:
    to = draft.role(role, "tolerations")
    found = []
    for toleration in tolerations.items():
        toleration["tolerationSeconds"].drop("members are not evicted by taints")
        kept = {}
        for name in ("key", "operator", "value", "effect"):
            if toleration[name].present:
                kept[name] = toleration[name].map(to)
        found.append(kept)
    if found:
        draft.put(to, found)


def _rule(
    term: Field, weight: Field | None, relation: str, draft: JobDraft, role: str, labels: Labels
) -> None:
    if term["topologyKey"].value != _HOST:
        term["topologyKey"].refuse(f"{_HOST}: rules are about nodes")
    others = [name for name, own in labels.items() if _selects(term["labelSelector"], own)]
    if not others:
        term["labelSelector"].refuse(
            "labels that pods of this job have: rules are between its roles"
        )
        return
    rule: dict[str, object] = {"relation": relation, "roles": [role]}
    if others != [role]:
        rule["with"] = others
    if weight is None:
        rule["required"] = True
    elif weight.whole() is not None:
        rule["weight"] = weight.map(_RULES)
    note = "between members of this job; pods of others do not count"
    term["labelSelector"].understood(_RULES, note=note)
    term["topologyKey"].map(_RULES)
    rules = draft.get(_RULES) or []
    if rule not in rules:
        draft.put(_RULES, [*rules, rule])


def _selects(selector: Field, labels: Mapping[str, str]) -> bool:
    if not selector.present:
        return False
    for key, value in selector["matchLabels"].fields():
        if labels.get(key) != value.value:
            return False
    return all(_meets(one, labels) for one in selector["matchExpressions"].items())


def _meets(expression: Field, labels: Mapping[str, str]) -> bool:
    own = labels.get(str(expression["key"].value))
    values = [item.value for item in expression["values"].items()]
    match expression["operator"].value:
        case "In":
            return own in values
        case "NotIn":
            return own not in values
        case "Exists":
            return own is not None
        case "DoesNotExist":
            return own is None
    return False
