"""What the first member's launcher answers about all members (`GET /status` where they meet)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mooring.backends.kubernetes.api.document import Json, find, mapping, text
from mooring.model.cluster import format_cpus


@dataclass(frozen=True)
class MemberLive:
    """One member. `own`: the CPUs that it holds are its alone; `why` not, if it should have some.

    `examples` is the total since the member started.
    """

    cpus: str = ""
    own: bool = False
    why: str = ""
    threads: int | None = None
    step: int | None = None
    total: int | None = None
    examples: float | None = None
    loss: float | None = None


#: A member says it of itself, and what a member says must fit into its job's status.
_LONGEST_WHY = 200
_LONGEST_CPUS = 200
_MOST_CPUS = 4096
_MOST_MEMBERS = 10_000
_LONGEST_NAME = 253
_LARGEST = 2**53


def parse_live(answer: Json) -> dict[str, MemberLive]:
    """Member name -> what it does; whatever is no number or text, or out of bounds, is left out."""
    found = {}
    for name, told in list(mapping(answer, "members").items())[:_MOST_MEMBERS]:
        if len(name) > _LONGEST_NAME:
            continue
        cpus = find(told, "cpus")
        listed = [
            one
            for one in (cpus[:_MOST_CPUS] if isinstance(cpus, list) else ())
            if isinstance(one, int) and 0 <= one < _LARGEST
        ]
        found[name] = MemberLive(
            cpus=shortened(format_cpus(tuple(listed)), _LONGEST_CPUS) if listed else "",
            own=find(told, "own") is True,
            why=shortened(text(told, "own_why"), _LONGEST_WHY),
            threads=_whole(told, "threads"),
            step=_whole(told, "step"),
            total=_whole(told, "total"),
            examples=_count(told, "examples"),
            loss=_number(told, "loss"),
        )
    return found


def _number(value: Json, key: str) -> float | None:
    found = find(value, key)
    if not isinstance(found, int | float) or isinstance(found, bool) or abs(found) > _LARGEST:
        return None
    return float(found) if math.isfinite(found) else None


def _count(value: Json, key: str) -> float | None:
    found = _number(value, key)
    return None if found is None or found < 0 else found


def _whole(value: Json, key: str) -> int | None:
    found = _count(value, key)
    return None if found is None else int(found)


def shortened(words: str, longest: int) -> str:
    """Printable, and no longer than that."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in words[: longest + 1])
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
