"""The schema and the reference page say of every field what the models check."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter

from mooring.spec import TrainingJob
from mooring.spec.cluster import ClusterFile
from mooring.spec.schema import (
    cluster_reference_markdown,
    cluster_schema,
    job_schema,
    reference_markdown,
)


def models_below(annotation: Any) -> Iterator[type[BaseModel]]:
    if get_origin(annotation) in (Annotated, Union, types.UnionType, dict, tuple):
        for part in get_args(annotation):
            yield from models_below(part)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_below(field.annotation)


ALL_MODELS = list(dict.fromkeys([*models_below(TrainingJob), *models_below(ClusterFile)]))


@pytest.mark.parametrize("model", ALL_MODELS, ids=lambda model: model.__name__)
def test_every_field_has_a_description_and_an_example_that_is_accepted(
    model: type[BaseModel],
) -> None:
    assert model.__doc__
    for name, field in model.model_fields.items():
        assert field.description, name
        assert field.examples, name
        checked: Any = field.annotation
        for part in field.metadata:
            checked = Annotated[checked, part]
        for example in field.examples:
            TypeAdapter(checked).validate_python(example, by_alias=True, by_name=False)


@pytest.mark.parametrize("schema", [job_schema(), cluster_schema()])
def test_the_schema_is_closed_and_says_which_dialect_it_is(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"][:2] == ["apiVersion", "kind"]
    json.dumps(schema)
    for model in (schema, *schema["$defs"].values()):
        if "properties" in model:
            assert model["additionalProperties"] is False
    assert "x-kind" not in json.dumps(schema)


def test_the_schema_uses_the_names_of_the_file() -> None:
    spec = job_schema()["$defs"]["JobSpec"]
    assert {"timeLimit", "workingDir", "successPolicy"} <= set(spec["properties"])
    assert spec["required"] == ["framework", "roles"]
    assert spec["properties"]["startTimeout"]["default"] == "5m"


@pytest.mark.parametrize(
    ("page", "root"),
    [(reference_markdown(), TrainingJob), (cluster_reference_markdown(), ClusterFile)],
)
def test_the_reference_names_every_field(page: str, root: type[BaseModel]) -> None:
    for model in models_below(root):
        assert model is root or f"\n## {model.__name__}\n" in page
        for name, field in model.model_fields.items():
            assert f"| `{field.alias or name}` |" in page
    for line in page.splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 6, line
