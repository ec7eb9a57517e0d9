"""The resource definitions: structural by the published rules, saying what the models check."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, Field, JsonValue
from structural_rules import violations

from mooring.install.crd import pool_crd, training_job_crd
from mooring.install.structural import NotStructural, structural_schema
from mooring.spec import JobSpec
from mooring.spec.pools import PoolEntry


def schema_of(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


JOB = schema_of(training_job_crd())
SPEC = JOB["properties"]["spec"]["properties"]
POOL = schema_of(pool_crd())


@pytest.mark.parametrize("schema", [JOB, POOL], ids=["TrainingJob", "Pool"])
def test_schemas_are_structural(schema: dict[str, Any]) -> None:
    assert violations(schema) == []


def test_rules_in_cel_are_there_only_where_the_server_knows_them() -> None:
    with_rules = schema_of(training_job_crd(cel=True))
    assert violations(with_rules, cel=True) == []
    assert "x-kubernetes-validations" in str(with_rules)
    assert "x-kubernetes-validations" not in str(JOB)


def _one(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}}


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (_one("a", {}), ".a: no type"),
        (_one("a", {"type": "array"}), "without items"),
        ({"type": "object", "anyOf": [{"type": "object"}]}, ".anyOf: type"),
        ({"type": "object", "additionalProperties": False}, "no schema"),
        ({"type": "object", "required": ["a"]}, "required a"),
        ({"type": "object", "$ref": "#/x"}, "unknown keyword $ref"),
        (_one("a", {"type": "integer", "default": "1"}), "another type"),
        ({"type": "object", "exclusiveMinimum": 0}, "no flag"),
        (_one("metadata", _one("uid", {"type": "string"})), "more than the name"),
    ],
)
def test_the_checker_itself_finds_what_is_wrong(broken: dict[str, Any], words: str) -> None:
    assert any(words in one for one in violations(broken)), violations(broken)


def fields_below(annotation: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every field that a file may name, `*` for a mapping's keys or a list's items."""
    if get_origin(annotation) in (Annotated, Union, types.UnionType):
        for part in get_args(annotation):
            yield from fields_below(part, at)
    elif get_origin(annotation) is dict:
        yield from fields_below(get_args(annotation)[1], (*at, "*"))
    elif get_origin(annotation) is tuple:
        yield from fields_below(get_args(annotation)[0], (*at, "*"))
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            here = (*at, field.alias or name)
            yield here
            yield from fields_below(field.annotation, here)


def node_at(schema: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for part in path:
        if part == "*":
            schema = schema.get("items") or schema["additionalProperties"]
        else:
            schema = schema["properties"][part]
    return schema


@pytest.mark.parametrize("path", list(fields_below(JobSpec)), ids=".".join)
def test_every_field_of_the_job_file_is_there_with_its_description(path: tuple[str, ...]) -> None:
    assert node_at(JOB["properties"]["spec"], path)["description"]


def test_a_pool_has_every_field_but_its_name() -> None:
    paths = {path for path in fields_below(PoolEntry) if path != ("name",)}
    assert ("guaranteed", "gpu") in paths
    for path in paths:
        assert node_at(POOL["properties"]["spec"], path)["description"]
    assert "name" not in POOL["properties"]["spec"]["properties"]
    assert POOL["properties"]["metadata"]["properties"]["name"]["maxLength"] == 63


def test_what_single_fields_look_like() -> None:
    role = SPEC["roles"]["additionalProperties"]["properties"]
    cpu = role["resources"]["properties"]["cpu"]
    assert cpu["x-kubernetes-int-or-string"] is True and "type" not in cpu
    assert cpu["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert role["replicas"] | {"description": ""} == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10_000,
        "default": 1,
        "description": "",
    }
    assert SPEC["startTimeout"]["default"] == "5m"
    assert SPEC["threads"]["pattern"] == "^(auto)$"
    assert SPEC["threads"]["maximum"] == 4096
    assert SPEC["strategy"]["enum"][0] == "parameter-server"
    assert SPEC["env"]["additionalProperties"]["type"] == "string"
    assert SPEC["kubernetes"]["properties"]["volumes"]["items"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert POOL["properties"]["spec"]["properties"]["weight"]["exclusiveMinimum"] is True
    assert JOB["properties"]["metadata"]["properties"]["name"]["maxLength"] == 40
    assert JOB["properties"]["spec"]["required"] == ["framework", "roles"]


def test_extended_resources_beside_cpu_are_not_dropped() -> None:
    resources = SPEC["roles"]["additionalProperties"]["properties"]["resources"]
    assert resources["x-kubernetes-preserve-unknown-fields"] is True


def test_names_and_columns() -> None:
    crd = training_job_crd()["spec"]
    assert (crd["names"]["plural"], crd["names"]["shortNames"]) == ("trainingjobs", ["tj"])
    version = crd["versions"][0]
    assert version["subresources"] == {"status": {}}
    columns = {one["name"]: one for one in version["additionalPrinterColumns"]}
    assert list(columns) == ["Phase", "Ready", "Pool", "Age", "Examples/s", "Reason"]
    assert columns["Reason"]["priority"] == 1
    for column in columns.values():
        path = column["jsonPath"].strip(".").split(".")
        if path[0] == "status":
            assert node_at(JOB, tuple(path))["type"] == column["type"]


def test_a_pool_shows_what_somebody_writes() -> None:
    version = pool_crd()["spec"]["versions"][0]
    assert "subresources" not in version
    assert [one["name"] for one in version["additionalPrinterColumns"]] == ["Weight", "Age"]


class _Odd(BaseModel):
    either: list[int] | dict[str, int] = Field([])


class _Open(BaseModel):
    anything: dict[str, JsonValue] = Field({})


@pytest.mark.parametrize("model", [_Odd, _Open])
def test_a_model_that_cannot_be_said_is_refused_rather_than_guessed(model: type[BaseModel]) -> None:
    with pytest.raises(NotStructural, match=model.__name__):
        structural_schema(model)
