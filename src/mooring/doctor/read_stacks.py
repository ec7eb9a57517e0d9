"""Looks at trainers' stacks (stacks/M.jsonl) to facts: shares of time, and what comes again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from mooring.doctor.facts import ReadFacts, Repeats, StackFacts
from mooring.record.journal import JsonValue, Line
from mooring.stacks.categories import OF_LETTER, Category

#: Fewer looks say nothing about a share.
LEAST_LOOKS = 30
#: Of the same thing, to say how often it comes.
_LEAST_EPISODES = 3
_MORE_THAN_CHANCE = 2.0
#: Two records with a longer pause between them are not one sequence.
_PAUSE_S = 3.0
_NAMES = frozenset(one.value for one in Category)
Window = tuple[float, float]


@dataclass(frozen=True)
class _Look:
    at_s: float
    lasts_s: float
    category: Category


def read_stacks(lines: Iterable[Line], window: Window) -> tuple[tuple[StackFacts, ...], str]:
    """Facts of each process with enough looks in the window (or at all), and what went wrong."""
    by_pid: dict[int, list[Line]] = {}
    error = ""
    for line in lines:
        error = str(line.get("error") or error)
        pid = line.get("pid")
        if line.get("kind") == "stacks" and isinstance(pid, int) and line.get("seen"):
            by_pid.setdefault(pid, []).append(line)
    found = [_facts(told, window) for told in by_pid.values()]
    known = tuple(one for one in found if one is not None)
    return known, "" if known else error


def _facts(lines: list[Line], window: Window) -> StackFacts | None:
    inside = [line for line in lines if _within(line, window)]
    looks = [one for line in inside for one in _looks(line) if window[0] <= one.at_s <= window[1]]
    if len(looks) < LEAST_LOOKS:
        inside, looks = lines, [one for line in lines for one in _looks(line)]
    if len(looks) < LEAST_LOOKS:
        return None
    total_s = sum(one.lasts_s for one in looks)
    shares: dict[Category, float] = {}
    for one in looks:
        shares[one.category] = shares.get(one.category, 0.0) + one.lasts_s / total_s
    repeats = {name: found for name in shares if (found := _repeats(looks, name)) is not None}
    return StackFacts(
        looks=len(looks),
        shares=shares,
        places=_places(inside),
        repeats=repeats,
        loaders=max(int(_number(_mapping(line, "io"), "loaders")) for line in inside),
        reads=_reads(inside),
    )


def _within(line: Line, window: Window) -> bool:
    from_s = _number(line, "t")
    to_s = from_s + len(str(line.get("seen"))) / (_number(line, "hz") or 1.0)
    return from_s <= window[1] and to_s >= window[0]


def _looks(line: Line) -> list[_Look]:
    lasts_s = 1 / (_number(line, "hz") or 1.0)
    from_s = _number(line, "t")
    return [
        _Look(from_s + place * lasts_s, lasts_s, OF_LETTER[letter])
        for place, letter in enumerate(str(line.get("seen")))
        if letter in OF_LETTER
    ]


def _repeats(looks: Sequence[_Look], category: Category) -> Repeats | None:
    """How often it begins, if it was seen in a row far more often than chance would have it.

    What comes in every short step is seen here and there: then a row of looks with share p has
    1 / (1 - p) of them on average.
    """
    episodes: list[tuple[float, float]] = []
    gaps: list[float] = []
    begun: float | None = None
    ended_s = float("-inf")
    for before, one in zip([None, *looks], looks, strict=False):
        if before is not None and one.at_s - before.at_s > _PAUSE_S:
            # What was under way may have ended unseen.
            begun, ended_s = None, float("-inf")
        if one.category is category and begun is None:
            begun = one.at_s
        elif one.category is not category and begun is not None:
            if ended_s > float("-inf"):
                gaps.append(begun - episodes[-1][0])
            episodes.append((begun, one.at_s - begun))
            ended_s, begun = one.at_s, None
    if len(episodes) < _LEAST_EPISODES or not gaps:
        return None
    share = sum(one.category is category for one in looks) / len(looks)
    in_a_row = mean(lasts for _, lasts in episodes) / mean(one.lasts_s for one in looks)
    if in_a_row * (1 - share) < _MORE_THAN_CHANCE:
        return None
    return Repeats(every_s=median(gaps), lasts_s=median(lasts for _, lasts in episodes))


def _places(lines: Iterable[Line]) -> dict[Category, str]:
    counts: dict[Category, dict[str, float]] = {}
    for line in lines:
        told = _mapping(line, "places")
        for name in told:
            if name in _NAMES:
                of_name = counts.setdefault(Category(name), {})
                for place, count in _mapping(told, name).items():
                    of_name[place] = of_name.get(place, 0.0) + (
                        float(count) if isinstance(count, int | float) else 0.0
                    )
    return {
        name: max(of_name, key=lambda place: (of_name[place], place))
        for name, of_name in counts.items()
        if of_name
    }


def _reads(lines: Iterable[Line]) -> ReadFacts | None:
    told = [_mapping(line, "io") for line in lines]
    span_s = sum(_number(one, "span_s") for one in told)
    if span_s <= 0:
        return None
    kinds: dict[str, float] = {}
    for one in told:
        for kind in _mapping(one, "kinds"):
            kinds[kind] = kinds.get(kind, 0.0) + _number(_mapping(one, "kinds"), kind)

    def rate(name: str) -> float:
        return sum(_number(one, name) for one in told) / span_s

    return ReadFacts(
        asked_bytes_per_s=rate("asked_bytes"),
        calls_per_s=rate("calls"),
        fetched_bytes_per_s=rate("fetched_bytes"),
        file_systems=tuple(sorted(kinds, key=lambda kind: (-kinds[kind], kind))),
        files=int(max(_number(one, "files") for one in told)),
        main_cpus=rate("main_cpu_s") if any("main_cpu_s" in one for one in told) else None,
        loader_cpus=rate("loader_cpu_s") if any("loader_cpu_s" in one for one in told) else None,
    )


def _number(line: Mapping[str, JsonValue], name: str) -> float:
    value = line.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _mapping(line: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    value = line.get(name)
    return value if isinstance(value, dict) else {}
