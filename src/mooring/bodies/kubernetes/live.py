"""What the first member's launcher answers about all members (`GET /status` where they meet)."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.kubeapi.document import Json, find, mapping, text
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


def parse_live(answer: Json) -> dict[str, MemberLive]:
    """Member name -> what it does; whatever is no number or text is left out."""
    found = {}
    for name, told in mapping(answer, "members").items():
        cpus = find(told, "cpus")
        listed = [one for one in cpus if isinstance(one, int)] if isinstance(cpus, list) else []
        found[name] = MemberLive(
            cpus=format_cpus(tuple(listed)) if listed else "",
            own=find(told, "own") is True,
            why=text(told, "own_why"),
            threads=_whole(told, "threads"),
            step=_whole(told, "step"),
            total=_whole(told, "total"),
            examples=_number(told, "examples"),
            loss=_number(told, "loss"),
        )
    return found


def _number(value: Json, key: str) -> float | None:
    found = find(value, key)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _whole(value: Json, key: str) -> int | None:
    found = _number(value, key)
    return None if found is None or found != found or abs(found) > 2**53 else int(found)
