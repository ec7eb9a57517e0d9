"""What a pod tells the scheduler that decides where it runs.

Mooring's own plan is one required node. Other schedulers get the same intent in the words of
Kubernetes: rules and presets as (anti-)affinities between the job's pods, evenness as spread
constraints. Volcano and Kueue are also told which pods belong together, and in which queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.api.resources import VOLCANO_POD_GROUP
from mooring.backends.kubernetes.objects import names
from mooring.brain.presets import recipe_for
from mooring.model.affinity import Term
from mooring.model.member import Gang, Member, Preset, Relation, Restart, Rule
from mooring.model.plan import Slot
from mooring.model.topology_spread import HOSTNAME, TopologySpread
from mooring.spec.kubernetes import KubernetesSpec, Scheduler

#: The queue of those who name none, in Volcano as in Kueue.
DEFAULT_QUEUE = "default"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
#: Set by NVIDIA's feature discovery; the memory is in MiB.
_GPU_KIND = "nvidia.com/gpu.product"
_GPU_MEMORY = "nvidia.com/gpu.memory"
_MOST_WEIGHT = 100
_MIB = 2**20

Fields = dict[str, Json]


@dataclass(frozen=True)
class Scheduling:
    """Parts of a pod: fields of its spec, labels and annotations."""

    spec: Fields = field(default_factory=dict)
    labels: Fields = field(default_factory=dict)
    annotations: Fields = field(default_factory=dict)


@dataclass(frozen=True)
class SchedulingGroup:
    """The job as the schedulers see it: its marks, and the start that the pods belong to."""

    name: str
    uid: str
    epoch: int


def scheduling_of(
    kube: KubernetesSpec, gang: Gang, member: Member, slot: Slot, group: SchedulingGroup
) -> Scheduling:
    if kube.scheduler is Scheduler.MOORING:
        return Scheduling({"affinity": _only_on(slot.node)})
    spec = _by_rules(gang, member, group)
    if kube.scheduler is Scheduler.VOLCANO:
        spec["schedulerName"] = "volcano"
        return Scheduling(spec, annotations={VOLCANO_GROUP: group.name})
    if kube.scheduler is Scheduler.KUEUE:
        notes: Fields = {KUEUE_TOTAL: str(len(gang.members))}
        if not any(member.restart is Restart.MEMBER for member in gang.members):
            # Nobody replaces a pod that failed: what it held is free when the group has ended.
            notes[KUEUE_RETRIABLE] = "false"
        # Each start is a group of its own: one that has ended takes no further pods.
        together = f"{group.name}-{group.epoch}"
        labels: Fields = {KUEUE_QUEUE: kube.queue or DEFAULT_QUEUE, KUEUE_GROUP: together}
        return Scheduling(spec, labels, notes)
    return Scheduling(spec)


def pod_group_manifest(
    kube: KubernetesSpec, name: str, namespace: str, owner: Fields, min_member: int
) -> Fields:
    """The gang in Volcano's words."""
    return {
        "apiVersion": VOLCANO_POD_GROUP.api_version,
        "kind": VOLCANO_POD_GROUP.name,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {names.MANAGED_BY: names.MANAGER, names.JOB: name},
            "ownerReferences": [owner],
        },
        "spec": {"minMember": min_member, "queue": kube.queue or DEFAULT_QUEUE},
    }


def _only_on(node: str) -> Fields:
    """Required affinity to one node: the cluster's own scheduler still binds, and only there."""
    term: Fields = {"matchFields": [_expression("metadata.name", "In", [node])]}
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _by_rules(gang: Gang, member: Member, group: SchedulingGroup) -> Fields:
    spec: Fields = {}
    if member.node_selector:
        spec["nodeSelector"] = dict(member.node_selector)
    affinity: Fields = {}
    nodes = _node_affinity(member)
    if nodes:
        affinity["nodeAffinity"] = nodes
    role = member.id.role
    recipe = recipe_for(gang)
    rules = [rule for rule in recipe.required + recipe.preferred if role in rule.roles]
    rules += _habits(gang, role)
    for relation, key in (
        (Relation.TOGETHER, "podAffinity"),
        (Relation.APART, "podAntiAffinity"),
    ):
        terms = _pod_terms([rule for rule in rules if rule.relation is relation], group)
        if terms:
            affinity[key] = terms
    if affinity:
        spec["affinity"] = affinity
    spreads = [_spread(spread, group) for spread in gang.spreads if spread.applies_to(role)]
    if gang.preset is not Preset.PACK:
        spreads.append(_spread(_evenly(gang, role), group))
    if spreads:
        # A server takes one constraint for each key and action: the job's own comes first.
        kept = {
            (spread["topologyKey"], spread["whenUnsatisfiable"]): spread
            for spread in reversed(spreads)
        }
        spec["topologySpreadConstraints"] = list(reversed(kept.values()))
    return spec


