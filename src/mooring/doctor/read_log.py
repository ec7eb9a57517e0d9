"""A benchmark's plain text log to measures: lines that end in a number with a unit.

`resnet18 model average train time : 41.39ms` is a measure; a name that occurs again is a
repetition of it. Other lines of `key : value` are what the log says of its machine.
"""

from __future__ import annotations

import re
from pathlib import Path

from mooring.doctor.comparing import Better, Measure, Side
from mooring.model.errors import BadInput

_LARGEST_BYTES = 16 << 20
_TIMES_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}
_RATES = ("examples", "images", "img", "samples", "steps", "it", "tokens", "records", "batches")
_UNIT = "|".join([*_TIMES_MS, *(rf"{rate}/s(?:ec)?" for rate in _RATES), "[KMGT]i?B/s", "%"])
_UNIT_AT_END = re.compile(rf"(?:{_UNIT})$")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?$")
_IN_NUMBERS = "0123456789,.eE+-"
_LONGEST_NUMBER = 40
_LONGEST_UNIT = 12
_CONTEXT = re.compile(r"(?P<key>[A-Za-z][\w ]{1,39}?) {0,40}[:=] {0,40}(?P<value>[^\s:=].{0,119})")
#: Longer lines, and more measures than anybody looks at, are another kind of file.
_LONGEST_LINE = 500
_MOST_MEASURES = 20_000
_MOST_VALUES = 200_000
#: Whatever is beyond is no time and no rate: ratios of it would be no numbers.
_SANE = (1e-12, 1e18)
#: A clock is different in every log.
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}:\d{2}|\d{4}[-/]\d{2}[-/]\d{2}")


def read_log(path: Path) -> Side:
    """Raises BadInput if there is no measure in it."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise BadInput.at("moor compare", str(path), found, "a run or a text log") from None
    side = parse_log(text, str(path))
    if not side.measures:
        accepted = "lines such as `resnet18 train time : 41.4 ms`"
        raise BadInput.at("moor compare", str(path), "no measures", accepted)
    return side


def parse_log(text: str, name: str) -> Side:
    values: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    context: dict[str, str] = {}
    taken = 0
    for each in text.splitlines():
        line = each.strip()
        if len(line) > _LONGEST_LINE or taken == _MOST_VALUES:
            continue
        measure = _measure(line)
        if measure is not None:
            what, unit, value = measure
            known = what in units or len(units) < _MOST_MEASURES
            if known and units.setdefault(what, unit) == unit:
                values.setdefault(what, []).append(value)
                taken += 1
            continue
        match = _CONTEXT.fullmatch(line)
        if match and not _TIME_OF_DAY.search(match["value"]) and len(context) < _MOST_MEASURES:
            context.setdefault(match["key"].strip(), match["value"].strip())
    measures = tuple(
        Measure(what, units[what], tuple(found), _better(units[what]))
        for what, found in values.items()
    )
    return Side(name, measures, context)


def _measure(line: str) -> tuple[str, str, float] | None:
    """(name, unit, value), times in ms; None if the line does not end in a number with a unit."""
    unit_at_end = _UNIT_AT_END.search(line[-_LONGEST_UNIT:])
    if unit_at_end is None:
        return None
    unit = unit_at_end[0]
    rest = line[: len(line) - len(unit)].rstrip()
    number = _NUMBER.search(_number_at_end(rest))
    if number is None:
        return None
    name = rest[: len(rest) - len(number[0])].rstrip()
    name = name[:-1].rstrip() if name.endswith((":", "=")) else name
    if not name or name[0].isdigit() or ":" in name or "=" in name:
        return None
    value = float(number[0].replace(",", ""))
    if unit in _TIMES_MS:
        value, unit = value * _TIMES_MS[unit], "ms"
    return (name, unit, value) if _SANE[0] <= value <= _SANE[1] else None


def _number_at_end(text: str) -> str:
    """The last characters that a number may have: no more are looked at."""
    tail = text[-_LONGEST_NUMBER:]
    return tail[len(tail.rstrip(_IN_NUMBERS)) :]


def _better(unit: str) -> Better:
    if unit == "ms":
        return Better.LOWER
    return Better.NEITHER if unit == "%" else Better.HIGHER
