"""Files of members as they grow: lines and steps, part after part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from mooring.backends.local.queue.client import NotFound
from mooring.connecting.conversation import (
    REST_S,
    Answer,
    Followed,
    Live,
    Rest,
    T,
    Talk,
    Told,
    ask,
    patiently,
)
from mooring.connecting.values import Step
from mooring.model.errors import BadInput
from mooring.record.logs import LogLine

_AT_ONCE = 5000
_MOST_MEMBERS = 1000


def lines_of(
    followed: Followed, member: str | None, last: int | None, follow: bool
) -> Live[LogLine]:
    """What a member, a role or everybody printed."""

    def line(name: str, told: Answer) -> LogLine:
        return LogLine(told["at"], name, told["text"], told["stream"], told["rank"])

    parts = _Parts(followed, "logs", "lines", member, last, follow)
    yield from parts.tell(line, lambda line: line.at)


def steps_of(followed: Followed, member: str | None) -> Live[Step]:
    """What was reported and will be until the job's end."""
    parts = _Parts(followed, "samples", "samples", member, None, True, {"kind": "step"})
    yield from parts.tell(_step, lambda step: step.at_s)


def _step(name: str, told: Answer) -> Step:
    return Step(
        name,
        at_s=_number(told.get("t")) or 0.0,
        step=_whole(told.get("step")),
        total=_whole(told.get("total")),
        loss=_number(told.get("loss")),
        examples=_whole(told.get("examples")),
        rank=_whole(told.get("r")) or 0,
        count=_whole(told.get("n")) or 1,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class _Parts:
    """One kind of file. From the beginning or from the `last` entries on; as far as there is
    something or, with `follow`, until the job has ended, also where it starts anew meanwhile."""

    of: Followed
    what: str
    listed: str
    member: str | None
    last: int | None
    follow: bool
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def tell(self, item: Callable[[str, Answer], T], key: Callable[[T], Any]) -> Live[T]:
        """What is read together comes in the order of `key`."""
        places: dict[tuple[str, str], int] = {}
        while True:
            status = yield from patiently(self.of.status)
            fresh: list[T] = []
            grown = False
            names = (yield from self._members(status.run)) if status.run else ()
            for name in names:
                place = places.get((status.run, name))
                part = yield from self._part(status.run, name, place)
                if part is not None:
                    places[status.run, name] = part["next"]
                    fresh += [item(name, told) for told in part[self.listed]]
                    grown = grown or part["next"] > (place or 0)
            if fresh:
                yield Told(tuple(sorted(fresh, key=key)))
            if grown:
                continue
            if status.ended or not self.follow:
                return
            yield Rest(REST_S)

    def _members(self, run: str) -> Talk[tuple[str, ...]]:
        """Those that are asked for. Raises BadInput if there is none of that name."""
        query = f"fields=member,role&limit={_MOST_MEMBERS}"
        try:
            plan = yield from patiently(partial(ask, f"/runs/{run}/plan?{query}"))
        except NotFound:
            # It is about to begin.
            return ()
        known = plan["members"]
        names = tuple(
            one["member"] for one in known if self.member in (None, one["member"], one["role"])
        )
        if known and not names:
            accepted = f"one of {', '.join(one['member'] for one in known[:10])}, or a role"
            raise BadInput.at(self.what, "member", repr(self.member), accepted)
        return names

    def _part(self, run: str, name: str, place: int | None) -> Talk[Answer | None]:
        """None if the member has no file yet."""
        begin = {"offset": place or 0, "limit": _AT_ONCE}
        if place is None and self.last is not None:
            begin = {"tail": self.last}
        query = urlencode({"member": name, **self.query, **begin})
        try:
            return (yield from patiently(partial(ask, f"/runs/{run}/{self.what}?{query}")))
        except (BadInput, NotFound):
            return None
