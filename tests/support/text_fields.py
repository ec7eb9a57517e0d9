"""Every field of a job that takes a text, by its schema, so that none is forgotten."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

#: What must stand beside a field so that the job is good but for its text.
_BESIDE: dict[str, Any] = {
    "spec.placement.rules[]": {"relation": "apart", "roles": ["worker"], "with": ["worker"]},
    "spec.placement.topologySpread[]": {"topologyKey": "zone", "maxSkew": 1},
    "spec.placement.tolerations[]": {"key": "k"},
    "spec.roles.*.tolerations[]": {"key": "k"},
    "spec.roles.*.kubernetes.secretEnv.*": {"secret": "s", "key": "k"},
    "spec.kubernetes.secretEnv.*": {"secret": "s", "key": "k"},
    "spec.roles.*.kubernetes.configMapEnv.*": {"configMap": "c", "key": "k"},
    "spec.kubernetes.configMapEnv.*": {"configMap": "c", "key": "k"},
    "spec.stepMetrics": {"source": "regex", "pattern": "x"},
}
_NAMES = {"spec.roles": "worker"}
KEY = " (key)"
"""Ends the path of a field whose text is the key of an entry."""


def text_fields(schema: Json) -> list[str]:
    """Paths such as `spec.roles.*.command[]`: `*` is any key of a map, `[]` an entry of a list."""
    return list(dict.fromkeys(_walk(schema, schema.get("$defs", {}), "", 0)))


def _walk(node: Json, definitions: Json, path: str, depth: int) -> Iterator[str]:
    if depth > 12:
        return
    if "$ref" in node:
        yield from _walk(definitions[node["$ref"].split("/")[-1]], definitions, path, depth + 1)
    for form in node.get("anyOf", []) + node.get("allOf", []):
        yield from _walk(form, definitions, path, depth + 1)
    if node.get("type") == "string" and not {"enum", "const"} & set(node):
        yield path
    for name, one in node.get("properties", {}).items():
        yield from _walk(one, definitions, f"{path}.{name}".lstrip("."), depth + 1)
    for one in (node.get("additionalProperties"), *node.get("patternProperties", {}).values()):
        if isinstance(one, dict):
            yield f"{path}.*{KEY}"
            yield from _walk(one, definitions, f"{path}.*", depth + 1)
    if isinstance(node.get("items"), dict):
        yield from _walk(node["items"], definitions, f"{path}[]", depth + 1)


def put(job: Json, field: str, text: str) -> Json:
    """A copy of the job with that text in that field."""
    made = copy.deepcopy(job)
    path = field.removesuffix(KEY)
    where, here = "", made
    *way, last = path.replace("[]", ".[]").split(".")
    for part, following in zip(way, [*way[1:], last], strict=True):
        before, where = where, _join(where, part)
        key: Any = 0 if part == "[]" else _NAMES.get(before, "k") if part == "*" else part
        empty: Any = copy.deepcopy(_BESIDE.get(where, [] if following == "[]" else {}))
        if isinstance(here, list):
            here.append(empty)
        elif key not in here or following == "[]":
            here[key] = empty
        here = here[key]
    if field.endswith(KEY):
        value = next(iter(here.values())) if here else _BESIDE.get(path, "v")
        here.clear()
        here[text] = value
    elif last == "[]":
        here.append(text)
    else:
        here["k" if last == "*" else last] = text
    return made


def _join(where: str, part: str) -> str:
    return f"{where}[]" if part == "[]" else f"{where}.{part}".lstrip(".")