def _habits(gang: Gang, role: str) -> list[Rule]:
    """What a preset prefers by its scores, as rules between pods."""
    if gang.preset is Preset.PACK:
        return [Rule(Relation.TOGETHER, (role,), gang.roles, weight=_MOST_WEIGHT)]
    if gang.preset is Preset.SPREAD_PS and role in gang.server_roles:
        return [Rule(Relation.APART, (role,), gang.server_roles, weight=_MOST_WEIGHT)]
    return []


def _evenly(gang: Gang, role: str) -> TopologySpread:
    """Over the nodes: each role for itself where roles belong together, else all members."""
    by_role = gang.preset in (Preset.COLOCATE, Preset.SPREAD_PS)
    return TopologySpread(HOSTNAME, required=False, roles=(role,) if by_role else ())


def _spread(spread: TopologySpread, group: SchedulingGroup) -> Fields:
    selector: Fields = {"matchLabels": dict(spread.match_labels)}
    return {
        "topologyKey": spread.key,
        "maxSkew": spread.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if spread.required else "ScheduleAnyway",
        "labelSelector": selector if spread.match_labels else _members(group, spread.roles),
    }


def _pod_terms(rules: Iterable[Rule], group: SchedulingGroup) -> Fields:
    required: list[Json] = []
    preferred: list[Json] = []
    for rule in rules:
        term: Fields = {"labelSelector": _members(group, rule.others), "topologyKey": HOSTNAME}
        if rule.required:
            required.append(term)
        else:
            preferred.append({"weight": rule.weight, "podAffinityTerm": term})
    return _terms(required, preferred)


def _members(group: SchedulingGroup, roles: Iterable[str]) -> Fields:
    selector: Fields = {"matchLabels": {names.JOB_UID: group.uid}}
    listed = list(roles)
    if listed:
        selector["matchExpressions"] = [_expression(names.ROLE, "In", listed)]
    return selector


def _node_affinity(member: Member) -> Fields:
    wish = member.wish
    always: list[Json] = []
    if wish.gpu_kind:
        always.append(_expression(_GPU_KIND, "In", [wish.gpu_kind]))
    if wish.gpu_memory_bytes:
        at_least = -(-wish.gpu_memory_bytes // _MIB)
        always.append(_expression(_GPU_MEMORY, "Gt", [str(at_least - 1)]))
    required: list[Fields] = [{"matchExpressions": _labels(term)} for term in wish.required]
    if not required and (always or wish.node):
        required = [{}]
    for term in required:
        listed = term.get("matchExpressions")
        if always:
            term["matchExpressions"] = [*(listed if isinstance(listed, list) else []), *always]
        if wish.node:
            term["matchFields"] = [_expression("metadata.name", "In", [wish.node])]
    preferred: list[Json] = [
        {"weight": term.weight, "preference": {"matchExpressions": _labels(term)}}
        for term in wish.preferred
    ]
    terms: Fields = {}
    if required:
        terms[_REQUIRED] = {"nodeSelectorTerms": list(required)}
    if preferred:
        terms[_PREFERRED] = preferred
    return terms


def _labels(term: Term) -> list[Json]:
    return [
        _expression(requirement.key, requirement.operator.value, requirement.values)
        for requirement in term.requirements
    ]


def _expression(key: str, operator: str, values: Iterable[str]) -> Fields:
    expression: Fields = {"key": key, "operator": operator}
    listed = list(values)
    if listed:
        expression["values"] = list[Json](listed)
    return expression


def _terms(required: list[Json], preferred: list[Json]) -> Fields:
    terms: Fields = {}
    if required:
        terms[_REQUIRED] = required
    if preferred:
        terms[_PREFERRED] = preferred
    return terms
