"""Profiles of Kubernetes' scheduler: the legacy Policy, and KubeSchedulerConfiguration.

Rules that have a counterpart here are taken over with their weights; the others are left out and
named. A weight of 1 there counts as a tenth of a member here: as there, such rules decide between
nodes that are otherwise about equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.brain.profile import LOWEST_RATIO, Profile, with_always
from mooring.model.errors import BadInput

_WEIGHT = 10.0
_GPU = "nvidia.com/gpu"

_PREDICATES = {
    "GeneralPredicates": ("resources", "ports", "host", "selector", "affinity"),
    "PodFitsResources": ("resources",),
    "PodFitsHostPorts": ("ports",),
    "PodFitsPorts": ("ports",),
    "HostName": ("host",),
    "MatchNodeSelector": ("selector", "affinity"),
    "PodToleratesNodeTaints": ("taints",),
    "MatchInterPodAffinity": ("apart", "together"),
    "EvenPodsSpread": ("topology-spread",),
    "NoVolumeZoneConflict": ("volume-zone",),
    "NoDiskConflict": ("disks",),
    "CheckVolumeBinding": ("volume-binding",),
    "NoVolumeNodeConflict": ("volume-binding",),
    "MaxCSIVolumeCountPred": ("volume-count",),
    "MaxEBSVolumeCount": ("volume-count",),
    "MaxGCEPDVolumeCount": ("volume-count",),
    "MaxAzureDiskVolumeCount": ("volume-count",),
    "MaxCinderVolumeCount": ("volume-count",),
}
_PRIORITIES = {
    "LeastRequestedPriority": ("least-requested",),
    "MostRequestedPriority": ("most-requested",),
    "RequestedToCapacityRatioPriority": ("ratio",),
    "BalancedResourceAllocation": ("balanced",),
    "NodeAffinityPriority": ("affinity",),
    "TaintTolerationPriority": ("taints",),
    "SelectorSpreadPriority": ("selector-spread",),
    "ServiceSpreadingPriority": ("service-spread",),
    "InterPodAffinityPriority": ("together", "apart"),
    "EqualPriority": ("equal",),
    "ImageLocalityPriority": ("images",),
    "NodePreferAvoidPodsPriority": ("avoid",),
    "EvenPodsSpreadPriority": ("topology-spread", "host-spread"),
}
_PLUGINS = {
    "NodeResourcesLeastAllocated": ("least-requested",),
    "NodeResourcesMostAllocated": ("most-requested",),
    "RequestedToCapacityRatio": ("ratio",),
    "NodeResourcesBalancedAllocation": ("balanced",),
    "NodeAffinity": ("affinity",),
    "TaintToleration": ("taints",),
    "SelectorSpread": ("selector-spread",),
    "DefaultPodTopologySpread": ("selector-spread",),
    "ImageLocality": ("images",),
    "NodePreferAvoidPods": ("avoid",),
    "PodTopologySpread": ("topology-spread", "host-spread"),
    "InterPodAffinity": ("together", "apart"),
}
#: Filters are enabled there by default and need not be written.
_FILTER_PLUGINS = {
    "NodeName": ("host",),
    "NodePorts": ("ports",),
    "NodeAffinity": ("selector", "affinity"),
    "TaintToleration": ("taints",),
    "NodeResourcesFit": ("resources",),
    "InterPodAffinity": ("apart", "together"),
    "PodTopologySpread": ("topology-spread",),
    "VolumeZone": ("volume-zone",),
    "VolumeRestrictions": ("disks",),
    "VolumeBinding": ("volume-binding",),
    "NodeVolumeLimits": ("volume-count",),
    "EBSLimits": ("volume-count",),
    "GCEPDLimits": ("volume-count",),
    "AzureDiskLimits": ("volume-count",),
    "CinderLimits": ("volume-count",),
}
#: What is enabled unless it is disabled, with its weight: the documented defaults.
_DEFAULT_PLUGINS = {
    "TaintToleration": 3.0,
    "NodeAffinity": 2.0,
    "PodTopologySpread": 2.0,
    "InterPodAffinity": 2.0,
    "NodeResourcesFit": 1.0,
    "NodeResourcesBalancedAllocation": 1.0,
    "ImageLocality": 1.0,
}
#: The score plugins that version 1 of the configuration still has: it refuses others.
_WRITABLE = frozenset(
    {
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "NodeAffinity",
        "TaintToleration",
        "InterPodAffinity",
        "PodTopologySpread",
        "ImageLocality",
    }
)
_STRATEGIES = {
    "LeastAllocated": "least-requested",
    "MostAllocated": "most-requested",
    "RequestedToCapacityRatio": "ratio",
}

Shape = tuple[tuple[float, float], ...]
Shares = tuple[tuple[str, float], ...]


def from_policy(document: Mapping[str, object], source: str) -> tuple[Profile, tuple[str, ...]]:
    notes: list[str] = []
    filters: list[str] = []
    weights: dict[str, float] = {}
    shape: Shape = LOWEST_RATIO
    ratio_of = Profile("").ratio_of
    for path, entry in _entries(document, "predicates", source):
        name = _name(entry, path, source)
        if name in _PREDICATES:
            filters += _PREDICATES[name]
        else:
            notes.append(f"{path}: {name} has no counterpart and is left out")
    for path, entry in _entries(document, "priorities", source):
        name = _name(entry, path, source)
        argument = _mapping(entry.get("argument"), f"{path}.argument", source)
        given = argument.get("requestedToCapacityRatioArguments")
        ours = _PRIORITIES.get(name, ())
        if given is not None:
            ours = ("ratio",)
            where = f"{path}.argument.requestedToCapacityRatioArguments"
            arguments = _mapping(given, where, source)
            shape, ratio_of = _arguments(arguments, where, source)
        if not ours:
            notes.append(f"{path}: {name} has no counterpart and is left out")
        for rule in ours:
            weights[rule] = _WEIGHT * _weight(entry, path, source)
    profile = Profile(
        "policy",
        with_always(filters),
        tuple(weights.items()),
        shape,
        ratio_of,
    )
    return profile, tuple(notes)


def from_configuration(
    document: Mapping[str, object], source: str
) -> tuple[Profile, tuple[str, ...]]:
    """Its first profile: the one that pods get which name no scheduler."""
    profiles = _entries(document, "profiles", source) or [("profiles[0]", {})]
    path, first = profiles[0]
    notes = [f"{other}: only the first profile is read" for other, _ in profiles[1:]]
    plugins = _mapping(first.get("plugins"), f"{path}.plugins", source)
    enabled = dict(_DEFAULT_PLUGINS)
    filters: list[str] = []
    for point in ("multiPoint", "filter", "score"):
        where = f"{path}.plugins.{point}"
        section = _mapping(plugins.get(point), where, source)
        if point == "filter":
            for at, entry in _entries(section, "enabled", source, where):
                name = _name(entry, at, source)
                filters += _FILTER_PLUGINS.get(name, ())
                if name not in _FILTER_PLUGINS:
                    notes.append(f"{path}: {name} has no counterpart and is left out")
            continue
        for at, entry in _entries(section, "disabled", source, where):
            name = _name(entry, at, source)
            for known in list(enabled) if name == "*" else [name]:
                enabled.pop(known, None)
        for at, entry in _entries(section, "enabled", source, where):
            enabled[_name(entry, at, source)] = _weight(entry, at, source)
    strategy, shape, ratio_of = _strategy(first, path, source)
    weights: dict[str, float] = {}
    for name, weight in enabled.items():
        ours = (strategy,) if name == "NodeResourcesFit" else _PLUGINS.get(name, ())
        filters += _FILTER_PLUGINS.get(name, ()) if name not in _DEFAULT_PLUGINS else ()
        if not ours and name not in _FILTER_PLUGINS:
            notes.append(f"{path}: {name} has no counterpart and is left out")
        for rule in ours:
            weights[rule] = _WEIGHT * weight
    scheduler = first.get("schedulerName")
    name = scheduler if isinstance(scheduler, str) else "default-scheduler"
    return Profile(name, with_always(filters), tuple(weights.items()), shape, ratio_of), tuple(
        notes
    )


def to_configuration(profile: Profile) -> dict[str, object]:
    """The same as a KubeSchedulerConfiguration, as far as kube-scheduler has such rules."""
    plugin_of: dict[str, str] = {}
    for name, rules in _PLUGINS.items():
        for rule in rules:
            plugin_of.setdefault(rule, name)
    strategy_of = {ours: name for name, ours in _STRATEGIES.items()}
    enabled: dict[str, int] = {}
    strategy: dict[str, object] | None = None
    for rule, weight in profile.scores:
        points = max(1, round(weight / _WEIGHT))
        if rule in strategy_of and strategy is None:
            strategy = {"type": strategy_of[rule], "resources": _resources(profile.ratio_of)}
            if rule == "ratio":
                strategy["requestedToCapacityRatio"] = {
                    "shape": [{"utilization": int(u), "score": int(s)} for u, s in profile.shape]
                }
            enabled["NodeResourcesFit"] = points
        elif plugin_of.get(rule) in _WRITABLE:
            enabled[plugin_of[rule]] = points
    found: dict[str, object] = {
        "schedulerName": profile.name,
        "plugins": {
            "score": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": name, "weight": weight} for name, weight in enabled.items()],
            }
        },
    }
    if strategy is not None:
        arguments = {"scoringStrategy": strategy}
        found["pluginConfig"] = [{"name": "NodeResourcesFit", "args": arguments}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [found],
    }


def without_counterpart(profile: Profile) -> tuple[tuple[str, str], ...]:
    """The scores that `to_configuration` leaves out, each with the reason."""
    known = {rule for name in _PLUGINS if name in _WRITABLE for rule in _PLUGINS[name]}
    known.update(_STRATEGIES.values())
    strategies = [rule for rule, _ in profile.scores if rule in _STRATEGIES.values()]
    found = [
        (rule, "kube-scheduler has no such rule; it is left out")
        for rule, _ in profile.scores
        if rule not in known
    ]
    found += [
        (rule, f"kube-scheduler scores by one of {', '.join(strategies)}; {strategies[0]} is kept")
        for rule in strategies[1:]
    ]
    return tuple(found)


def _strategy(profile: Mapping[str, object], path: str, source: str) -> tuple[str, Shape, Shares]:
    for at, entry in _entries(profile, "pluginConfig", source, path):
        if entry.get("name") != "NodeResourcesFit":
            continue
        arguments = _mapping(entry.get("args"), f"{at}.args", source)
        where = f"{at}.args.scoringStrategy"
        strategy = _mapping(arguments.get("scoringStrategy"), where, source)
        kind = strategy.get("type", "LeastAllocated")
        if not isinstance(kind, str) or kind not in _STRATEGIES:
            accepted = ", ".join(_STRATEGIES)
            raise BadInput.at(source, f"{where}.type", repr(kind), accepted)
        inner = f"{where}.requestedToCapacityRatio"
        given = _mapping(strategy.get("requestedToCapacityRatio"), inner, source)
        shape, shares = _arguments({**strategy, **given}, where, source)
        return _STRATEGIES[str(kind)], shape, shares
    return "least-requested", LOWEST_RATIO, Profile("").ratio_of


def _arguments(given: Mapping[str, object], path: str, source: str) -> tuple[Shape, Shares]:
    shape = tuple(
        (_number(point, "utilization", at, source), _number(point, "score", at, source))
        for at, point in _entries(given, "shape", source, path)
    )
    shares = tuple(
        (_ours(_name(entry, at, source)), _weight(entry, at, source))
        for at, entry in _entries(given, "resources", source, path)
    )
    return tuple(sorted(shape)) or LOWEST_RATIO, shares or Profile("").ratio_of


def _ours(resource: str) -> str:
    """Extended resources have the same names on both sides."""
    return "gpu" if resource == _GPU else resource


def _resources(shares: Shares) -> list[dict[str, object]]:
    return [
        {"name": _GPU if resource == "gpu" else resource, "weight": max(1, round(weight))}
        for resource, weight in shares
    ]


def _entries(
    document: Mapping[str, object], key: str, source: str, path: str = ""
) -> list[tuple[str, Mapping[str, object]]]:
    where = f"{path}.{key}" if path else key
    found = document.get(key)
    if found is None:
        return []
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise BadInput.at(source, where, type(found).__name__, "a list")
    return [
        (f"{where}[{i}]", _mapping(entry, f"{where}[{i}]", source)) for i, entry in enumerate(found)
    ]


def _mapping(found: object, path: str, source: str) -> Mapping[str, object]:
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise BadInput.at(source, path, type(found).__name__, "a mapping")
    return found


def _name(entry: Mapping[str, object], path: str, source: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str):
        raise BadInput.at(source, f"{path}.name", repr(name), "the name of a rule or resource")
    return name


def _weight(entry: Mapping[str, object], path: str, source: str) -> float:
    return _number(entry, "weight", path, source) if entry.get("weight") else 1.0


def _number(entry: Mapping[str, object], key: str, path: str, source: str) -> float:
    found = entry.get(key, 0)
    if isinstance(found, bool) or not isinstance(found, int | float) or found < 0:
        raise BadInput.at(source, f"{path}.{key}", repr(found), "a number from 0")
    return float(found)
