"""The kinds of values that a file's fields hold: text, names, counts, quantities, durations.

Each kind says in words what it accepts, and is strict: YAML's `yes`, `1.0` and `"3"` are not
silently turned into something else, because a Kubernetes API server would not do so either.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, Strict, WithJsonSchema

from mooring.model.amounts import format_duration
from mooring.model.resources import format_cpu, parse_quantity
from mooring.spec.base import reject, shorten

#: Event loops and poll(2) count milliseconds in 32 bits or clamp to days; a year is beyond any job.
LONGEST_DURATION_S = 365 * 24 * 3600.0
LONGEST_JOB_NAME = 40
LONGEST_ROLE_NAME = 15
LONGEST_LABEL = 63

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|h|m|s)", re.ASCII)
_UNIT_S = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_UNIT_ORDER = ("h", "m", "s", "ms")
_LONGEST_DURATION_TEXT = 64
_QUANTITY_EXAMPLES = {
    "cpu": "a number of CPUs such as 2, 0.5 or 500m (no finer than 1m, not negative)",
    "memory": "an amount of bytes such as 512Mi, 4Gi or 1000000000 (whole, not negative)",
    "gpu": "a whole number of devices such as 0, 1 or 8, or a share of one card below 1 in "
    "thousandths, such as 0.25",
}


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        hint = ""
        if isinstance(value, int | float) and not (
            isinstance(value, int) and value.bit_length() > 200
        ):
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            hint = f' (in quotes: "{shown}")'
        raise reject(value, f"a text{hint}")
    if "\0" in value:
        raise reject(value, "a text without NUL characters")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise reject(value, "a text without lone surrogates") from None
    return value


def _check_filled(value: str) -> str:
    if not value.strip():
        raise reject(value, "a text that is not empty")
    return value


def dns_label(value: str, limit: int) -> str:
    """`value` if it can be one part of a host name, within `limit` characters."""
    if len(value) > limit or _LABEL.fullmatch(value) is None:
        raise reject(
            value,
            f"a name of 1 to {limit} characters: lower-case letters, digits and '-', beginning "
            "with a letter and not ending with '-'",
        )
    return value


def _label_schema(limit: int) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{_LABEL.pattern}$", "maxLength": limit}


def _check_env_name(value: str) -> str:
    if not value or "=" in value:
        raise reject(value, "a variable name: not empty and without '='")
    if value.startswith("MOORING_"):
        raise reject(value, "another name: those that begin with MOORING_ are set by Mooring")
    return value


Text = Annotated[str, BeforeValidator(_check_text)]
FilledText = Annotated[str, BeforeValidator(lambda value: _check_filled(_check_text(value)))]
JobName = Annotated[
    str,
    BeforeValidator(lambda value: dns_label(_check_text(value), LONGEST_JOB_NAME)),
    WithJsonSchema(_label_schema(LONGEST_JOB_NAME)),
]
RoleName = Annotated[
    str,
    BeforeValidator(lambda value: dns_label(_check_text(value), LONGEST_ROLE_NAME)),
    WithJsonSchema(_label_schema(LONGEST_ROLE_NAME)),
]
Label = Annotated[
    str,
    BeforeValidator(lambda value: dns_label(_check_text(value), LONGEST_LABEL)),
    WithJsonSchema(_label_schema(LONGEST_LABEL)),
]
EnvName = Annotated[str, BeforeValidator(lambda value: _check_env_name(_check_text(value)))]
Whole = Annotated[int, Strict()]
YesNo = Annotated[bool, Strict()]
Number = Annotated[float, Strict()]


def _check_priority(value: object) -> object:
    if isinstance(value, str):
        return dns_label(_check_text(value), LONGEST_LABEL)
    number = isinstance(value, int) and not isinstance(value, bool)
    if number and isinstance(value, int) and -(2**31) <= value < 2**31:
        return value
    raise reject(value, "a whole number from -2147483648 to 2147483647, or the name of a class")


PriorityNumber = Annotated[Whole, Field(ge=-(2**31), le=2**31 - 1)]
Priority = Annotated[PriorityNumber | Label, BeforeValidator(_check_priority)]


def _check_threads(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value == "auto" or (whole and isinstance(value, int) and 1 <= value <= 4096):
        return value
    raise reject(value, "auto, or a whole number from 1 to 4096")


Threads = Annotated[
    Literal["auto"] | Annotated[int, Field(ge=1, le=4096)], BeforeValidator(_check_threads)
]


def parse_duration(value: object) -> float:
    """Seconds of `90`, `1.5`, `90s`, `10m`, `1h30m`, `250ms`."""
    accepted = "a number of seconds, or a duration such as 250ms, 90s, 10m or 1h30m"
    seconds: float
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise reject(value, accepted)
    if isinstance(value, str):
        seconds = _parse_duration_text(value, accepted)
    elif isinstance(value, int) and value.bit_length() > 64:
        raise reject(value, "a duration of at most 8760h")
    else:
        seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise reject(value, accepted + " (not negative)")
    if seconds > LONGEST_DURATION_S:
        raise reject(value, "a duration of at most 8760h")
    return seconds


def _parse_duration_text(text: str, accepted: str) -> float:
    position, total, units = 0, Decimal(0), []
    while len(text) <= _LONGEST_DURATION_TEXT and position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None:
            break
        total += Decimal(part.group(1)) * _UNIT_S[part.group(2)]
        units.append(_UNIT_ORDER.index(part.group(2)))
        position = part.end()
    if not units or position < len(text) or units != sorted(set(units)):
        raise reject(text, accepted)
    return float(total)


#: Marks a schema for the reference page; no part of the exported schema.
KIND = "x-kind"
_DURATION_SCHEMA: dict[str, Any] = {
    KIND: "duration",
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": LONGEST_DURATION_S},
        {"type": "string", "pattern": r"^((\d+(\.\d+)?|\.\d+)(h|ms|m|s))+$", "maxLength": 64},
    ],
}
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, when_used="json"),
    WithJsonSchema(_DURATION_SCHEMA),
]


def _parse_amount(value: object, kind: str) -> Decimal:
    accepted = _QUANTITY_EXAMPLES[kind]
    # Python refuses to print integers of more than 4300 digits; these are long out of range.
    huge = isinstance(value, int) and value.bit_length() > 64
    if isinstance(value, Decimal):
        amount = value
    elif huge or isinstance(value, bool) or not isinstance(value, int | float | str):
        raise reject(value, accepted)
    else:
        try:
            amount = parse_quantity(str(value))
        except ValueError as error:
            reason = "" if "not a" in str(error) else f" ({error})"
            raise reject(value, accepted + reason) from None
    if not amount.is_finite() or not 0 <= amount < 2**63:
        raise reject(value, accepted)
    return amount


def _parse_cpu(value: object) -> Decimal:
    amount = _parse_amount(value, "cpu")
    if amount > 1_000_000 or amount * 1000 % 1:
        raise reject(value, _QUANTITY_EXAMPLES["cpu"])
    return amount


def _parse_memory(value: object) -> int:
    amount = _parse_amount(value, "memory")
    if amount % 1:
        raise reject(value, _QUANTITY_EXAMPLES["memory"])
    return int(amount)


def _parse_gpu(value: object) -> Decimal:
    amount = _parse_amount(value, "gpu")
    if amount > 1_000_000 or (amount * 1000 % 1 if amount < 1 else amount % 1):
        raise reject(value, _QUANTITY_EXAMPLES["gpu"])
    return amount


def _format_gpu(amount: Decimal) -> int | float:
    return int(amount) if amount % 1 == 0 else float(amount)


def _format_cpu(amount: Decimal) -> int | str:
    millis = int(amount * 1000)
    return millis // 1000 if millis % 1000 == 0 else format_cpu(millis)


def _format_bytes(amount: int) -> int | str:
    for power in range(6, 0, -1):
        if amount and amount % 1024**power == 0:
            return f"{amount // 1024**power}{'KMGTPE'[power - 1]}i"
    return amount


_QUANTITY_SCHEMA: dict[str, Any] = {
    KIND: "quantity",
    "anyOf": [
        {"type": "number", "minimum": 0},
        {
            "type": "string",
            "pattern": r"^\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3}|[numkMGTPE]|[KMGTPE]i)?$",
            "maxLength": 64,
        },
    ],
}
Cpus = Annotated[
    Decimal,
    BeforeValidator(_parse_cpu),
    PlainSerializer(_format_cpu, when_used="json"),
    WithJsonSchema(_QUANTITY_SCHEMA),
]
Memory = Annotated[
    int,
    BeforeValidator(_parse_memory),
    PlainSerializer(_format_bytes, when_used="json"),
    WithJsonSchema(_QUANTITY_SCHEMA),
]
Gpus = Annotated[
    Decimal,
    BeforeValidator(_parse_gpu),
    PlainSerializer(_format_gpu, when_used="json"),
    WithJsonSchema(_QUANTITY_SCHEMA),
]


def _check_relative(value: str) -> str:
    parts = value.replace("\\", "/").split("/")
    if not value.strip() or value.startswith(("/", "\\", "~")) or ".." in parts:
        raise reject(shorten(value), "a path below the job file's folder, without '..'")
    return value


RelativePath = Annotated[str, BeforeValidator(lambda value: _check_relative(_check_text(value)))]
