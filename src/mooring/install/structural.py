"""JSON schemas of the models to the structural schemas that a CustomResourceDefinition may hold.

A structural schema (Kubernetes' own rules) has a type at every node, no references, no unions
except "integer or string", either named fields or a map, and nothing structural below anyOf. What
it cannot say (the names of a map's keys, one field depending on another) is left to the admission
webhook and to the operator, which ask the models themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from mooring.model.amounts import format_duration
from mooring.spec.document import MOST_NODES
from mooring.spec.fields import KIND
from mooring.spec.source import LARGEST_FILE_BYTES

Schema = dict[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

#: Keywords that mean the same in both dialects and are copied as they are.
_KEPT = (
    "type",
    "enum",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    PRESERVE,
)
#: Keywords that are handled here or mean nothing to an API server.
_HANDLED = {
    "$ref",
    "$defs",
    "title",
    "examples",
    "description",
    "default",
    "const",
    "anyOf",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "exclusiveMinimum",
    "exclusiveMaximum",
    KIND,
}


class NotStructural(TypeError):
    """A model says something that this module cannot put into a structural schema."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a model, with the names that a file uses."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(schema, schema.get("$defs", {}), model.__name__)


def _convert(schema: Mapping[str, Any], definitions: Mapping[str, Any], at: str) -> Schema:
    if "$ref" in schema:
        target = definitions[str(schema["$ref"]).rpartition("/")[2]]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _convert({**target, **beside}, definitions, at)
    unknown = set(schema) - set(_KEPT) - _HANDLED
    if unknown:
        raise NotStructural(f"{at}: {', '.join(sorted(unknown))}")
    if "anyOf" in schema:
        result = _union(schema, definitions, at)
    elif "type" not in schema:
        raise NotStructural(f"{at}: no type")
    else:
        result = {key: schema[key] for key in _KEPT if key in schema}
        _take_const(schema, result)
        _take_exclusive_bounds(schema, result)
        if result.get("type") == "array":
            result["items"] = _convert(schema["items"], definitions, at + "[]")
        elif result.get("type") == "object":
            _take_fields(schema, result, definitions, at)
    _take_default(schema, result)
    if "description" in schema:
        result["description"] = schema["description"]
    return _bounded(result)


def _union(schema: Mapping[str, Any], definitions: Mapping[str, Any], at: str) -> Schema:
    """`X | None` is X: nothing is what a field that is left out holds. The only other union is
    number or text, where a number with a fraction has to be written as a text.
    """
    members = [one for one in schema["anyOf"] if one.get("type") != "null"]
    if len(members) == 1:
        beside = {key: schema[key] for key in ("default", "description") if key in schema}
        return _convert({**members[0], **beside}, definitions, at)
    parts = [_convert(one, definitions, at) for one in members]
    kinds = {part.get("type") for part in parts}
    if len(parts) == 2 and "string" in kinds and kinds & {"integer", "number"}:
        text = next(part for part in parts if part["type"] == "string")
        number = next(part for part in parts if part["type"] != "string")
        return _int_or_string(text, number)
    raise NotStructural(f"{at}: a union of {', '.join(sorted(map(str, kinds)))}")


def _int_or_string(text: Schema, number: Schema) -> Schema:
    """Bounds apply to numbers and patterns to texts, so one node can carry both."""
    result: Schema = {
        INT_OR_STRING: True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        **{key: number[key] for key in ("minimum", "maximum") if key in number},
    }
    if "enum" in text:
        result["pattern"] = "^(" + "|".join(map(re.escape, text["enum"])) + ")$"
    else:
        result |= {key: text[key] for key in ("pattern", "maxLength") if key in text}
    return result


def _take_const(schema: Mapping[str, Any], result: Schema) -> None:
    if "const" in schema:
        result["enum"] = [schema["const"]]


def _take_exclusive_bounds(schema: Mapping[str, Any], result: Schema) -> None:
    """A number in JSON schema's newer drafts, a flag beside the bound in Kubernetes."""
    for bound, name in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if name in schema:
            result[bound] = schema[name]
            result[name] = True


def _take_fields(
    schema: Mapping[str, Any], result: Schema, definitions: Mapping[str, Any], at: str
) -> None:
    if "properties" in schema:
        result["properties"] = {
            name: _convert(field, definitions, f"{at}.{name}")
            for name, field in schema["properties"].items()
        }
        if schema.get("required"):
            result["required"] = list(schema["required"])
        if "patternProperties" in schema:
            # Further names by pattern cannot be said; without this they would be dropped.
            result[PRESERVE] = True
        return
    patterns = list(schema.get("patternProperties", {}).values())
    values = patterns[0] if patterns else schema.get("additionalProperties")
    if isinstance(values, dict) and len(patterns) < 2:
        result["additionalProperties"] = _convert(values, definitions, at + "{}")
    elif not result.get(PRESERVE):
        raise NotStructural(f"{at}: an object of unknown fields")


def _take_default(schema: Mapping[str, Any], result: Schema) -> None:
    """Plain values only: a default for a whole object would fill every stored job with noise."""
    default = schema.get("default")
    if schema.get(KIND) == "duration" and isinstance(default, float):
        default = format_duration(default)
    if isinstance(default, str | bool | int | float) and default != "":
        result["default"] = default


def _bounded(schema: Schema) -> Schema:
    """With a size for whatever has none: what a job file may hold at most."""
    if schema.get("type") == "string" and "enum" not in schema:
        schema.setdefault("maxLength", LARGEST_FILE_BYTES)
    elif schema.get("type") == "array":
        schema.setdefault("maxItems", MOST_NODES)
    elif "additionalProperties" in schema:
        schema.setdefault("maxProperties", MOST_NODES)
    return schema
