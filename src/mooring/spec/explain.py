"""A failed validation in the user's words: path, what was found, what would be accepted.

The only place that knows the validation library's error types.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from mooring.spec.base import REJECTED, Rejection, describe, one_of, printable

_QUOTED = re.compile(r"'([^']*)'")
_KEY = "[key]"
_WORDS = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "tuple_type": "a list (each entry on its own line after '- ', or [a, b])",
    "dict_type": "a mapping (name: value)",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def explain(error: ValidationError, root: type[BaseModel], most: int) -> list[Rejection]:
    """One rejection a mistake, `at` counted from the root of the file; at most `most`."""
    rejections: list[Rejection] = []
    for one in error.errors(include_url=False):
        if len(rejections) >= most:
            break
        at: tuple[str | int, ...] = tuple(one["loc"])
        if at and at[-1] == _KEY:
            at = at[:-1]
        context = one.get("ctx", {})
        if one["type"] == REJECTED:
            rejections.extend(
                Rejection(inner.found, inner.accepted, (*at, *inner.at))
                for inner in context["rejections"]
            )
        elif not _spurious(one["type"], one["input"], context):
            rejections.append(_translate(one["type"], at, one["input"], context, one["msg"], root))
    return rejections


def _spurious(kind: str, found: Any, context: Mapping[str, Any]) -> bool:
    """Entries that were refused for their own sake also make their list "too short"."""
    return kind == "too_short" and len(found) >= context["min_length"]


def _translate(
    kind: str,
    at: tuple[str | int, ...],
    found: Any,
    context: Mapping[str, Any],
    message: str,
    root: type[BaseModel],
) -> Rejection:
    if kind == "missing":
        return Rejection("nothing", _purpose(_model_at(root, at[:-1]), at[-1]), at)
    if kind == "extra_forbidden":
        model = _model_at(root, at[:-1])
        name = str(at[-1])
        known = field_names(model) if model is not None else []
        return Rejection(f"unknown field '{printable(name)}'", one_of(name, known), at)
    if kind in ("model_type", "model_attributes_type"):
        model = _model_at(root, at)
        names = ", ".join(field_names(model)) if model is not None else ""
        return Rejection(describe(found), f"a mapping with fields among: {names}", at)
    if kind in ("enum", "literal_error"):
        allowed = _QUOTED.findall(str(context.get("expected", "")))
        return Rejection(describe(found), one_of(found, allowed), at)
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return Rejection(describe(found), f"{words} {context[key]}", at)
    if kind == "too_short":
        least = context["min_length"]
        return Rejection(
            describe(found), f"at least {least} entr{'y' if least == 1 else 'ies'}", at
        )
    if kind == "too_long":
        return Rejection(describe(found), f"at most {context['max_length']} entries", at)
    return Rejection(describe(found), _WORDS.get(kind, message), at)


def field_names(model: type[BaseModel]) -> list[str]:
    """The names that a file may use for the model's fields."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _purpose(model: type[BaseModel] | None, name: str | int) -> str:
    for python_name, field in model.model_fields.items() if model is not None else ():
        if (field.alias or python_name) == name and field.description:
            return f"a value for '{name}': {field.description}"
    return f"a value for '{name}'"


def _model_at(root: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel] | None:
    here: Any = root
    for part in path:
        here = _bare(here)
        if isinstance(here, type) and issubclass(here, BaseModel):
            named = {field.alias or name: field for name, field in here.model_fields.items()}
            if part not in named:
                return None
            here = named[str(part)].annotation
        elif get_origin(here) is dict:
            here = get_args(here)[1]
        elif get_origin(here) is tuple:
            here = get_args(here)[0]
        else:
            return None
    here = _bare(here)
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _bare(annotation: Any) -> Any:
    """Without `Annotated` and `| None`."""
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        members = [one for one in get_args(annotation) if one is not types.NoneType]
        annotation = members[0]
    return annotation
