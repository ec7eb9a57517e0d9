"""What `py-spy record --format chrometrace` wrote: the main thread's stacks over time. Pure.

The format has the beginning and the end of each frame, not the looks themselves: a stack lasts from
the look that saw it first to the one that saw another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mooring.stacks.categories import LETTERS, Category
from mooring.stacks.classify import Frame, Seen, Stack, classify

#: Places of one category that are kept: more are noise.
_MOST_PLACES = 3
Source = Callable[[str, int], str]


@dataclass(frozen=True)
class Span:
    """A stack that was seen from one moment to another, in seconds after the first look began."""

    from_s: float
    to_s: float
    stack: Stack


@dataclass(frozen=True)
class Summary:
    """What is kept: one letter for each 1/hz seconds, and where the program was, by category."""

    hz: float
    seen: str
    places: dict[Category, dict[str, int]]


def read_spans(text: str, pid: int) -> list[Span]:
    """Spans of the main thread. Raises ValueError if this is no such document."""
    data = json.loads(text)
    if not isinstance(data, list):
        raise ValueError("no list of events")
    return list(_spans(data, f"thread ({pid})"))


def _spans(events: list[object], head: str) -> Iterator[Span]:
    main: object = None
    stack: list[Frame] = []
    since_s = 0.0
    for event in events:
        if not isinstance(event, dict) or event.get("ph") not in ("B", "E"):
            continue
        name = str(event.get("name", ""))
        if main is None and event["ph"] == "B" and name.startswith(head):
            main = event.get("tid")
        if main is None or event.get("tid") != main:
            continue
        at_s = float(event.get("ts", 0)) / 1e6
        if stack and at_s > since_s:
            yield Span(since_s, at_s, tuple(stack))
        since_s = at_s
        if name.startswith("thread ("):
            continue
        if event["ph"] == "B":
            told = event.get("args")
            args = told if isinstance(told, dict) else {}
            stack.append(Frame(name, str(args.get("filename", "")), int(args.get("line") or 0)))
        elif stack:
            stack.pop()


def summarise(
    spans: list[Span],
    hz: float,
    source: Source = lambda file, line: "",
    looks: int | None = None,
) -> Summary:
    """Letters at even distances, no more than there were looks.

    `source` gives a line of a program's text.
    """
    if looks and spans:
        hz = min(hz, looks / (spans[-1].to_s - spans[0].from_s))
    known = [with_text(span.stack, source) for span in spans]
    about = classify(known)
    seen: list[str] = []
    places: dict[Category, dict[str, int]] = {}
    at = 0
    if not spans:
        return Summary(hz, "", {})
    moment_s = spans[0].from_s + 0.5 / hz
    while moment_s < spans[-1].to_s:
        while spans[at].to_s <= moment_s:
            at += 1
        one = about[at]
        seen.append(LETTERS[one.category])
        if one.category is not Category.COMPUTE:
            _count(places, one)
        moment_s += 1 / hz
    return Summary(hz, "".join(seen), {name: _top(counts) for name, counts in places.items()})


def with_text(stack: Stack, source: Source) -> Stack:
    """Only the innermost line is asked for: those above it are calls that have a frame."""
    last = stack[-1]
    if not last.own:
        return stack
    return (*stack[:-1], Frame(last.function, last.file, last.line, source(last.file, last.line)))


def _count(places: dict[Category, dict[str, int]], one: Seen) -> None:
    counts = places.setdefault(one.category, {})
    counts[one.where] = counts.get(one.where, 0) + 1


def _top(counts: dict[str, int]) -> dict[str, int]:
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return dict(most[:_MOST_PLACES])
