"""Records as plain frozen dataclasses whose fields say once what they are called in the file, what
kind of value they hold and what it means: reader, writer and documentation follow from that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mooring.wire.errors import UnreadableRecord
from mooring.wire.values import ValueKind, WrongValue, read_object

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from mooring.record.journal import JsonValue

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R", bound="DataclassInstance")

#: What an error quotes of a wrong value.
_MOST_QUOTED = 80
_SHORT = range(-(10**20), 10**20)


def item(kind: ValueKind[T], default: D, meaning: str, key: str = "") -> T | D:
    """A field of a record; `key` is its name in the file, where that is another one.

    Missing and null are the default. The meaning goes into docs/formats.md.
    """
    metadata = {"key": key, "kind": kind, "meaning": meaning}
    field: Any
    if isinstance(default, Mapping):
        field = dataclasses.field(default_factory=lambda: default, metadata=metadata)
    else:
        field = dataclasses.field(default=default, metadata=metadata)
    return field  # type: ignore[no-any-return]  # as dataclasses.field, typed as the value


class FieldFormat(NamedTuple):
    """One field: its attribute, its name in the file, and what `item` was given."""

    name: str
    key: str
    kind: ValueKind[object]
    meaning: str


@cache
def formats_of(record_type: type[DataclassInstance]) -> tuple[FieldFormat, ...]:
    """The fields that are declared with `item`."""
    return tuple(
        FieldFormat(
            each.name,
            each.metadata["key"] or each.name,
            each.metadata["kind"],
            each.metadata["meaning"],
        )
        for each in dataclasses.fields(record_type)
        if each.metadata
    )


@cache
def _readers(
    record_type: type[DataclassInstance],
) -> Mapping[str, tuple[str, Callable[[object], object]]]:
    return {each.key: (each.name, each.kind.read) for each in formats_of(record_type)}


def read_values(record_type: type[R], document: Mapping[str, object]) -> dict[str, Any]:
    """The values of a record's fields by attribute; keys that are unknown are passed over.

    Raises UnreadableRecord.
    """
    readers = _readers(record_type)
    values = {}
    for key, value in document.items():
        if value is not None and (reader := readers.get(key)) is not None:
            name, read = reader
            try:
                checked = read(value)
            except WrongValue:
                raise _wrong(record_type, key, value) from None
            if checked is not None:
                values[name] = checked
    return values


def _wrong(record_type: type[R], key: str, value: object) -> UnreadableRecord:
    accepted = next(each.kind.words for each in formats_of(record_type) if each.key == key)
    return UnreadableRecord(f"{key}: found {describe(value)}; accepted: {accepted}")


def describe(value: object) -> str:
    """A JSON value in a few words."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return ascii(value[:_MOST_QUOTED])
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    # Digits of a number that is too large to be printed are not looked at.
    return str(value) if isinstance(value, float) or value in _SHORT else "a large number"


def object_of(record_type: type[R]) -> ValueKind[R]:
    """The kind of a field that holds an object with fields of its own."""

    def read(value: object) -> R:
        try:
            return record_type(**read_values(record_type, read_object(value)))
        except UnreadableRecord as error:
            raise WrongValue from error

    return ValueKind(read, f"`{record_type.__name__}`", (record_type,))


def write_values(record: DataclassInstance) -> dict[str, JsonValue]:
    """Every field by its key, also those that have nothing to say."""
    return {each.key: _plain(getattr(record, each.name)) for each in formats_of(type(record))}


def write_changed(record: DataclassInstance) -> dict[str, JsonValue]:
    """The fields that are not as by default, also of objects inside."""
    defaults = type(record)()
    return {
        each.key: _plain(value, write_changed)
        for each in formats_of(type(record))
        if (value := getattr(record, each.name)) != getattr(defaults, each.name)
    }


def _plain(
    value: Any, write: Callable[[DataclassInstance], dict[str, JsonValue]] = write_values
) -> JsonValue:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return write(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return {key: _plain(each, write) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each, write) for each in value]
    return value  # type: ignore[no-any-return]  # numbers, texts, None
