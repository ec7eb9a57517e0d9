"""The OpenAPI document, made from the routes and their models, so that it cannot say otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel
from pydantic.json_schema import models_json_schema

from mooring.http_api.answering import PREFIX, Route
from mooring.http_api.event_models import Gap, StreamEnd
from mooring.http_api.models import ErrorAnswer
from mooring.http_api.run_models import RunProgress
from mooring.version import VERSION

_REFERENCE = "#/components/schemas/{model}"
_IN_PATH = re.compile(r"\{(\w+)\}")
_PATH_TEXTS = {"id": "The job's id in the queue.", "run": "The run's id."}
#: Errors that any request may be answered with.
_ERRORS = {
    "401": "Over TCP: the token is missing or wrong.",
    "403": "Over TCP: another name than the service's, or another page's request.",
    "422": "The request is refused: `problems` names fields, what was found, what is accepted.",
    "500": "A defect, or the queue's file cannot be read.",
    "503": "Too many requests or streams at once: try again.",
}
_NO_HTTP = {
    "description": "No HTTP, or an address or a header of more than 8 KB.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
_NOT_FOUND = {"404": "There is no such job, run or plan."}
_OF_BODIES = {"413": "The body is larger than 16 MiB.", "507": "The disk is full."}
_DESCRIPTION = """\
The queue of one machine. On the service's Unix socket, which only its owner can open, no token is
needed; over TCP (`moor serve --listen`) each request shows the one of the file `queue/token`."""


class OpenApiDocument(RootModel[dict[str, Any]]):
    """An OpenAPI document."""

    model_config = ConfigDict(frozen=True)


def document(routes: Iterable[Route]) -> OpenApiDocument:
    """Of all these routes."""
    routes = tuple(routes)
    schemas = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    return OpenApiDocument(
        {
            "openapi": "3.1.0",
            "info": {"title": "Mooring", "version": VERSION, "description": _DESCRIPTION},
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"token": []}],
        }
    )


def _schemas(routes: tuple[Route, ...]) -> dict[str, Any]:
    models: dict[type[BaseModel], None] = {ErrorAnswer: None}
    for route in routes:
        models[route.answer] = None
        if route.body is not None:
            models[route.body] = None
        if route.streams:
            models.update(dict.fromkeys((Gap, StreamEnd, RunProgress)))
    answers = [(model, "serialization") for model in models if not _is_body(model, routes)]
    bodies = [(model, "validation") for model in models if _is_body(model, routes)]
    _, made = models_json_schema([*answers, *bodies], ref_template=_REFERENCE)  # type: ignore[list-item]
    schemas: dict[str, Any] = made["$defs"]
    for route in routes:
        if route.listed:
            _allow_chosen_fields(schemas, route)
    return schemas


def _is_body(model: type[BaseModel], routes: tuple[Route, ...]) -> bool:
    return any(route.body is model for route in routes)


def _allow_chosen_fields(schemas: dict[str, Any], route: Route) -> None:
    """Items of a list may have some fields alone: `fields` says which."""
    items = schemas[route.answer.__name__]["properties"][route.listed]["items"]
    name = items.get("$ref", "").rpartition("/")[2]
    if name and not name.endswith("Fields"):
        part = {key: value for key, value in schemas[name].items() if key != "required"}
        schemas[f"{name}Fields"] = {**part, "title": f"{name}Fields"}
        items["$ref"] = _REFERENCE.format(model=f"{name}Fields")


def _operation(route: Route) -> dict[str, Any]:
    kind = "text/event-stream" if route.streams else "application/json"
    schema: dict[str, Any] = {"$ref": _REFERENCE.format(model=route.answer.__name__)}
    if route.streams:
        schema = {
            "type": "string",
            "description": f"Events; the data of each is a {schema['$ref']}.",
        }
    errors = dict(_ERRORS)
    if "{" in route.path:
        errors |= _NOT_FOUND
    if route.body is not None:
        errors |= _OF_BODIES
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {
            str(route.status): {
                "description": route.answer.__doc__ or "",
                "content": {kind: {"schema": schema}},
            },
            "400": _NO_HTTP,
            **{status: _error(text) for status, text in sorted(errors.items())},
        },
    }
    if route.body is not None:
        reference = {"$ref": _REFERENCE.format(model=route.body.__name__)}
        content = {"application/json": {"schema": reference}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _operation_id(route: Route) -> str:
    """`GET /runs/{run}/logs` -> get_runs_run_logs."""
    words = re.findall(r"\w+", route.path)
    return "_".join([route.method.lower(), *(word.replace(".", "_") for word in words)])


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in _IN_PATH.findall(route.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_TEXTS[name],
            "schema": {"type": "string", "minLength": 1},
        }


def _query_parameters(route: Route) -> Iterator[dict[str, Any]]:
    schema = route.query.model_json_schema(ref_template=_REFERENCE)
    known = schema.get("$defs", {})
    for name, given in schema.get("properties", {}).items():
        value = _without_null(given, known)
        yield {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": value.pop("description", ""),
            "schema": value,
        }
    if route.streams:
        yield {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "description": "Go on after this event.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
        }


def _without_null(given: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """What is not given in an address is missing, never null."""
    value = {key: one for key, one in given.items() if key not in ("anyOf", "title", "default")}
    for branch in given.get("anyOf", ()):
        if branch.get("type") != "null":
            value |= branch
    reference = value.pop("$ref", "").rpartition("/")[2]
    if reference:
        value |= {key: known[reference][key] for key in ("type", "enum")}
    if given.get("default") is not None:
        value["default"] = given["default"]
    return value


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model=ErrorAnswer.__name__)}
    return {"description": text, "content": {"application/json": {"schema": schema}}}
