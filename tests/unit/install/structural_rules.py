"""The published rules for structural schemas, as a checker.

Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions", the sections
"Specifying a structural schema", "Defaulting" and "Validation". Returns what breaks them, with the
place, instead of stopping at the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TYPES = {"object", "array", "string", "integer", "number", "boolean"}
#: What a server of version 1.20 knows below openAPIV3Schema.
_KNOWN = {
    "description", "type", "format", "title", "default", "maximum", "exclusiveMaximum", "minimum",
    "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
    "multipleOf", "enum", "maxProperties", "minProperties", "required", "items", "allOf", "oneOf",
    "anyOf", "not", "properties", "additionalProperties", "nullable", "example", "externalDocs",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
}  # fmt: skip
_NOT_BELOW_LOGIC = {"description", "type", "default", "additionalProperties", "nullable"}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def violations(schema: dict[str, Any], *, cel: bool = False) -> list[str]:
    known = _KNOWN | ({"x-kubernetes-validations"} if cel else set())
    found = list(_walk(schema, "", known))
    if schema.get("type") != "object":
        found.append("the root is no object")
    metadata = schema.get("properties", {}).get("metadata", {})
    if set(metadata.get("properties", {})) - {"name", "generateName"}:
        found.append("metadata: more than the name is restricted")
    return found


def _walk(schema: dict[str, Any], at: str, known: set[str]) -> Iterator[str]:
    for key in set(schema) - known:
        yield f"{at}: unknown keyword {key}"
    either = schema.get("x-kubernetes-int-or-string")
    preserved = schema.get("x-kubernetes-preserve-unknown-fields")
    if "type" in schema and schema["type"] not in _TYPES:
        yield f"{at}: type {schema['type']}"
    if "type" not in schema and not either and not preserved:
        yield f"{at}: no type"
    if either and "type" in schema:
        yield f"{at}: a type beside int-or-string"
    if preserved not in (None, True) or either not in (None, True):
        yield f"{at}: a flag that is not true"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{at}: properties and additionalProperties"
    if "additionalProperties" in schema and not isinstance(schema["additionalProperties"], dict):
        yield f"{at}: additionalProperties that is no schema"
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        yield f"{at}: an array without items"
    if schema.get("uniqueItems"):
        yield f"{at}: uniqueItems"
    for keyword in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(keyword, []):
            if not (either and keyword == "anyOf" and schema["anyOf"] == _INT_OR_STRING):
                yield from _below_logic(part, f"{at}.{keyword}")
    for keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        if keyword in schema and not isinstance(schema[keyword], bool):
            yield f"{at}: {keyword} that is no flag"
    for name in set(schema.get("required", ())) - set(schema.get("properties", {})):
        yield f"{at}: required {name} is no property"
    if "default" in schema:
        yield from _default(schema, at)
    for name, part in schema.get("properties", {}).items():
        yield from _walk(part, f"{at}.{name}", known)
    for key, place in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _walk(schema[key], at + place, known)


def _below_logic(schema: dict[str, Any], at: str) -> Iterator[str]:
    for key in _NOT_BELOW_LOGIC & set(schema):
        yield f"{at}: {key}"
    for part in schema.get("properties", {}).values():
        yield from _below_logic(part, at)


def _default(schema: dict[str, Any], at: str) -> Iterator[str]:
    """A default must pass its own schema."""
    value = schema["default"]
    kinds: dict[str, tuple[type, ...]] = {
        "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
        "object": (dict,), "array": (list,),
    }  # fmt: skip
    wanted = kinds[schema["type"]] if "type" in schema else (int, str)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        yield f"{at}: default {value!r} is of another type"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{at}: default {value!r} is not in the enum"
    elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at}: default {value!r} does not match"
    elif isinstance(value, int | float) and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        yield f"{at}: default {value!r} is out of bounds"
