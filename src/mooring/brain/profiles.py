"""Reading a profile from a document: Mooring's own form, or what Kubernetes' schedulers read.

name: dense
filters: [apart]                  # besides those that every plan needs
scores: {most-requested: 20, ratio: 10}
ratio:
  shape: [[0, 0], [100, 10]]      # utilisation in per cent, score 0..10
  resources: {cpu: 1, gpu: 3}
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mooring.brain import filters, kube_profiles, scores  # noqa: F401  registers the rules
from mooring.brain.profile import ALWAYS, LOWEST_RATIO, Profile, with_always
from mooring.brain.registry import FILTERS, SCORES
from mooring.model.errors import BadInput

RESOURCES = ("cpu", "memory", "gpu")
_KEYS = ("name", "filters", "scores", "ratio")
_HIGHEST_SCORE = 10.0
_HIGHEST_WEIGHT = 1e6


@dataclass(frozen=True)
class ProfileReading:
    """A profile, and what of the document it leaves out, a sentence each."""

    profile: Profile
    notes: tuple[str, ...] = ()


def read(document: object, source: str = "profile") -> ProfileReading:
    """The profile that a parsed YAML or JSON document describes; BadInput for what is none."""
    if not isinstance(document, Mapping):
        raise BadInput.at(source, "(document)", _kind(document), "a mapping")
    if document.get("kind") == "Policy":
        return ProfileReading(*kube_profiles.from_policy(document, source))
    if document.get("kind") == "KubeSchedulerConfiguration":
        return ProfileReading(*kube_profiles.from_configuration(document, source))
    _known(source, "", document, _KEYS)
    name = document.get("name", "custom")
    if not isinstance(name, str) or not name:
        raise BadInput.at(source, "name", repr(name), "a text")
    shape, ratio_of = _ratio(source, document.get("ratio"))
    return ProfileReading(
        Profile(
            name,
            _filters(source, document.get("filters")),
            _weights(source, "scores", document.get("scores"), tuple(SCORES)),
            shape,
            ratio_of,
        )
    )


def to_document(profile: Profile) -> dict[str, object]:
    """Mooring's own form, which `read` reads back as the same profile."""
    document: dict[str, object] = {"name": profile.name}
    more = [name for name in profile.filters if name not in ALWAYS]
    if more:
        document["filters"] = more
    if profile.scores:
        document["scores"] = dict(profile.scores)
    if "ratio" in dict(profile.scores):
        document["ratio"] = {
            "shape": [list(point) for point in profile.shape],
            "resources": dict(profile.ratio_of),
        }
    return document


def _filters(source: str, found: object) -> tuple[str, ...]:
    if found is None:
        return ALWAYS
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise BadInput.at(source, "filters", _kind(found), "a list of names")
    for number, name in enumerate(found):
        if name not in FILTERS:
            raise BadInput.at(source, f"filters[{number}]", repr(name), _names(FILTERS, name))
    return with_always(found)


def _weights(
    source: str, path: str, found: object, names: tuple[str, ...]
) -> tuple[tuple[str, float], ...]:
    if found is None:
        return ()
    if not isinstance(found, Mapping):
        raise BadInput.at(source, path, _kind(found), "a mapping from names to weights")
    _known(source, path, found, names)
    return tuple(
        (name, _number(source, f"{path}.{name}", weight, _HIGHEST_WEIGHT))
        for name, weight in found.items()
    )


def _ratio(
    source: str, found: object
) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[str, float], ...]]:
    plain = Profile("")
    if found is None:
        return LOWEST_RATIO, plain.ratio_of
    if not isinstance(found, Mapping):
        raise BadInput.at(source, "ratio", _kind(found), "shape and resources")
    _known(source, "ratio", found, ("shape", "resources"))
    wanted = found.get("resources")
    # Extended resources are called whatever their nodes call them.
    others = (
        tuple(name for name in wanted if "/" in str(name)) if isinstance(wanted, Mapping) else ()
    )
    resources = _weights(source, "ratio.resources", wanted, (*RESOURCES, *others))
    points = found.get("shape", LOWEST_RATIO)
    accepted = "a list of [utilisation, score], utilisation growing"
    if not isinstance(points, Sequence) or isinstance(points, str) or not points:
        raise BadInput.at(source, "ratio.shape", _kind(points), accepted)
    shape: list[tuple[float, float]] = []
    for number, point in enumerate(points):
        path = f"ratio.shape[{number}]"
        if not isinstance(point, Sequence) or isinstance(point, str) or len(point) != 2:
            raise BadInput.at(source, path, repr(point), accepted)
        utilisation = _number(source, f"{path}[0]", point[0], 100.0)
        if shape and utilisation <= shape[-1][0]:
            raise BadInput.at(source, path, repr(point), accepted)
        shape.append((utilisation, _number(source, f"{path}[1]", point[1], _HIGHEST_SCORE)))
    return tuple(shape), resources or plain.ratio_of


def _number(source: str, path: str, found: object, most: float) -> float:
    good = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= most
    if not good:
        raise BadInput.at(source, path, repr(found), f"a number from 0 to {most:g}")
    assert isinstance(found, int | float)
    return float(found)


def _known(source: str, path: str, found: Mapping[object, object], names: Iterable[str]) -> None:
    names = tuple(names)
    for key in found:
        if key not in names:
            where = f"{path}.{key}" if path else str(key)
            raise BadInput.at(source, where, repr(key), _names(names, key))


def _names(names: Iterable[str], found: object) -> str:
    known = sorted(names)
    nearest = difflib.get_close_matches(str(found), known, 1)
    listed = ", ".join(known)
    return f"{listed} (did you mean {nearest[0]}?)" if nearest else listed


def _kind(found: object) -> str:
    return "nothing" if found is None else type(found).__name__
