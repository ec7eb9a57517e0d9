"""What every model of a file has in common, and how a validator rejects a value.

A rejection carries what was found and what would be accepted, in the user's words, and may point
below the model that raises it; `mooring.spec.explain` turns it into a `Problem` with a path.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

REJECTED = "rejected"
_SHOWN_CHARS = 60
_COMPARED_CHARS = 64
_DISABLE_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
_PLUGIN_LOADER = "pydantic.plugin._loader"
_BUILDING = threading.RLock()


class SpecModel(BaseModel):
    """Frozen, closed, camelCase in the file and snake_case in Python."""

    # Each model would build a validator of its own at import, and few of them are ever called.
    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False, defer_build=True
    )

    @classmethod
    def all_defaults(cls) -> Self:
        """With nothing but defaults, and without building the validator that a call would need:
        for the default of another model's field, which is made at import."""
        return cast(Self, cls.model_construct())

    @classmethod
    def model_rebuild(
        cls,
        *,
        force: bool = False,
        raise_errors: bool = True,
        _parent_namespace_depth: int = 2,
        _types_namespace: Mapping[str, Any] | None = None,
    ) -> bool | None:
        with _BUILDING, _no_plugins():
            return super().model_rebuild(
                force=force,
                raise_errors=raise_errors,
                _parent_namespace_depth=_parent_namespace_depth + 1,
                _types_namespace=_types_namespace,
            )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Frozen: a copy would be the same. Defaults are copied for each of thousands of roles."""
        return self

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, data: Any) -> Any:
        """`resources:` with nothing after it is no `resources`; `ps:` is a role of defaults."""
        if data is None:
            return {}
        if not isinstance(data, dict) or None not in data.values():
            return data
        known = {field.alias or name for name, field in cls.model_fields.items()}
        known.update(cls.model_fields)
        return {key: value for key, value in data.items() if value is not None or key not in known}


@contextmanager
def _no_plugins() -> Iterator[None]:
    """Keep pydantic from looking for its plugins in every installed package while a model is built.

    That, and importing what it looks with, takes longer than reading a job. Nothing of it stays:
    members inherit this process's environment, and its other models may have plugins.
    """
    before = os.environ.get(_DISABLE_PLUGINS)
    os.environ[_DISABLE_PLUGINS] = "__all__"
    stand_in = ModuleType(_PLUGIN_LOADER)
    stand_in.get_plugins = tuple  # type: ignore[attr-defined]
    is_loaded = sys.modules.setdefault(_PLUGIN_LOADER, stand_in) is not stand_in
    try:
        yield
    finally:
        if not is_loaded:
            del sys.modules[_PLUGIN_LOADER]
        if before is None:
            del os.environ[_DISABLE_PLUGINS]
        else:
            os.environ[_DISABLE_PLUGINS] = before


@dataclass(frozen=True)
class Rejection:
    """`at` is the place below the model or value whose validator rejects."""

    found: str
    accepted: str
    at: tuple[str | int, ...] = ()


def rejected(rejections: Sequence[Rejection]) -> PydanticCustomError:
    """The error for a validator to raise when it has at least one rejection."""
    sentences = "; ".join(
        f"{'.'.join(map(str, one.at)) + ': ' if one.at else ''}"
        f"found {one.found}, accepted: {one.accepted}"
        for one in rejections
    )
    return PydanticCustomError(
        REJECTED, "{sentences}", {"sentences": sentences, "rejections": tuple(rejections)}
    )


def reject(value: object, accepted: str) -> PydanticCustomError:
    """The error for a validator to raise about the very value that it was given."""
    return rejected([Rejection(describe(value), accepted)])


def shorten(text: str, limit: int = _SHOWN_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def printable(text: str) -> str:
    """Short, and harmless to a terminal: control characters and surrogates are escaped."""
    short = shorten(text)
    return short if short.isprintable() else repr(short)[1:-1]


def describe(value: object) -> str:
    """What was found, short and in words; never fails, whatever the value."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Python refuses to print integers of more than 4300 digits.
        return f"the number {value}" if value.bit_length() < 200 else "a number far too large"
    if isinstance(value, float):
        return f"the number {value!r}" if math.isfinite(value) else f"the number .{value}"
    if isinstance(value, str):
        return f"the text {shorten(value)!r}" if value else "an empty text"
    if isinstance(value, dict):
        return f"a mapping of {len(value)}" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    return f"a {type(value).__name__}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that the user probably meant."""
    by_lower = {one.lower(): one for one in known}
    wanted = name[:_COMPARED_CHARS].lower()
    close = difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def one_of(name: object, known: Iterable[str]) -> str:
    """The accepted names, the likely one first."""
    names = list(known)
    if len(names) == 1:
        return f"'{names[0]}'"
    listed = "one of: " + ", ".join(names)
    meant = nearest(name, names) if isinstance(name, str) else None
    return f"did you mean '{meant}'? ({listed})" if meant else listed
