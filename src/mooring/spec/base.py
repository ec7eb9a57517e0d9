"""What every model of a file has in common, and how a validator rejects a value.

A rejection carries what was found and what would be accepted, in the user's words, and may point
below the model that raises it; `mooring.spec.explain` turns it into a `Problem` with a path.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

REJECTED = "rejected"
_SHOWN_CHARS = 60
_COMPARED_CHARS = 64


class SpecModel(BaseModel):
    """Frozen, closed, camelCase in the file and snake_case in Python."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False
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
