"""Figures out of lines of a journal, whatever stands there: another version may have written it."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.record.journal import JsonValue


def number(line: Mapping[str, JsonValue], name: str) -> float:
    value = line.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def whole(line: Mapping[str, JsonValue], name: str) -> int | None:
    value = line.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def mapping(line: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    value = line.get(name)
    return value if isinstance(value, dict) else {}


def numbers(line: Mapping[str, JsonValue], name: str) -> list[int]:
    value = line.get(name)
    return [one for one in value if isinstance(one, int)] if isinstance(value, list) else []
