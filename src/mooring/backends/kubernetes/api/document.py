"""Reading JSON that a server wrote: nothing about its shape is taken for granted.

Every reader answers with an empty value where the document has something else, so that an object
of a newer or broken server can be looked at without a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Object: TypeAlias = Mapping[str, Json]
#: Namespace (empty for objects without one) and name.
Key: TypeAlias = tuple[str, str]

_NOTHING: Object = {}
# What a server wrote is made of dicts and lists. They are asked for first: whether something is any
# mapping takes ten times as long to answer, and pods are read by the thousand.
_OBJECT = (dict, Mapping)
_LIST = (list, Sequence)


def find(value: Json, *path: str) -> Json:
    """What stands at `path` below `value`, or None."""
    for key in path:
        if not isinstance(value, _OBJECT):
            return None
        value = value.get(key)
    return value


def text(value: Json, *path: str) -> str:
    found = find(value, *path)
    return found if isinstance(found, str) else ""


def number(value: Json, *path: str) -> int:
    found = find(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def mapping(value: Json, *path: str) -> Object:
    found = find(value, *path)
    return found if isinstance(found, _OBJECT) else _NOTHING


def items(value: Json, *path: str) -> Sequence[Object]:
    """The objects of a list; whatever else stands in it is left out."""
    found = find(value, *path)
    if isinstance(found, str | bytes) or not isinstance(found, _LIST):
        return ()
    return [item for item in found if isinstance(item, _OBJECT)]


def texts(value: Json, *path: str) -> dict[str, str]:
    """A mapping of texts, such as labels."""
    return {key: one for key, one in mapping(value, *path).items() if isinstance(one, str)}


def key_of(obj: Object) -> Key:
    return text(obj, "metadata", "namespace"), text(obj, "metadata", "name")
