"""The job and cluster files described for machines (JSON schema) and for people (Markdown).

Both come from the models alone, so that neither can say anything the checks do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from mooring.model.amounts import format_duration
from mooring.spec.cluster import ClusterFile
from mooring.spec.fields import KIND
from mooring.spec.job import TrainingJob

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HEADER = ("apiVersion", "kind")


def job_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a job file."""
    schema: dict[str, Any] = _without_marks(_schema(TrainingJob, "Mooring training job"))
    return schema


def cluster_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a cluster file."""
    schema: dict[str, Any] = _without_marks(_schema(ClusterFile, "Mooring cluster"))
    return schema


def _schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    required = [*_HEADER, *(name for name in schema["required"] if name not in _HEADER)]
    schema = {"$schema": _DIALECT, **schema, "required": required}
    return {**_tidy(schema), "title": title}


def _tidy(value: Any) -> Any:
    """Without the titles that only repeat names, and with durations as a user writes them."""
    if isinstance(value, list):
        return [_tidy(one) for one in value]
    if not isinstance(value, dict):
        return value
    tidy = {
        key: _tidy(one)
        for key, one in value.items()
        if not (key == "title" and isinstance(one, str))
    }
    if value.get(KIND) == "duration" and isinstance(value.get("default"), float):
        tidy["default"] = format_duration(value["default"])
    if "patternProperties" in value:
        tidy["additionalProperties"] = False
    return tidy


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_marks(one) for key, one in value.items() if key != KIND}
    return value


def reference_markdown() -> str:
    """The reference page of the job file: one table a model, in the order of use."""
    opening = (
        "# Job file reference\n\n"
        "Generated from the models that check the file (`moor schema` prints the same as JSON "
        "schema). A field without a default is required. A field that the file names without a "
        "value has its default. Durations are seconds or such as `250ms`, `90s`, `10m`, `1h30m`; "
        "quantities are written as in Kubernetes (`500m`, `4Gi`).\n"
    )
    return opening + _page(_schema(TrainingJob, ""))


def cluster_reference_markdown() -> str:
    """The reference page of the cluster file."""
    opening = (
        "# Cluster file reference\n\n"
        "Describes nodes, and how jobs share them, for `moor plan`, `moor explain` and `moor "
        "simulate` (`--cluster`); see [Where does my job go, and why](placement.md). Generated "
        "from the models that check the file. A field without a default is required.\n"
    )
    return opening + _page(_schema(ClusterFile, ""))


def _page(schema: dict[str, Any]) -> str:
    definitions: dict[str, Any] = schema.get("$defs", {})
    sections = [("The file", schema)]
    sections += [(name, definitions[name]) for name in _in_order_of_use(schema, definitions)]
    return "".join(_section(title, model, definitions) for title, model in sections)


def _in_order_of_use(schema: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    order: list[str] = []
    for name in _referenced(schema.get("properties", {})):
        if name in order or "properties" not in definitions[name]:
            continue
        order.append(name)
        inner = _in_order_of_use(definitions[name], definitions)
        order += [one for one in inner if one not in order]
    return order


def _referenced(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for inner in value.values():
            yield from _referenced(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _referenced(inner)


def _section(title: str, model: dict[str, Any], definitions: dict[str, Any]) -> str:
    required = model.get("required", ())
    rows = ["| field | type | default | meaning | example |", "|---|---|---|---|---|"]
    for name, field in model["properties"].items():
        default = "required" if name in required else _default(field)
        cells = [
            f"`{name}`",
            _type(field, definitions),
            default,
            _meaning(field, definitions),
            _code(field["examples"][0]) if field.get("examples") else "",
        ]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return f"\n## {title}\n\n{model.get('description', '')}\n\n" + "\n".join(rows) + "\n"


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    if isinstance(default, dict):
        return "its fields' defaults" if default else ""
    return "" if default in (None, "", []) else _code(default)


def _meaning(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """A field that says no more than its type has its words there."""
    target = definitions.get(field.get("$ref", "").rpartition("/")[2], {})
    return str(field.get("description") or target.get("description", ""))


def _code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{text}`"


def _type(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    if KIND in field:
        return str(field[KIND])
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        target = definitions[name]
        return _type(target, definitions) if "enum" in target else f"[{name}](#{name.lower()})"
    if "enum" in field or "const" in field:
        return ", ".join(f"`{one}`" for one in field.get("enum", [field.get("const")]))
    if "anyOf" in field:
        members = [_type(one, definitions) for one in field["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(members))
    kind = field.get("type")
    if kind == "array":
        return f"list of {_type(field['items'], definitions)}"
    if kind == "object":
        patterns = list(field.get("patternProperties", {}).values())
        values = patterns[0] if patterns else field.get("additionalProperties")
        return f"mapping to {_type(values, definitions)}" if isinstance(values, dict) else "mapping"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    return words.get(str(kind), str(kind)) + _range(field)


def _range(field: dict[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if low is None and high is None:
        return ""
    if low is None or high is None:
        return f" ≥ {low}" if high is None else f" ≤ {high}"
    return f" {low}…{high}"
