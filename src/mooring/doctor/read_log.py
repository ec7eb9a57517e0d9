"""A benchmark's plain text log to measures: lines that end in a number with a unit.

`resnet18 model average train time : 41.39ms` is a measure; a name that occurs again is a
repetition of it. Other lines of `key : value` are what the log says of its machine.
"""

from __future__ import annotations

import re
from pathlib import Path

from mooring.doctor.comparing import Better, Measure, Side
from mooring.model.errors import BadInput

_LARGEST_BYTES = 64 << 20
_TIMES_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}
_RATES = ("examples", "images", "img", "samples", "steps", "it", "tokens", "records", "batches")
_UNIT = "|".join([*_TIMES_MS, *(rf"{rate}/s(?:ec)?" for rate in _RATES), "[KMGT]i?B/s", "%"])
_MEASURE = re.compile(
    rf"^\s*(?P<name>[^\d\s:=][^:=]*?)\s*[:=]?\s*(?P<value>\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*"
    rf"(?P<unit>{_UNIT})\s*$"
)
_CONTEXT = re.compile(r"^\s*(?P<key>[A-Za-z][\w ]{1,39}?)\s*[:=]\s*(?P<value>[^\s:=].{0,119})$")
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
    for line in text.splitlines():
        match = _MEASURE.match(line)
        if match:
            what, unit = match["name"].strip(), match["unit"]
            value = float(match["value"].replace(",", ""))
            if unit in _TIMES_MS:
                value, unit = value * _TIMES_MS[unit], "ms"
            if value > 0 and units.setdefault(what, unit) == unit:
                values.setdefault(what, []).append(value)
            continue
        match = _CONTEXT.match(line)
        if match and not _TIME_OF_DAY.search(match["value"]):
            context.setdefault(match["key"].strip(), match["value"].strip())
    measures = tuple(
        Measure(what, units[what], tuple(found), _better(units[what]))
        for what, found in values.items()
    )
    return Side(name, measures, context)


def _better(unit: str) -> Better:
    if unit == "ms":
        return Better.LOWER
    return Better.NEITHER if unit == "%" else Better.HIGHER
