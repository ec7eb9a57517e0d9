"""What is around a run's members: the cards of its nodes, and the rest of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.doctor.facts import MachineFacts, NicFacts
from mooring.doctor.told import mapping, number, whole
from mooring.record import read_lines
from mooring.record.journal import JsonValue, Line

#: Fewer samples than this say nothing about a rate.
LEAST_SAMPLES = 3
Window = tuple[float, float]


@dataclass(frozen=True)
class _Count:
    """A card's counters at one time; `busy_s` None in runs of before it was counted."""

    at_s: float
    received_bytes: float
    sent_bytes: float
    busy_s: float | None


def read_cards_of_nodes(events: Path, window: Window) -> tuple[NicFacts, ...]:
    """Rates of each node's card within the window, from the counters that the run noted."""
    limits: Mapping[str, JsonValue] = {}
    seen: dict[str, list[_Count]] = {}
    for line in read_lines(events):
        if line.get("kind") == "body":
            limits = mapping(line, "nodes")
        elif line.get("kind") == "nodes":
            for name, count in _counts(line):
                seen.setdefault(name, []).append(count)
    cards = []
    for name, counts in sorted(seen.items()):
        inside = [one for one in counts if window[0] <= one.at_s <= window[1]]
        inside = inside if len(inside) >= LEAST_SAMPLES else counts
        limit = limits.get(name)
        if inside[-1].at_s > inside[0].at_s:
            cards.append(_card(name, limit if isinstance(limit, int) else None, inside))
    return tuple(cards)


def _counts(line: Line) -> Iterator[tuple[str, _Count]]:
    busy_s = mapping(line, "busy_s")
    for name, pair in mapping(line, "bytes").items():
        if not isinstance(pair, list):
            continue
        counted = [float(one) for one in pair if isinstance(one, int | float)]
        if len(counted) == 2:
            known = number(busy_s, name) if name in busy_s else None
            yield name, _Count(number(line, "t"), counted[0], counted[1], known)


def _card(name: str, limit_mbps: int | None, counts: list[_Count]) -> NicFacts:
    first, last = counts[0], counts[-1]
    span_s = last.at_s - first.at_s
    in_turns = None
    if first.busy_s is not None and last.busy_s is not None:
        in_turns = max(0.0, last.busy_s - first.busy_s) / span_s
    return NicFacts(
        name,
        limit_mbps,
        (last.received_bytes - first.received_bytes) * 8 / 1e6 / span_s,
        (last.sent_bytes - first.sent_bytes) * 8 / 1e6 / span_s,
        in_turns,
    )


def read_machine(events: Path, window: Window) -> MachineFacts | None:
    """From the totals that the run noted; None of a run of before they were."""
    points = [line for line in read_lines(events) if line.get("kind") == "machine"]
    inside = [line for line in points if window[0] <= number(line, "t") <= window[1]]
    inside = inside if len(inside) >= LEAST_SAMPLES else points
    if len(inside) < LEAST_SAMPLES:
        return None
    first, last = inside[0], inside[-1]
    span_s = number(last, "t") - number(first, "t")
    cpus = whole(last, "cpus")
    if span_s <= 0 or not cpus:
        return None
    used = max(0.0, number(last, "cpu_s") - number(first, "cpu_s")) / span_s
    return MachineFacts(cpus, used, int(number(last, "available_bytes")))
