"""Values as JSON gives them, checked: journals are written by other versions, by programs of users,
and by anybody who may write into a folder.

A value of another type than its field has makes the record unreadable. A number that nobody can
count with (not finite, or larger than anything that is measured) counts as missing: None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

#: Bytes, nanoseconds and steps of any machine are below.
LARGEST = 1 << 62

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class WrongValue(Exception):
    """Not of the kind that its field holds."""


@dataclass(frozen=True)
class ValueKind(Generic[T_co]):
    """One kind of value: how it is read (raises WrongValue; None: as if missing), and in words."""

    read: Callable[[object], T_co | None]
    words: str
    parts: tuple[type, ...] = ()
    """Types of the objects in it, for the documentation."""


def _number(value: object) -> float | None:
    if type(value) is float or type(value) is int:
        return float(value) if -LARGEST <= value <= LARGEST else None
    raise WrongValue


def _whole(value: object) -> int | None:
    """Also of a number with a fraction, which is cut off."""
    if type(value) is int:
        return value if -LARGEST <= value <= LARGEST else None
    if type(value) is float:
        return int(value) if -LARGEST <= value <= LARGEST else None
    raise WrongValue


def _text(value: object) -> str:
    """Half of a surrogate pair is no text."""
    if type(value) is not str:
        raise WrongValue
    return value if value.isascii() else value.encode(errors="replace").decode()


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise WrongValue
    return value


def _list(value: object) -> list[object]:
    if type(value) is not list:
        raise WrongValue
    return value


def read_object(value: object) -> dict[str, object]:
    if type(value) is not dict:
        raise WrongValue
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(_text, _list(value)))


def _wholes(value: object) -> tuple[int, ...]:
    numbers = []
    for each in _list(value):
        if type(each) is not int or not -LARGEST <= each <= LARGEST:
            raise WrongValue
        numbers.append(each)
    return tuple(numbers)


def _numbers(value: object) -> tuple[float, ...]:
    return tuple(_number(each) or 0.0 for each in _list(value))


def _counts(value: object) -> Mapping[str, int]:
    """Spelt out for speed: each sample has some."""
    counts: dict[str, int] = {}
    for key, each in read_object(value).items():
        if type(each) is not int or not -LARGEST <= each <= LARGEST:
            raise WrongValue
        counts[key if key.isascii() else _text(key)] = each
    return counts


NUMBER: ValueKind[float] = ValueKind(_number, "number")
WHOLE: ValueKind[int] = ValueKind(_whole, "whole number")
TEXT: ValueKind[str] = ValueKind(_text, "text")
FLAG: ValueKind[bool] = ValueKind(_flag, "true or false")
TEXTS: ValueKind[tuple[str, ...]] = ValueKind(_texts, "list of texts")
WHOLES: ValueKind[tuple[int, ...]] = ValueKind(_wholes, "list of whole numbers")
NUMBERS: ValueKind[tuple[float, ...]] = ValueKind(_numbers, "list of numbers")
COUNTS: ValueKind[Mapping[str, int]] = ValueKind(_counts, "name → whole number")


def pair_of(words: str) -> ValueKind[tuple[int, int]]:
    """Two whole numbers; `words`: what they are."""

    def read(value: object) -> tuple[int, int]:
        row = _wholes(value)
        if len(row) != 2:
            raise WrongValue
        return row[0], row[1]

    return ValueKind(read, f"[{words}]")


def triple_of(words: str) -> ValueKind[tuple[int, int, int]]:
    """Three whole numbers; `words`: what they are."""

    def read(value: object) -> tuple[int, int, int]:
        row = _wholes(value)
        if len(row) != 3:
            raise WrongValue
        return row[0], row[1], row[2]

    return ValueKind(read, f"[{words}]")


def map_of(kind: ValueKind[T]) -> ValueKind[Mapping[str, T]]:
    """An object whose values are all of one kind; null and unusable numbers are left out."""
    read_one = kind.read

    def read(value: object) -> Mapping[str, T]:
        return {
            _text(key): checked
            for key, each in read_object(value).items()
            if each is not None and (checked := read_one(each)) is not None
        }

    return ValueKind(read, f"name → {kind.words}", kind.parts)


def map_of_optional(kind: ValueKind[T]) -> ValueKind[Mapping[str, T | None]]:
    """The same, where null says something."""
    read_one = kind.read

    def read(value: object) -> Mapping[str, T | None]:
        return {
            _text(key): None if each is None else read_one(each)
            for key, each in read_object(value).items()
        }

    return ValueKind(read, f"name → {kind.words} or null")


def list_of(kind: ValueKind[T]) -> ValueKind[tuple[T, ...]]:
    read_one = kind.read

    def read(value: object) -> tuple[T, ...]:
        return tuple(checked for each in _list(value) if (checked := read_one(each)) is not None)

    return ValueKind(read, f"list of {kind.words}", kind.parts)


def list_of_readable(kind: ValueKind[T]) -> ValueKind[tuple[T, ...]]:
    """A list that a user's program makes: entries of another kind are left out."""
    read_one = kind.read

    def read(value: object) -> tuple[T, ...]:
        readable = []
        for each in _list(value):
            try:
                checked = read_one(each)
            except WrongValue:
                continue
            if checked is not None:
                readable.append(checked)
        return tuple(readable)

    return ValueKind(read, f"list of {kind.words}", kind.parts)


def choice_of(choices: type[E]) -> ValueKind[E]:
    """One of some words; another one makes the record unreadable."""
    by_word = {each.value: each for each in choices}

    def read(value: object) -> E:
        choice = by_word.get(value) if type(value) is str else None
        if choice is None:
            raise WrongValue
        return choice

    return ValueKind(read, ", ".join(f"`{word}`" for word in by_word))


def known_choice_of(choices: type[E]) -> ValueKind[E]:
    """The same, but a word that a later version may have added counts as missing."""
    strict = choice_of(choices)

    def read(value: object) -> E | None:
        try:
            return strict.read(_text(value))
        except WrongValue:
            if type(value) is str:
                return None
            raise

    return ValueKind(read, strict.words)


def row_as(
    row_type: Callable[..., T], kinds: tuple[ValueKind[object], ...], words: str
) -> ValueKind[T]:
    """A row of values of different kinds, as a named tuple; more than those are passed over."""
    readers = tuple(kind.read for kind in kinds)

    def read(value: object) -> T:
        row = _list(value)
        if len(row) < len(readers):
            raise WrongValue
        return row_type(*(read_one(each) for read_one, each in zip(readers, row, strict=False)))

    return ValueKind(read, f"[{words}]")
